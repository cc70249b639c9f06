"""What will be confirmed, and on which text? This script fixes both before any model sees the text.

Reads   protocols/NAME.json, protocols/evaluation_NAME.json, exclusions_NAME.json (exclude_duplicates.py), the prepared
        validation split and runs/NAME/runs.sha256. The runs need not be trained.
Writes  protocol_NAME.json beside this script, sealed with its SHA-256 and the time in UTC. An existing file is never
        replaced: it must be what these files give.
Needs   NumPy, numba, and torch for the reader of rows; no model is made
About   five seconds for `wheels`

    python research/confirmation/freeze_protocol.py --study wheels

The script refuses to freeze a protocol after a model was scored on reserved documents, be it one of the study's models
or a candidate of its sweep. Publish the printed SHA-256 before you score, because the file alone cannot show that it
was not made afterwards.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, parser, read_json, run_script
from research.reference_scores import baseline_of
from research.saved_runs import run_names

ROOT = Path(__file__).resolve().parents[2]

METRIC = ("nats over ln 2 times supplied bytes, both summed over the targets with a positive supplied byte length; the "
          "baseline loader over the reserved documents that are not excluded, in their refill batches")
RELEASE = "no forward pass before every run's saved model has reproduced its official score exactly"
UNCERTAINTY = "none: one finite stream and these trained models; two seeds are no interval over training randomness"


def protocol_content(reserved):
    """Return all that decides the confirmation, derived from protocols, prepared data and generated runs."""
    from research.confirmation.gate import protocol_inputs
    from research.confirmation.reserved import audit

    runs, excluded = run_names(reserved.protocol), reserved.excluded()
    return {
        "study": reserved.study, "runs": runs,
        "contrasts": [[name, baseline_of(name)] for name in runs if name != baseline_of(name)],
        "evaluation": read_json(reserved.evaluation_path), "packing": reserved.packing, "excluded": excluded,
        "stream": audit(reserved, excluded), "metric": METRIC, "release": RELEASE, "uncertainty": UNCERTAINTY,
        "inputs": protocol_inputs(reserved),
    }


def frozen_protocol(reserved):
    """Return the sealed record of the protocol, which is written unless it is there; InputError says why it is not."""
    from research.confirmation import gate
    from research.confirmation.leakage import require_no_leakage
    from research.sealed import write_sealed

    path = gate.protocol_path(reserved)
    if path.exists():
        return gate.require_protocol(reserved, protocol_content(reserved))
    for scored in gate.scored_before(reserved):
        raise InputError(f"{scored}: models were scored already; a protocol must be frozen before")
    require_no_leakage(reserved)
    return write_sealed(path, protocol_content(reserved), "freeze_protocol.py")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    from research.confirmation.gate import protocol_path
    from research.confirmation.reserved import Reserved

    reserved = Reserved(options.study, options.root)
    record = frozen_protocol(reserved)
    stream = record["content"]["stream"]
    batches = ", ".join(f"{count} of {size}" for size, count in sorted(stream["batches"].items()))
    print(f"{stream['documents']:,} documents arrive in batches ({batches})")
    print(f"{stream['rows']:,} rows hold {stream['targets']:,} targets")
    print(f"{stream['arrived']:,} documents arrive and {stream['started']:,} start; of {stream['over_capacity']:,} "
          f"documents longer than a row, {stream['over_capacity_started']:,} start")
    print(f"fingerprint of inputs and targets: {stream['fingerprint']}")
    print(f"frozen at {record['sealed_at']}, SHA-256 {record['sha256']}: {protocol_path(reserved)}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
