"""Is every number of this directory's frozen evidence what the document lengths give?

Packs the streams again with the reference packer, counts with code of its own (reference_*.py), and compares value by
value. Nothing of loaders/ or of the audits is imported. Document lengths and refill batches are frozen beside the
evidence, so nothing needs to be prepared. Only `rows_sha256` needs tokens: it is derived when the data are prepared,
and named when it is not. (verify_training_table.py compares it with what the trained runs read.)

    verify_source_exclusion.py [--study NAME ...] [--quick] [--workers N] [--root DIR]

Reads   *.json and *.npy in research/source_exclusion, protocols/NAME.json, manifests/NAME.sha256 and
        research/published_tables/version_2.json below --root; data/NAME/train/tokens.npy and the tokenizer if prepared
Writes  nothing
Needs   NumPy
About   90 seconds on two cores, 20 with --quick, which leaves out the 1,100 passes of each served_NAME.json

Prints one line for each part of each file, with the first value that differs. Exit 1: a value differs.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import evidence
from evidence import Checks, InputError, canonical_json, parse_json, run_script, sha256_file
from research.source_exclusion.reference_evidence import (
    ARRAYS,
    FOLDER,
    ReferenceStudy,
    compare,
    expected_of,
    kind_of,
)


def available_cores():
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def frozen_files(root, studies, quick):
    """Return the frozen JSON files to verify, those of the named studies or all; InputError when there are none."""
    paths = sorted((root / FOLDER).glob("*.json"))
    if quick:
        paths = [path for path in paths if not path.stem.startswith("served_")]
    if studies:
        paths = [path for path in paths if kind_of(path)[1] in studies]
    missing = sorted(set(studies or []) - {kind_of(path)[1] for path in paths})
    if missing or not paths:
        raise InputError(f"{root / FOLDER}: no frozen evidence{' of study ' if missing else ''}{', '.join(missing)}")
    return paths


def derive(paths, root, workers):
    """Return {path: what the file must hold}; the longest work starts first."""
    if workers == 1:
        return {path: expected_of(path, root) for path in paths}
    order = sorted(paths, key=lambda path: (path.stem.startswith("served_"), path.stat().st_size), reverse=True)
    with ProcessPoolExecutor(workers) as pool:
        found = {path: pool.submit(expected_of, path, root) for path in order}
        return {path: future.result() for path, future in found.items()}


def check_arrays(checks, study):
    """Check that the frozen lengths and refill batches are the prepared ones, by the list of prepared files."""
    if not study.listed:
        print(f"left out manifests/{study.prepared}.sha256: not here")
        return
    for name in ARRAYS:
        checks.equal(f"{study.frozen(name).name}: SHA-256", sha256_file(study.frozen(name)), study.listed.get(name))


def main(argv=None):
    """Verify the frozen files; 0 all holds, 1 a value differs, 2 something could not be checked."""
    parser = evidence.parser(__doc__)
    parser.add_argument("--study", nargs="+", metavar="NAME", help="only the files of these studies")
    parser.add_argument("--quick", action="store_true", help="leave out served_NAME.json, most of the time")
    parser.add_argument("--workers", type=int, default=available_cores(), metavar="N", help="processes; default: cores")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], metavar="DIR",
                        help="folder of the repository or of an unpacked supplement")
    options = parser.parse_args(argv)
    if options.workers < 1:
        raise InputError(f"--workers: expected at least 1, found {options.workers}")
    checks, paths = Checks(), frozen_files(options.root, options.study, options.quick)
    for name in sorted({kind_of(path)[1] for path in paths} - {None}):
        check_arrays(checks, ReferenceStudy(options.root, name))
    expected = derive(paths, options.root, options.workers)
    for path in paths:
        data = path.read_bytes()
        found = parse_json(data, path)
        compare(checks, path.name, expected[path], found)
        checks.expect(data == canonical_json(found), f"{path.name}: canonical JSON, {len(data):,} bytes")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
