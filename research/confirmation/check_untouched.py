"""Which reserved documents had a model scored before the confirmation, and do its differences hold without them?

A sweep scores its candidates on the validation stream of their own context, before a study's context is chosen: a
short row draws more documents than the study's own score does, maybe some that were reserved afterwards.

Reads   protocols/candidates_NAME.json (what the sweep scored), protocols/NAME.json, protocols/evaluation_NAME.json,
        exclusions_NAME.json, protocol_NAME.json, NAME.json and rows_NAME.npy beside this script, and lengths and refill
        batches of the prepared validation split
Writes  nothing; with --freeze seen_NAME.json beside this script
Needs   torch (for the sum of the official score; no model is made), numba; the study prepared
About   5 seconds for `wheels`

    check_untouched.py --study wheels [--freeze]

A document is begun when any of its tokens stands in a row: then it is scored, if only in part. A candidate's
calibration scores the first row of its own stream, which is counted with it.
Exit 1: the confirmation's stream or its differences are not the frozen ones. That documents were seen is no error.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import first_difference, freeze_json, input_list, read_json, require_digest, run_script

ROOT = Path(__file__).resolve().parents[2]


def differences(study, contrasts, without=()):
    """{run: bits per byte minus its baseline's} of the frozen rows, less the rows `without`, as in the official score;
    None when no row is left."""
    import numpy as np

    from train import summarise

    path, frozen = study.evidence / f"rows_{study.name}.npy", read_json(study.evidence / f"{study.name}.json")["rows"]
    require_digest(path, frozen["sha256"])
    kept = np.delete(np.load(path), list(without), axis=1)
    if not kept.shape[1]:
        return None
    bits = {name: summarise(rows)["bits_per_byte"] for name, rows in zip(frozen["order"], kept)}
    return {a: bits[a] - bits[b] for a, b in contrasts}


def inputs(study):
    """Paths of the files that the evidence is made from."""
    from research.confirmation.seen import candidates_path

    beside = [study.evidence / name.format(study.name) for name in ("protocol_{}.json", "{}.json", "rows_{}.npy")]
    data = [study.data(f"validation/{name}.npy") for name in ("lengths", "refill")]
    return [study.protocol_path, study.evaluation_path, study.exclusions_path, candidates_path(study), *beside, *data]


def collect(study):
    """The evidence."""
    from loaders.accounting import ARRIVAL, plan_sha256
    from research.confirmation.reserved import reserved_stream
    from research.confirmation.seen import account, scored_streams, shared

    scored, (_, lengths, refill) = scored_streams(study), study.validation()
    stream = reserved_stream(study, lengths, refill, study.excluded())
    records = [{"candidates": count, **account(study, lengths, refill, stream, packing, targets)}
               for count, packing, targets in scored]
    begun = sorted({document for record in records for document in record["reserved_begun"]})
    seen, rows = shared(stream, begun), study.targets // study.packing["context"]
    contrasts = read_json(study.evidence / f"protocol_{study.name}.json")["content"]["contrasts"]
    return {
        "study": study.name, "reserved": [study.first, study.last], "contexts": records,
        "seen": {"reserved": begun, "in_confirmation": seen},
        "confirmation": {"begun": len(set(stream.plan[:, ARRIVAL].tolist())), "rows": rows,
                         "tokens": rows * study.capacity, "plan_sha256": plan_sha256(stream.plan)},
        "bits_per_byte_minus_baseline": {"all_rows": differences(study, contrasts),
                                         "without_rows_seen": differences(study, contrasts, seen["rows"])},
        "inputs": input_list(inputs(study), study.root),
    }


def findings(study, evidence):
    """What of the evidence is not what the confirmation froze."""
    frozen = {"stream": read_json(study.evidence / f"protocol_{study.name}.json")["content"]["stream"]["plan_sha256"],
              "differences": read_json(study.evidence / f"{study.name}.json")["bits_per_byte_minus_baseline"]}
    found = {"stream": evidence["confirmation"]["plan_sha256"],
             "differences": evidence["bits_per_byte_minus_baseline"]["all_rows"]}
    return list(filter(None, (first_difference(frozen[key], found[key], key) for key in frozen)))


def seen_finding(evidence):
    """What was seen of the confirmation, and whether its differences keep their signs without it, in one sentence."""
    whole, seen = evidence["confirmation"], evidence["seen"]["in_confirmation"]
    every, kept = (evidence["bits_per_byte_minus_baseline"][key] for key in ("all_rows", "without_rows_seen"))
    begun = (f"A sweep of small models, which sized the study, had scored {len(seen['documents'])} of the "
             f"{whole['begun']:,} documents that this stream begins")
    if kept is None:
        return f"{begun}; each of its {whole['rows']:,} rows holds one of them."
    same = sum(every[name] * kept[name] > 0 for name in every)
    return (f"{begun}; without the {len(seen['rows'])} of {whole['rows']:,} rows that hold any of them, "
            f"{same} of {len(every)} differences keep their sign.")


def tables(evidence):
    """Two tables as text: a row a context, and a row a difference."""
    from tabulate import tabulate

    whole, (every, kept) = evidence["confirmation"], evidence["bits_per_byte_minus_baseline"].values()
    rows = []
    for record in evidence["contexts"]:
        also = record["in_confirmation"]
        counts = [record[key] for key in ("context", "candidates", "arrived", "reserved_arrived")]
        rows.append([*counts, len(record["reserved_begun"]), len(also["documents"]), also["tokens"], len(also["rows"])])
    headers = ["context", "candidates", "arrive", "reserved arrive", "reserved begun",
               f"of the {whole['begun']} confirmed", f"tokens of {whole['tokens']}", f"rows of {whole['rows']}"]
    deltas = [[name, f"{every[name]:+.5f}", f"{kept[name]:+.5f}" if kept else "no row left"] for name in every]
    return "\n\n".join([tabulate(rows, headers),
                        tabulate(deltas, ["run", "all rows", "without rows seen"], disable_numparse=True)])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/ with candidates")
    parser.add_argument("--freeze", action="store_true", help="write the evidence beside this script")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    options = parser.parse_args(argv)
    from research.confirmation.reserved import Study

    study = Study(options.study, options.root)
    evidence, path = collect(study), study.evidence / f"seen_{options.study}.json"
    print(tables(evidence))
    wrong = findings(study, evidence)
    for finding in wrong:
        print(f"FALSE {finding}")
    if wrong:
        return 1
    if options.freeze:
        freeze_json(path, evidence)
    print(f"{seen_finding(evidence)}\nseen: {path if options.freeze else 'not written; --freeze writes it'}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
