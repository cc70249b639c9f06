"""Which files go into a supplement, and which verifiers? For freeze_supplement.py; standard library only."""

from pathlib import PurePosixPath

from bundles.archive import EVIDENCE
from bundles.names import name_findings
from bundles.page import matches
from evidence import InputError, read_json, require_keys, sha256_bytes

VERIFIERS = "manifests/verifiers.json"
# What every supplement carries, so that it can be checked without another.
EACH = ("LICENSE", "evidence.py", "files.py", "manifest.py", "surroundings.py", "verify_all.py", "bundles/names.py",
        "bundles/archive.py")


def is_evidence(name):
    """Whether a path is frozen evidence or a protocol. Code and pages may differ between supplements; these may not."""
    return name.startswith(("research/", "protocols/")) and name.endswith(EVIDENCE)


def read_contents(root, name):
    """Return manifests/<name>.json, the table of contents of a supplement, with its exact keys."""
    path = root / "manifests" / f"{name}.json"
    content = read_json(path)
    require_keys(content, ("about", "contents", "errata", "limits", "verifiers"), path)
    for key, keys in (("contents", ("files", "what")), ("errata", ("file", "replaced_by", "wrong"))):
        for number, entry in enumerate(content[key]):
            require_keys(entry, keys, f"{path}: {key}[{number}]")
    return content


def is_linked(root, name):
    """Whether a file below the root, or a folder that holds it, is a symbolic link: its bytes may be anybody's."""
    return any((root / part).is_symlink() for part in (name, *PurePosixPath(name).parents[:-1]))


def gather(root, contents):
    """Return ({name: bytes} of all files that match a pattern or go into each supplement, patterns without a match)."""
    found, empty = set(EACH), []
    for pattern in [pattern for entry in contents for pattern in entry["files"]]:
        paths = [path for path in root.glob(pattern) if path.is_file() or path.is_symlink()]
        found |= {path.relative_to(root).as_posix() for path in paths}
        if not paths:
            empty.append(pattern)
    if findings := name_findings(found):
        raise InputError(f"{root}: not every system can hold these files: {'; '.join(findings)}")
    if linked := [name for name in sorted(found) if is_linked(root, name)]:
        raise InputError(f"{root}: symbolic links, or in linked folders: {', '.join(linked)}; put the files there")
    return {name: (root / name).read_bytes() for name in sorted(found)}, empty


def settle_verifiers(root, chosen, names):
    """Return (the chosen verifiers, their evidence written out as names; ["verifier: no FILE"] of those left out)."""
    known = {verifier["name"]: verifier for verifier in read_json(root / VERIFIERS)["verifiers"]}
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"{root / VERIFIERS}: no verifier {', '.join(unknown)}; there are {', '.join(known)}")
    settled, lacking = [], []
    for verifier in [known[name] for name in chosen]:
        patterns = [verifier["command"][0], *verifier["evidence"]]
        absent = [pattern for pattern in patterns if not matches(names, [pattern])]
        if absent:
            lacking.append(f"{verifier['name']}: no {', '.join(absent)}")
        else:
            settled.append(verifier | {"evidence": matches(names, verifier["evidence"])})
    return settled, lacking


def only_new(files, held, errata):
    """Return the files without the evidence that an earlier version holds.

    InputError names evidence that differs without an erratum, an erratum about a file that no earlier version holds,
    and one whose replacement is not here.
    """
    wrong = {entry["file"] for entry in errata}
    if unknown := sorted(wrong - {name for name in held if is_evidence(name)}):
        raise InputError(f"errata: {', '.join(unknown)}: no evidence of an earlier version")
    kept = {name for name in files if is_evidence(name) and name in held}
    changed = {name for name in kept if sha256_bytes(files[name]) != held[name]}
    if silent := sorted(changed - wrong):
        raise InputError(f"{', '.join(silent)}: differs from the version before; say in an erratum what was wrong")
    new = {name: data for name, data in files.items() if name not in kept - changed}
    if not set(new) - set(held) - set(EACH) and not changed:
        raise InputError("nothing here that the versions before lack")
    if absent := [entry["replaced_by"] for entry in errata if entry["replaced_by"] not in (None, *new)]:
        raise InputError(f"errata: replaced_by {', '.join(absent)}: not in this supplement")
    return new
