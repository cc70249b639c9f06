"""The README.md of a supplement, for freeze_supplement.py."""

from pathlib import PurePosixPath

CHECKS = """\
## Check it

    sha256sum -c --quiet manifest.sha256    # or: shasum -a 256 -c manifest.sha256
    python -B verify_all.py                 # Python 3.11 or newer; most verifiers need NumPy

The first command compares the files with the list. The second does so too, finds files that are not listed, and derives
the frozen numbers again: it prints one line for each verifier. Exit code 0 means that every verifier ran and holds, 1
that something is false, and 2 that something could not be checked; the output names it. Neither command can tell who
made this folder: compare the archive's SHA-256 with the published one first.

Each command of the table can be run alone. Keep `-B`: without it Python writes `__pycache__` folders, which are not in
the list. To prepare data or to train, work in a copy of this folder, because that writes unlisted files too.
"""

LICENCE = """\
## Licence

MIT (LICENSE).
"""


def matches(names, patterns):
    """Return the sorted names that match one of the patterns whole; `*` stays within a folder."""
    return sorted(name for name in names if any(PurePosixPath("/", name).match(f"/{pattern}") for pattern in patterns))


def table(header, rows):
    """Return the lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]


def verifiers_table(verifiers):
    """Return the lines of a table with one row for each verifier: what it shows, how to run it, what it needs."""
    rows = [[verifier["claim"], f"`python -B {' '.join(verifier['command'])}`",
             ", ".join(verifier["needs"]) or "standard library"] for verifier in verifiers]
    return table(["claim", "command", "needs"], rows)


def contents_table(contents, names):
    """Return a table of the files by pattern, with their numbers; a file may be in two lines."""
    rows = []
    for entry in contents:
        count = len(matches(names, entry["files"]))
        if count:
            rows.append([entry["what"], ", ".join(f"`{pattern}`" for pattern in entry["files"]), str(count)])
    return table(["what", "files", "number"], rows)


def section(title, lines):
    """Return the lines of a section, or none when it would be empty."""
    return ["", f"## {title}", "", *lines] if lines else []


def page(name, content, names, listed, records):
    """Return the page's text.

    `content` is manifests/supplement_vN.json, `names` are the supplement's files, `listed` is its list of verifiers,
    and `records` holds the SHA-256 of the supplements that it extends.
    """
    extends = [f"    {digest}  {path}" for path, digest in sorted(records.items())]
    if records:
        extends += ["", "This supplement holds only what they lack, or what `errata.json` says that it replaces."]
    errata = [f"* `{erratum['file']}`: {erratum['wrong']} Replaced by: {erratum['replaced_by'] or 'nothing'}."
              for erratum in content["errata"]]
    lines = [f"# {name}", "", content["about"], "", *CHECKS.splitlines(), "", *verifiers_table(listed["verifiers"])]
    lines += section("Extends", extends) + section("Errata", errata)
    lines += section("What is here", contents_table(content["contents"], names))
    lines += section("Frozen without", [f"* {what}" for what in listed["frozen_without"]])
    lines += section("Not checked here", [f"* {limit}" for limit in content["limits"]])
    notices = ["Third parties: THIRD_PARTY.md."] if "THIRD_PARTY.md" in names else []
    return "\n".join([*lines, "", *LICENCE.splitlines(), *notices]) + "\n"
