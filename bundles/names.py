"""Can every system hold these files side by side, under the same names?

Standard library only. Names of letters, digits and . _ + - leave no room for what Windows forbids, what Unicode
normalises, what a shell or `sha256sum -c` reads as an option or an escape, and what leads out of a folder.
"""

import re
from itertools import pairwise

PART = re.compile(r"[A-Za-z0-9._+-]+")
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
LONGEST = 200  # characters of a whole path, which leaves Windows 60 for the folder that it is put in


def _part_fault(part):
    """Return why a file or folder cannot have this name everywhere, or None when it can."""
    if part in ("", ".", ".."):
        return "unsafe path, a part of it is empty, '.' or '..'"
    if not PART.fullmatch(part):
        return "characters other than ASCII letters, digits and . _ + -"
    if part.startswith("-"):
        return "a dash at the beginning, which tools take for an option"
    if part.endswith("."):
        return "a dot at the end, which Windows drops"
    if part.split(".")[0].lower() in RESERVED:
        return "a name that Windows keeps for a device"
    return None


def _path_fault(name):
    if name.startswith("/"):
        return "unsafe path, it is absolute"
    if len(name) > LONGEST:
        return f"{len(name)} characters, over {LONGEST}"
    return next(filter(None, map(_part_fault, name.split("/"))), None)


def _parents(name):
    parts = name.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))}


def name_findings(names):
    """Return every reason why files of these names cannot stand side by side in one folder of any system.

    `names` are relative paths with /, in which one may occur more than once, which is a finding too. While a path has
    a fault of its own, only such faults are named.
    """
    names = sorted(names)
    findings = [f"{name!r}: {fault}" for name in sorted(set(names)) if (fault := _path_fault(name))]
    if findings:
        return findings
    findings = [f"{name!r}: occurs twice" for name, after in pairwise(names) if name == after]
    parents = set().union(*map(_parents, names))
    findings += [f"{name!r}: both a file and a folder" for name in sorted(parents.intersection(names))]
    spelled = {}
    for name in sorted(parents.union(names)):
        first = spelled.setdefault(name.lower(), name)
        if first != name:
            findings.append(f"{name!r}: differs only in case from {first!r}")
    return findings
