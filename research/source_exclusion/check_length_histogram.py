"""When can the longest documents of a repeated corpus start at the earliest, and do the frozen counts say so?

With r documents of at least some length (above the capacity) in a pass, and a buffer of B, none of them can start
before B of them have arrived: in pass ceil(B / r) at the earliest (paper, section 3, repeated-corpus corollary). The
counts are derived from the frozen lengths, and the paper's own table from its printed numbers. This is a part of
verify_source_exclusion.py under the name that the paper gives it.

    check_length_histogram.py [--study NAME ...] [--root DIR]

Reads   length_histogram_NAME.json, NAME_train_lengths.npy and paper_thresholds.json in research/source_exclusion,
        protocols/NAME.json and research/published_tables/version_2.json below --root
Writes  nothing
Needs   NumPy
About   a second
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import evidence
from evidence import Checks, read_json, run_script
from research.source_exclusion.reference_evidence import FOLDER, PAPER, compare, expected_of


def main(argv=None):
    """Check the counts and the passes; 0 all holds, 1 a number is false, 2 could not check."""
    parser = evidence.parser(__doc__)
    parser.add_argument("--study", nargs="+", metavar="NAME", help="only these studies; all, and the paper, by default")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], metavar="DIR",
                        help="folder of the repository or of an unpacked supplement")
    options = parser.parse_args(argv)
    folder = options.root / FOLDER
    paths = [folder / f"length_histogram_{name}.json" for name in options.study or []]
    if not options.study:
        paths = [folder / f"{PAPER}.json", *sorted(folder.glob("length_histogram_*.json"))]
    checks = Checks()
    for path in paths:
        compare(checks, path.name, expected_of(path, options.root), read_json(path))
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
