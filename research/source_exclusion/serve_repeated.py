"""In which pass does each of the longest documents first start, if the whole corpus is repeated long enough?

The paper gives a bound (section 3, repeated corpus): of r documents of at least some length, longer than a row, none
starts before the B-th of them has arrived, in pass ceil(B / r). This script replays the lengths of the corpus for B
passes and more, and says exactly when each document first starts, how often it starts, and what each pass discards. It
also checks that the first of them starts as soon as the bound allows: while B of them wait, at least B entries are
buffered, so no refill arrives before one of them has started.

    serve_repeated.py --study demo [--policy baseline|lossless] [--passes 1100] [--longest 20] [--freeze]
    serve_repeated.py --lengths FILE.npy --out FILE.json [--refill 128] [--capacity 2049] [--buffer-size 1000]

Reads   protocols/NAME.json, data/NAME/train/{lengths,refill}.npy; or an .npy with each document's tokens, BOS included
Writes  runs/NAME/audit/served.json (served_lossless.json), or --out; beside it the same name with .csv: one line for
        each pass, and .png; with --freeze research/source_exclusion/served_NAME.json (served_NAME_lossless.json)
Needs   NumPy, numba, tabulate, matplotlib
About   3 seconds for 32,000 documents and 1,100 passes on one core, a minute for 850,000

Exit 1: the first document of some length and more started before its bound, or after the refill of the bound; one of
the longest B - 1 documents started; the account does not balance; or the frozen evidence differs.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import (
    Checks,
    first_difference,
    freeze_json,
    parser,
    read_json,
    run_script,
    sha256_bytes,
    write_atomic,
    write_json,
)
from research.source_exclusion.audit_inputs import (
    inputs_of,
    read_counts,
    read_study,
    study_inputs,
    study_packing,
    study_stream,
)
from research.source_exclusion.audit_records import Unbalanced
from research.source_exclusion.service import (
    bounds,
    broken_bounds,
    class_edges,
    class_record,
    first_of_classes,
    follow_passes,
    longest_records,
    pass_records,
    sampled,
    steady_record,
)
from research.source_exclusion.streams import POLICIES, make_packing, whole_stream

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

REPLAYED = ("baseline", "lossless")
MORE_PASSES = 100


# -------------------------------------------------------------------------------------------- input


def study_input(args):
    """Return (stream, packing, inputs, study name) of a prepared study."""
    protocol, directory, path = read_study(args.study, args.data)
    inputs = study_inputs(path, directory, ["train/lengths.npy", "train/refill.npy"])
    packing = study_packing(protocol, POLICIES[args.policy][0])
    return study_stream(directory, "train"), packing, inputs, protocol["study"]


def user_input(args):
    """Return the same of a file of lengths, without a study."""
    from corpora.tokens import refill_batches

    lengths, paths = read_counts(args.lengths, "lengths"), [args.lengths]
    if args.refill.isdecimal() and int(args.refill):
        refill = refill_batches([len(lengths)], int(args.refill))
    else:
        refill, paths = read_counts(args.refill, "refill"), [*paths, args.refill]
    packing = make_packing(POLICIES[args.policy][0], args.capacity, args.buffer_size, 0)
    return whole_stream(lengths, refill), packing, inputs_of(paths), None


def default_passes(bound, buffer_size, documents):
    """Return enough passes for the longest document to start, and MORE_PASSES more."""
    arrived = max((refilled for _, _, refilled in bound.values()), default=buffer_size)
    return -(-arrived // documents) + MORE_PASSES


# ------------------------------------------------------------------------------------------ command


def measure(stream, packing, passes, longest):
    """Return (evidence, records of all passes, lines on what is false, the arguments of the figure)."""
    lengths, documents = stream.lengths, len(stream.lengths)
    bound = bounds(lengths, stream.refill, packing.capacity, packing.buffer_size)
    passes = passes or default_passes(bound, packing.buffer_size, documents)
    edges = class_edges(lengths, packing.capacity)
    account, table, states = follow_passes(stream, packing, edges, passes)
    records = pass_records(table, edges)
    served = first_of_classes(bound, lengths, account.first, passes)
    broken = broken_bounds(bound, served, passes * documents)
    at_bound = sum(served[length] == refilled for length, (_, _, refilled) in bound.items())
    started = account.totals()["protected"]["started"]
    if started:
        broken.append(f"{started} starts of the longest documents: the theorem does not hold")
    classes = [class_record(edge, lengths, bound, account) for edge in [1, *edges] if (lengths >= edge).any()]
    evidence = {"capacity": packing.capacity, "buffer_size": packing.buffer_size, "documents": documents,
                "tokens": int(lengths.sum()), "replayed": passes, "classes": classes,
                "lengths_over_a_row": {"distinct": len(bound), "first_begun_at_the_bound": at_bound,
                                       "bound_after_the_replay": list(served.values()).count(None)},
                "longest": longest_records(lengths, bound, account, longest), "passes": sampled(records, classes),
                "steady": steady_record(states, records)}
    return evidence, records, broken, (lengths, bound, account.first, passes)


def parse_arguments(argv):
    options = parser(__doc__)
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("--study", metavar="NAME", help="in protocols/, or the path of one (.json)")
    source.add_argument("--lengths", metavar="FILE", help=".npy: tokens of each document in order, BOS included")
    options.add_argument("--policy", default="baseline", choices=REPLAYED)
    options.add_argument("--passes", type=int, metavar="N", help="default: until the longest has started, and 100 more")
    options.add_argument("--longest", type=int, default=20, metavar="K", help="documents to list (default 20)")
    options.add_argument("--refill", default="128", metavar="N|FILE", help="documents a batch, or .npy (default 128)")
    options.add_argument("--capacity", type=int, default=2049, help="tokens a row, of --lengths (default 2049)")
    options.add_argument("--buffer-size", type=int, default=1000, help="of --lengths (default 1000)")
    options.add_argument("--out", type=Path, metavar="FILE", help="results (.json); needed with --lengths")
    options.add_argument("--freeze", action="store_true", help="write the study's evidence beside this script")
    options.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="default data/")
    options.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="default runs/")
    args = options.parse_args(argv)
    if args.lengths and (args.freeze or not args.out):
        options.error("--lengths needs --out FILE, and cannot be frozen")
    least = {"passes": 1, "longest": 0, "capacity": 2, "buffer_size": 1}
    for name, value in least.items():
        if getattr(args, name) is not None and getattr(args, name) < value:
            options.error(f"--{name.replace('_', '-')}: expected at least {value}, found {getattr(args, name)}")
    return args


def main(argv=None):
    from research.source_exclusion.served_report import bound_sentence, draw, print_tables, sentence, steady_sentence

    args, checks = parse_arguments(argv), Checks()
    stream, packing, inputs, study = study_input(args) if args.study else user_input(args)
    try:
        evidence, records, false, drawn = measure(stream, packing, args.passes, args.longest)
    except Unbalanced as error:
        checks.expect(False, f"the replay does not balance: {error}")
        return checks.close()
    name = "served" if args.policy == "baseline" else f"served_{args.policy}"
    out = args.out or args.runs / study / "audit" / f"{name}.json"
    lines = [list(records[0]), *(record.values() for record in records)]
    table = "".join(",".join(map(str, line)) + "\n" for line in lines).encode()
    evidence |= {"study": study, "policy": args.policy, "inputs": inputs, "all_passes_sha256": sha256_bytes(table)}
    print(sentence(f"{study or args.lengths}, {args.policy}", evidence))
    print(bound_sentence(**evidence["lengths_over_a_row"]))
    print(steady_sentence(evidence["steady"], evidence["replayed"]))
    print_tables(evidence)
    write_json(out, evidence)
    write_atomic(out.with_suffix(".csv"), table)
    written = [out, out.with_suffix(".csv").name]
    if evidence["longest"]:
        written.append(draw(out.with_suffix(".png"), *drawn).name)
    for line in false:
        checks.expect(False, line)
    if not false:
        checks.expect(True, "each length over a row first starts with the refill of its bound, and the longest wait")
    if study:
        compare(checks, HERE / f"served_{study}{name.removeprefix('served')}.json", evidence, args.freeze)
    print("results:", *written)
    return checks.close()


def settings(evidence):
    """Return what --passes and --longest were."""
    return {"passes": evidence["replayed"], "longest": len(evidence["longest"])}


def compare(checks, frozen, evidence, freeze):
    """Freeze the evidence when asked, and check that the frozen evidence of the same settings equals it."""
    if freeze:
        freeze_json(frozen, evidence)
    if not frozen.exists():
        return
    kept = read_json(frozen)
    if settings(kept) != settings(evidence):
        print(f"left out {frozen}: it is of {settings(kept)}")
        return
    difference = first_difference(kept, evidence)
    checks.expect(not difference, f"{frozen}: differs at {difference}" if difference else
                  f"equals the frozen evidence {frozen}")


if __name__ == "__main__":
    sys.exit(run_script(main))
