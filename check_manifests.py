"""Do the files on this disk have the SHA-256 that the manifests record, and the inputs of evidence those it states?

    check_manifests.py [--freeze]

Reads   manifests/frozen.sha256 and every JSON file, array (.npy), figure (.png) and list (.sha256) under
        research/: missing, changed and extra files are found; every {"path", "sha256"} of a list `inputs` in that
        JSON: a file here, a line of a list of data, or code as a supplement holds it; manifests/NAME.sha256 for every
        protocol NAME, and data/NAME if there; and manifests/supplement_vN.sha256: the folder, its own list, its
        archive made again, and the one in dist/ if there
Writes  with --freeze, manifests/frozen.sha256 anew from the files under research/
Needs   Python's standard library. About a second

Exit 1: a file is not what a manifest or evidence says. 2: none is found false, and a list or file could not be read;
the rest was checked. Inputs under runs/ or not here, and data not prepared here, are named and left out.
"""

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python leaves it out under -I or PYTHONSAFEPATH

from bundles import archive as supplements
from bundles.names import name_findings
from evidence import Checks, InputError, read_json, run_script, sha256_file, write_atomic
from manifest import format_manifest, manifest_findings, read_manifest
from protocols.schema import study_protocols

ROOT = Path(__file__).resolve().parent

FROZEN = "manifests/frozen.sha256"
EVIDENCE = (".json", ".npy", ".png", ".sha256")


def frozen_files(root):
    """{path relative to the repository: SHA-256} of the frozen evidence, every file of EVIDENCE under research/."""
    paths = [path for suffix in EVIDENCE for path in (root / "research").rglob(f"*{suffix}")]
    return {path.relative_to(root).as_posix(): sha256_file(path) for path in paths}


def is_evidence(finding, folder):
    """Of what no list names, these kinds are evidence, and a link may lead to some; scripts are not."""
    extra = finding.removesuffix(": extra")
    return extra == finding or extra.endswith(EVIDENCE) or (folder / extra).is_symlink()


def frozen_findings(listed, root):
    """Every way the evidence under research/ departs from the list, and names that some system cannot hold."""
    folder = root / "research"
    inside = {name.removeprefix("research/"): listed[name] for name in listed if name.startswith("research/")}
    findings = [f"{name}: not under research/" for name in listed if not name.startswith("research/")]
    findings += [f"research/{found}" for found in manifest_findings(inside, folder) if is_evidence(found, folder)]
    return name_findings(listed) + findings


def frozen_part(root):
    listed = read_manifest(root / FROZEN)
    return f"{FROZEN}: {len(listed)} files", frozen_findings(listed, root)


# ------------------------------------------------------------------------------------------- inputs


def stated_inputs(value):
    """Every object in a list named `inputs`, wherever in a JSON value; other lists of that name hold token ids."""
    found, rest = [], [value]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            named = value.get("inputs")
            found += [entry for entry in named if isinstance(entry, dict)] if isinstance(named, list) else []
        rest += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found


def known_digests(path, root):
    """{place: SHA-256} of an input here: a study's data by its list, any other file by its bytes.

    Code moves on while evidence made with it stays, so that a supplement's copy of code counts too.
    """
    if path.startswith("data/"):
        study, _, name = path.removeprefix("data/").partition("/")
        manifest = root / "manifests" / f"{study}.sha256"
        return {f"manifests/{study}.sha256": read_manifest(manifest).get(name)} if manifest.exists() else {}
    copies = sorted(root.glob(f"supplement_v*/{path}")) if path.endswith(".py") else []
    return {place.relative_to(root).as_posix(): sha256_file(place)
            for place in (root / path, *copies) if place.is_file()}


def input_findings(entry, root):
    """(what is false about one stated input, where it was found other than at its path or why it is left out)."""
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
    """The inputs that a frozen file names; None when it names none."""
    entries, findings, notes = stated_inputs(read_json(path)), [], Counter()
    for entry in entries:
        false, said = input_findings(entry, root)
        findings += false
        notes.update(said)
    noted = "".join(f"; {note}" + (f" ({count})" if count > 1 else "") for note, count in sorted(notes.items()))
    return (f"{path.relative_to(root).as_posix()}: {len(entries)} inputs{noted}", findings) if entries else None


# ------------------------------------------------------------------------------ data and supplements


def data_findings(listed, directory):
    """Names that some system cannot hold, and every way prepared data depart from the list, in its folders."""
    folders = {name.split("/")[0] for name in listed}
    return name_findings(listed) + [finding for finding in manifest_findings(listed, directory)
                                    if not finding.endswith(": extra") or finding.split("/")[0] in folders]


def data_part(root, study):
    """A study's list, by its names alone without the data; None without a list."""
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
    """A supplement that is recorded or here: one without the other is not what was frozen."""
    count = sum(path.is_file() for path in (root / name).rglob("*"))
    return f"{name}: {count} files", supplements.frozen_findings(root, name)


# --------------------------------------------------------------------------------------------- main


def parts(root):
    """Functions of no argument: each gives the (text, findings) of one check, or None when there is none to make."""
    recorded = {path.stem for path in (root / "manifests").glob("supplement_v*.sha256")}
    names = sorted(recorded | {path.name for path in root.glob("supplement_v*") if path.is_dir()})
    return [partial(frozen_part, root),
            *(partial(inputs_part, root, path) for path in sorted((root / "research").rglob("*.json"))),
            *(partial(data_part, root, path.stem) for path in study_protocols(root / "protocols")),
            *(partial(supplement_part, root, name) for name in names)]


def check(root):
    """Make every check; the exit code. InputError, when nothing is false, names what could not be checked."""
    checks, unchecked = Checks(), {}
    for part in parts(root):
        try:
            if found := part():
                report(checks, *found)
        except InputError as error:
            print(f"not checked: {error}")
            unchecked[str(error)] = None
    if unchecked and not checks.failed:
        raise InputError(f"{checks.made} checks hold, not checked: {'; '.join(unchecked)}")
    return checks.close()


def report(checks, text, findings):
    """One check, its findings line by line."""
    checks.expect(not findings, text + (f", {len(findings)} findings" if findings else ""))
    for finding in findings:
        print(f"     {finding}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freeze", action="store_true", help="write manifests/frozen.sha256 anew")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    args = parser.parse_args(argv)
    if args.freeze:
        digests = frozen_files(args.root)
        if findings := name_findings(digests):
            raise InputError(f"not frozen, rename first: {'; '.join(findings)}")
        write_atomic(args.root / FROZEN, format_manifest(digests))
        print(f"{len(digests)} files: {args.root / FROZEN}")
        return 0
    return check(args.root)


if __name__ == "__main__":
    sys.exit(run_script(main))
