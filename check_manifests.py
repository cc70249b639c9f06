"""Do the files on this disk have the SHA-256 that the manifests record?

    check_manifests.py [--freeze]

Reads   manifests/frozen.sha256 and every JSON file, array (.npy), figure (.png) and list (.sha256) under
        research/: missing, changed and extra files are found; manifests/NAME.sha256 for every protocol NAME whose
        data/NAME is there; and manifests/supplement_vN.sha256: the folder, its own list, its archive made again, and
        the one in dist/ if there
Writes  with --freeze, manifests/frozen.sha256 anew from the files under research/
Needs   Python's standard library. About a second

Exit 1: a file is not what a manifest says. Data not prepared here is named and left out.
"""

import argparse
import sys
from pathlib import Path

import supplements
from evidence import (
    Checks, InputError, format_manifest, manifest_findings, read_manifest, run_script, sha256_file, write_atomic
)
from portable_names import name_findings
from protocol import study_protocols

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


def data_findings(listed, directory):
    """Every way prepared data depart from the list, in the folders that it lists."""
    folders = {name.split("/")[0] for name in listed}
    return [finding for finding in manifest_findings(listed, directory)
            if not finding.endswith(": extra") or finding.split("/")[0] in folders]


def check_supplements(checks, root):
    """One check a supplement that is recorded or here: one without the other is not what was frozen."""
    recorded = {path.stem for path in (root / "manifests").glob("supplement_v*.sha256")}
    for name in sorted(recorded | {path.name for path in root.glob("supplement_v*") if path.is_dir()}):
        count = sum(path.is_file() for path in (root / name).rglob("*"))
        report(checks, name, count, supplements.frozen_findings(root, name))


def report(checks, name, count, findings):
    """One check a manifest; its findings line by line."""
    checks.expect(not findings, f"{name}: {count} files" + (f", {len(findings)} findings" if findings else ""))
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
    checks, listed = Checks(), read_manifest(args.root / FROZEN)
    report(checks, FROZEN, len(listed), frozen_findings(listed, args.root))
    for protocol in study_protocols(args.root / "protocols"):
        manifest, data = args.root / f"manifests/{protocol.stem}.sha256", args.root / "data" / protocol.stem
        if not manifest.exists() or not data.exists():
            print(f"left out {protocol.stem}: no {'manifest' if data.exists() else data}")
            continue
        listed = read_manifest(manifest)
        report(checks, manifest.relative_to(args.root), len(listed), data_findings(listed, data))
    check_supplements(checks, args.root)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
