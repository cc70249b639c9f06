"""How much of the finding is due to the order of the corpus? The main numbers of the audit over shuffled orders.

When does the first document longer than a row start, and how many tokens stay buffered, when the same documents arrive
in other orders (paper, section 5.1)? The sizes of the batches stay, and the documents are permuted. This tests the
order within one corpus, not other corpora.

    permute_order.py --study demo [--orders 20] [--first-seed 0] [--policy baseline] [--freeze]

Reads   protocols/NAME.json, data/NAME/train/{lengths,refill}.npy
Writes  runs/NAME/audit/permutations.json; with --freeze research/source_exclusion/permutations_NAME.json
Needs   NumPy, numba, tabulate
About   a second for `demo`, half a minute for `climbmix` on one core

Order k is the stable sort of the raw 64-bit stream of PCG64(seed k), which no NumPy version may change. Exit 1: the
frozen evidence differs, or one of the longest documents started in some order.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

import evidence
from corpora.prepared import Prepared
from evidence import Checks, InputError, first_difference, freeze_json, read_json, run_script, write_json
from research.source_exclusion.audit_inputs import ROOT, study_packing, study_stream
from research.source_exclusion.audit_records import audited, first_over_capacity_start, protected_record
from research.source_exclusion.quantities import token_mass
from research.source_exclusion.streams import POLICIES, AuditedStream

HERE = Path(__file__).resolve().parent

COLUMNS = {"startup_target": "first long start (target)", "arrived_tokens": "tokens arrived",
           "discarded_tokens": "discarded", "buffered_tokens": "buffered", "protected_tokens": "in the longest",
           "protected_share": "of arrived"}


def permuted(stream, seed):
    """Return the stream with its documents in the order of a seed."""
    order = np.argsort(np.random.PCG64(seed).random_raw(len(stream.lengths)), kind="stable")
    return AuditedStream(stream.lengths[order], stream.refill, order)


def measure(stream, packing, rows):
    """Return one order's record: startup delay in targets (null when no long document started), retained tokens."""
    account = audited(stream, packing, [packing.capacity], rows)
    tokens, first = token_mass(account.sums.arrived, account.sums.fates, 0), first_over_capacity_start(account)
    kept = protected_record([account], packing)
    return {"startup_target": first and first["target_offset"], "arrived_tokens": tokens["arrived"],
            "discarded_tokens": tokens["discarded"], "buffered_tokens": tokens["buffered"],
            "protected_tokens": kept["tokens"], "protected_share": kept["share_of_arrived"], "started": kept["started"]}


def ranges(orders):
    """Return for each column least, median and most over the orders in which it is not null, and their number."""
    found = {}
    for column in COLUMNS:
        values = [order[column] for order in orders if order[column] is not None]
        found[column] = {"orders": len(values), "least": min(values, default=None), "most": max(values, default=None),
                         "median": statistics.median_low(values) if values else None}
    return found


def print_table(as_stored, orders, span):
    """Print the order as stored, every permutation, and the range."""
    from tabulate import tabulate

    rows = [["as stored", *(as_stored[column] for column in COLUMNS)]]
    rows += [[f"seed {order['seed']}", *(order[column] for column in COLUMNS)] for order in orders]
    rows += [[name, *(span[column][name] for column in COLUMNS)] for name in ("least", "median", "most")]
    for row in rows:
        row[-1] = "-" if row[-1] is None else f"{100 * row[-1]:.2f} %"
    print(tabulate(rows, ["order", *COLUMNS.values()], intfmt=",", missingval="not started"))


def sentence(policy, orders, span):
    """Return the finding over all permutations."""
    startup, mass = span["startup_target"], span["protected_tokens"]
    start = "no document longer than a row starts"
    if startup["orders"]:
        start = (f"the first document longer than a row starts between targets {startup['least']:,} and "
                 f"{startup['most']:,}")
    none = "" if startup["orders"] in (0, len(orders)) else f" (in {len(orders) - startup['orders']} orders none does)"
    return (f"{policy}: over {len(orders)} orders of the corpus {start}{none}, and the longest documents hold "
            f"{mass['least']:,} to {mass['most']:,} of the tokens that arrive.")


def parse_arguments(argv):
    parser = evidence.parser(__doc__)
    parser.add_argument("--study", required=True, metavar="NAME", help="in protocols/, or the path of one (.json)")
    parser.add_argument("--orders", type=int, default=20, metavar="N", help="permutations (default: 20)")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N", help="seeds N, N + 1, ... (default: 0)")
    parser.add_argument("--policy", default="baseline", choices=POLICIES, help="packing rule (default: baseline)")
    parser.add_argument("--freeze", action="store_true", help="write the evidence beside this script")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR",
                        help="prepared studies (default: data/)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="trained runs (default: runs/)")
    args = parser.parse_args(argv)
    if args.orders < 1 or args.first_seed < 0:
        raise InputError(f"--orders {args.orders} --first-seed {args.first_seed}: expected at least 1 and at least 0")
    return args


def main(argv=None):
    """Measure all orders, write, print and compare; the exit code says whether everything that was checked holds."""
    args = parse_arguments(argv)
    prepared = Prepared(ROOT, args.study, args.data)
    packing, rows = study_packing(prepared, POLICIES[args.policy][0]), prepared.training_rows
    stream = study_stream(prepared, "train")
    as_stored = measure(stream, packing, rows)
    orders = [{"seed": seed, **measure(permuted(stream, seed), packing, rows)}
              for seed in range(args.first_seed, args.first_seed + args.orders)]
    span = ranges(orders)
    print(sentence(args.policy, orders, span))
    print_table(as_stored, orders, span)
    found = {"study": prepared.study, "policy": args.policy, "capacity": packing.capacity,
             "buffer_size": packing.buffer_size, "rows": rows, "as_stored": as_stored, "orders": orders,
             "ranges": span,
             "inputs": prepared.inputs(["train/lengths.npy", "train/refill.npy"], [prepared.protocol_path])}
    return conclude(found, args, packing)


def compare(checks, frozen, found):
    """Check the frozen evidence when there is any of these orders; say so when it is of others."""
    if not frozen.exists():
        return
    kept = read_json(frozen)
    if _orders(kept) != _orders(found):
        print(f"left out {frozen}: it is of other orders or of another policy")
        return
    difference = first_difference(kept, found)
    checks.expect(not difference, f"{frozen}: differs at {difference}" if difference else
                  f"equals the frozen evidence {frozen}")


def _orders(found):
    return found["policy"], [order["seed"] for order in found["orders"]]


def conclude(found, args, packing):
    """Write and compare; return the exit code."""
    checks, out = Checks(), args.runs / found["study"] / "audit/permutations.json"
    frozen = HERE / f"permutations_{found['study']}.json"
    write_json(out, found)
    if args.freeze:
        freeze_json(frozen, found)
    compare(checks, frozen, found)
    started = [str(order["seed"]) for order in found["orders"] if packing.retains and order["started"]]
    if packing.retains:
        checks.expect(not started, f"in {len(started)} of {len(found['orders'])} orders a protected document started"
                      + (f": seeds {', '.join(started)}" if started else ""))
    else:
        checks.expect(True, f"{args.policy} protects no document; {len(found['orders'])} accounts balance")
    print(f"results: {out}")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
