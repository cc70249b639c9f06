"""The README.md of a supplement, for freeze_supplement.py."""

from pathlib import PurePosixPath

CHECKS = """\
## Check it

    sha256sum -c --quiet manifest.sha256    # or: shasum -a 256 -c manifest.sha256
    python -B verify_all.py                 # Python 3.11 or newer; NumPy for some parts; half a minute on one core

The first compares the files with the list. The second does so too, finds files that are not listed, and derives the
frozen numbers again, one line a part (what it cannot derive is listed below). Exit code 0: every part ran and holds;
1: something is false; 2: something could not be checked; either is named. Neither can tell who made this folder:
compare the archive's SHA-256 with the published one first.

Each command of the table can be run alone. Keep `-B`: without it Python leaves `__pycache__` folders, not in the list.
To prepare data or train, work in a copy of this folder: what that writes is not listed either.
"""

LICENCE = """\
## Licence

MIT (LICENSE).
"""


def matches(names, patterns):
    """The sorted names that match one of the patterns whole; `*` stays within a folder."""
    return sorted(name for name in names if any(PurePosixPath("/", name).match(f"/{pattern}") for pattern in patterns))


def table(header, rows):
    """Lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]


def parts_table(parts):
    rows = [[part["name"], f"`python -B {' '.join(part['command'])}`", ", ".join(part["needs"]) or "standard library"]
            for part in parts]
    return table(["part", "command", "needs"], rows)


def contents_table(contents, names):
    """What is here, by pattern, with the number of files; a file may stand in two lines."""
    rows = []
    for entry in contents:
        count = len(matches(names, entry["files"]))
        rows += [[entry["what"], ", ".join(f"`{pattern}`" for pattern in entry["files"]), str(count)]] if count else []
    return table(["what", "files", "number"], rows)


def section(title, lines):
    """A section, or nothing when it would be empty."""
    return ["", f"## {title}", "", *lines] if lines else []


def page(name, content, names, parts, without, records):
    """The page's text; `records` are the SHA-256 of what it extends, `without` what it was frozen without."""
    extends = [f"    {digest}  {path}" for path, digest in sorted(records.items())]
    extends += ["", "This holds only what they lack or what `errata.json` says it replaces."] if records else []
    lines = [f"# {name}", "", content["about"], "", *CHECKS.splitlines(), "", *parts_table(parts)]
    lines += section("Extends", extends) + section("What is here", contents_table(content["contents"], names))
    lines += section("Frozen without", [f"* {what}" for what in without])
    lines += section("Not checked here", [f"* {limit}" for limit in content["limits"]])
    notices = ["Third parties: THIRD_PARTY.md."] if "THIRD_PARTY.md" in names else []
    return "\n".join([*lines, "", *LICENCE.splitlines(), *notices]) + "\n"
