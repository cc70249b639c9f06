"""Do the files here have the SHA-256 that the manifests record, and the inputs of evidence the SHA-256 that it states?

Reads   manifests/frozen.sha256 and every .json, .npy, .png and .sha256 file below research/; every entry
        {"path", "sha256"} of a list `inputs` in that JSON; manifests/NAME.sha256 for each protocol NAME, and data/NAME
        where it is prepared; manifests/supplement_vN.sha256, the folder, its own list, and the archive made again from
        the folder
Writes  with --freeze alone, manifests/frozen.sha256 anew from the files below research/
Needs   Python's standard library
About   one second

    python check_manifests.py [--freeze] [--root DIR]

An input is looked up at its path, in the list of a study's data, or, for code that has moved on since, in a supplement.
Inputs below runs/ and files that are not here are named and left out. Exit code 1: a file is not what a manifest or
evidence states. 2: nothing was found false, and a list or file could not be read; the rest was checked.
"""

import sys
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import evidence
from bundles.archive import EVIDENCE
from bundles.archive import frozen_findings as supplement_findings
from bundles.names import name_findings
from evidence import Checks, InputError, read_json, run_script
from files import sha256_file, write_atomic
from manifest import format_manifest, manifest_findings, read_manifest
from protocols.schema import study_protocols

ROOT = Path(__file__).resolve().parent

FROZEN = "manifests/frozen.sha256"
SYSTEM_FILES = (".DS_Store", "Thumbs.db", "desktop.ini", "._")  # which file managers write into any folder


def frozen_files(root):
    """Return {path relative to the root: SHA-256} of every file of evidence below research/."""
    paths = [path for suffix in EVIDENCE for path in (root / "research").rglob(f"*{suffix}")]
    return {path.relative_to(root).as_posix(): sha256_file(path) for path in paths}


def counts(finding, folder):
    """Whether a finding counts: an unlisted file does only when it is evidence or a symlink; scripts come and go."""
    extra = finding.removesuffix(": extra")
    return extra == finding or extra.endswith(EVIDENCE) or (folder / extra).is_symlink()


def research_findings(listed, root):
    """Return every way the evidence below research/ departs from the list, and names that some system cannot hold."""
    folder = root / "research"
    inside = {name.removeprefix("research/"): listed[name] for name in listed if name.startswith("research/")}
    findings = [f"{name}: not under research/" for name in listed if not name.startswith("research/")]
    findings += [f"research/{found}" for found in manifest_findings(inside, folder) if counts(found, folder)]
    return name_findings(listed) + findings


def frozen_part(root):
    """Return (text, findings) of the list of frozen evidence."""
    listed = read_manifest(root / FROZEN)
    return f"{FROZEN}: {len(listed)} files", research_findings(listed, root)


# ------------------------------------------------------------------------------------------- inputs


def stated_inputs(value):
    """Return every object in a list named `inputs`, wherever in a JSON value; other such lists hold token ids."""
    if isinstance(value, list):
        return [entry for item in value for entry in stated_inputs(item)]
    if not isinstance(value, dict):
        return []
    named = value.get("inputs")
    found = [entry for entry in named if isinstance(entry, dict)] if isinstance(named, list) else []
    return found + [entry for item in value.values() for entry in stated_inputs(item)]


def known_digests(path, root):
    """Return {place: SHA-256} of an input that is here: by the list of a study's data, or by the bytes of the file.

    Code moves on while the evidence made with it stays, so a supplement's copy of code counts too.
    """
    if path.startswith("data/"):
        study, _, name = path.removeprefix("data/").partition("/")
        manifest = root / "manifests" / f"{study}.sha256"
        return {f"manifests/{study}.sha256": read_manifest(manifest).get(name)} if manifest.exists() else {}
    copies = sorted(root.glob(f"supplement_v*/{path}")) if path.endswith(".py") else []
    return {place.relative_to(root).as_posix(): sha256_file(place)
            for place in (root / path, *copies) if place.is_file()}


def input_findings(entry, root):
    """Return (problems, notes) of one stated input; a note says where it was found, or why it is left out."""
    if set(entry) != {"path", "sha256"} or not all(isinstance(text, str) for text in entry.values()):
        return [f"inputs: expected a path and its sha256, found {entry}"], []
    path, stated = entry["path"], entry["sha256"]
    if faults := name_findings([path]):
        return [f"inputs: {fault}" for fault in faults], []
    if path.startswith("runs/"):
        return [], ["under runs/, left out"]
    known = known_digests(path, root)
    if not known:
        return [], [f"{path} not here, left out"]
    places = [place for place, digest in known.items() if digest == stated]
    if not places:
        found = ", ".join(f"{digest or 'no line'} in {place}" for place, digest in known.items())
        return [f"inputs: {path}: expected {stated}, found {found}"], []
    return [], [f"{path} as in {places[0]}"] if places[0].startswith("supplement_v") else []


def inputs_part(root, path):
    """Return (text, findings) of the inputs that a frozen file names, or None when it names none."""
    entries, findings, notes = stated_inputs(read_json(path)), [], Counter()
    if not entries:
        return None
    for entry in entries:
        problems, said = input_findings(entry, root)
        findings += problems
        notes.update(said)
    noted = "".join(f"; {note}" + (f" ({count})" if count > 1 else "") for note, count in sorted(notes.items()))
    return f"{path.relative_to(root).as_posix()}: {len(entries)} inputs{noted}", findings


# ------------------------------------------------------------------------------ data and supplements


def data_findings(listed, directory):
    """Return names that some system cannot hold, and every way prepared data depart from the list, in its folders."""
    folders = {name.split("/")[0] for name in listed}

    def counts(finding):
        extra = finding.removesuffix(": extra")
        if extra == finding:
            return True
        return extra.split("/")[0] in folders and not Path(extra).name.startswith(SYSTEM_FILES)

    return name_findings(listed) + [finding for finding in manifest_findings(listed, directory) if counts(finding)]


def data_part(root, study):
    """Return (text, findings) of a study's list: its names alone without the data, and None without a list."""
    manifest, data = root / f"manifests/{study}.sha256", root / "data" / study
    if not manifest.exists():
        print(f"left out {study}: no {manifest}")
        return None
    listed = read_manifest(manifest)
    text = f"{manifest.relative_to(root).as_posix()}: {len(listed)} "
    if not data.exists():
        return f"{text}names; left out the files: no {data}", name_findings(listed)
    return f"{text}files", data_findings(listed, data)


def supplement_part(root, name):
    """Return (text, findings) of a supplement that is recorded or here; one without the other is a finding."""
    count = sum(path.is_file() for path in (root / name).rglob("*"))
    return f"{name}: {count} files", supplement_findings(root, name)


# --------------------------------------------------------------------------------------------- main


def parts(root):
    """Return functions of no argument: each gives the (text, findings) of one check, or None where none is due."""
    recorded = {path.stem for path in (root / "manifests").glob("supplement_v*.sha256")}
    names = sorted(recorded | {path.name for path in root.glob("supplement_v*") if path.is_dir()})
    return [partial(frozen_part, root),
            *(partial(inputs_part, root, path) for path in sorted((root / "research").rglob("*.json"))),
            *(partial(data_part, root, path.stem) for path in study_protocols(root / "protocols")),
            *(partial(supplement_part, root, name) for name in names)]


def check(root):
    """Make every check and return the exit code. InputError, when nothing is false, names what was not checked."""
    checks, unchecked = Checks(), []
    for part in parts(root):
        try:
            if found := part():
                report(checks, *found)
        except InputError as error:
            print(f"not checked: {error}")
            if str(error) not in unchecked:
                unchecked.append(str(error))
    if unchecked and not checks.failed:
        raise InputError(f"{checks.made} checks hold, not checked: {'; '.join(unchecked)}")
    return checks.close()


def report(checks, text, findings):
    """Make one check, and print its findings line by line."""
    checks.expect(not findings, text + (f", {len(findings)} findings" if findings else ""))
    for finding in findings:
        print(f"     {finding}")


def main(argv=None):
    """Check the manifests, or write the list of frozen evidence; return the exit code."""
    parser = evidence.parser(__doc__)
    parser.add_argument("--freeze", action="store_true", help="write manifests/frozen.sha256 anew")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = parser.parse_args(argv)
    if not options.freeze:
        return check(options.root)
    digests = frozen_files(options.root)
    if findings := name_findings(digests):
        raise InputError(f"not frozen, rename first: {'; '.join(findings)}")
    write_atomic(options.root / FROZEN, format_manifest(digests))
    print(f"{len(digests)} files: {options.root / FROZEN}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
