"""Fix what will be confirmed, and on which text, before any model sees it.

Reads   protocols/NAME.json, protocols/evaluation_NAME.json, exclusions_NAME.json (exclude_duplicates.py), the prepared
        validation split and runs/NAME/runs.sha256; the runs need not be trained
Writes  protocol_NAME.json beside this script, sealed with its hash and the time in UTC; never a second one: where it is
        there, it must be what these files give (gate.py)
Needs   NumPy, numba, torch (for the reader of rows; no model is made)
About   5 seconds for `wheels`

    freeze_protocol.py --study wheels

Refused when a model was scored on reserved documents before: these models, or a candidate of the study's sweep.
Publish the printed hash before you score: the file alone cannot show that it was not made afterwards.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, run_script

ROOT = Path(__file__).resolve().parents[2]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    options = parser.parse_args(argv)
    from research.confirmation import gate
    from research.confirmation.reserved import Study
    from research.confirmation.seen import require_unseen
    from research.sealed import write_sealed

    study = Study(options.study, options.root)
    path = gate.protocol_path(study)
    if path.exists():
        record = gate.require_protocol(study)
    else:
        for scored in gate.scored_before(study):
            raise InputError(f"{scored}: scored already; a protocol frozen now would freeze nothing")
        require_unseen(study)
        record = write_sealed(path, gate.protocol_content(study), "freeze_protocol.py")
    stream = record["content"]["stream"]
    batches = ", ".join(f"{count} of {size}" for size, count in sorted(stream["batches"].items()))
    print(f"{stream['documents']:,} documents in batches ({batches})")
    print(f"{stream['rows']:,} rows, {stream['targets']:,} targets")
    print(f"{stream['arrived']:,} arrive, {stream['started']:,} are begun, {stream['over_capacity_started']:,} of "
          f"{stream['over_capacity']:,} longer than a row")
    print(f"input/target fingerprint {stream['fingerprint']}")
    print(f"frozen at {record['sealed_at']}, SHA-256 {record['sha256']}: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
