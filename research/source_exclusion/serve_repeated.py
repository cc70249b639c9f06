"""When does each of the longest documents first start, if the whole corpus is repeated long enough?

The paper gives a necessary bound (section 3, repeated corpus): of r documents of at least some length, longer than a
row, none starts before the B-th of them has arrived, in pass ceil(B / r). Here the whole corpus is replayed at the
level of lengths for B passes and more, exactly: when each document first starts, how often, and what each pass
discards. The replay also checks that the first start comes in the refill that the bound predicts: while B such texts
are buffered, at least B entries are, and no refill comes before one of them has started.

    serve_repeated.py --study demo [--policy baseline|lossless] [--passes 1100] [--longest 20] [--freeze]
    serve_repeated.py --lengths FILE.npy --out FILE.json [--refill 128] [--capacity 2049] [--buffer-size 1000]

Reads   protocols/NAME.json, data/NAME/train/{lengths,refill}.npy; or a file of each document's tokens, BOS included
Writes  runs/NAME/audit/served.json (served_lossless.json), or --out; beside it the same name with .csv, one line for
        each pass, and .png; with --freeze research/source_exclusion/served_NAME.json (served_NAME_lossless.json)
Needs   NumPy, numba, tabulate, matplotlib
About   3 seconds for 32,000 documents and 1,100 passes on one core, a minute for 850,000

Exit 1: of the documents of some length and more the first started before its bound, or later than in its refill; a
protected document started; the account does not balance; or the frozen evidence differs.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import evidence
from corpora.prepared import Prepared
from evidence import (
    Checks,
    first_difference,
    freeze_json,
    read_json,
    run_script,
    sha256_bytes,
    write_atomic,
    write_json,
)
from research.source_exclusion.account import Unbalanced
from research.source_exclusion.audit_inputs import (
    ROOT,
    inputs_of,
    positive,
    read_batches,
    read_lengths,
    study_packing,
    study_stream,
)
from research.source_exclusion.served_report import (
    bound_sentence,
    draw,
    print_tables,
    sentence,
    steady_sentence,
)
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

REPLAYED = ("baseline", "lossless")
MORE_PASSES = 100


# -------------------------------------------------------------------------------------------- input


def study_input(args):
    """Return (stream, packing, inputs, study name) of a prepared study."""
    prepared = Prepared(ROOT, args.study, args.data)
    inputs = prepared.inputs(["train/lengths.npy", "train/refill.npy"], [prepared.protocol_path])
    packing = study_packing(prepared, POLICIES[args.policy][0])
    return study_stream(prepared, "train"), packing, inputs, prepared.study


def user_input(args):
    """Return the same of a file of lengths, without a study."""
    lengths = read_lengths(args.lengths)
    refill, paths = read_batches([len(lengths)], args.refill)
    packing = make_packing(POLICIES[args.policy][0], args.capacity, args.buffer_size, 0)
    return whole_stream(lengths, refill), packing, inputs_of([args.lengths, *paths]), None


def default_passes(bound, buffer_size, documents):
    """Return enough passes for the longest document to start, and some more."""
    arrived = max((refilled for _, _, refilled in bound.values()), default=buffer_size)
    return -(-arrived // documents) + MORE_PASSES


# ------------------------------------------------------------------------------------------ command


def measure(stream, packing, passes, longest):
    """Return (evidence, records of all passes, lines on what is false, the figure's arguments)."""
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
        broken.append(f"{started} starts of protected documents: the proposition fails")
    classes = [class_record(edge, lengths, bound, account) for edge in [1, *edges] if (lengths >= edge).any()]
    found = {"capacity": packing.capacity, "buffer_size": packing.buffer_size, "documents": documents,
             "tokens": int(lengths.sum()), "replayed": passes, "classes": classes,
             "lengths_over_a_row": {"distinct": len(bound), "first_begun_at_the_bound": at_bound,
                                    "bound_after_the_replay": list(served.values()).count(None)},
             "longest": longest_records(lengths, bound, account, longest), "passes": sampled(records, classes),
             "steady": steady_record(states, records)}
    return found, records, broken, (lengths, bound, account.first, passes)


def parse_arguments(argv):
    parser = evidence.parser(__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--study", metavar="NAME", help="in protocols/, or the path of one (.json)")
    source.add_argument("--lengths", metavar="FILE", help="tokens of each document in order, BOS included")
    parser.add_argument("--policy", default="baseline", choices=REPLAYED, help="packing rule (default: baseline)")
    parser.add_argument("--passes", type=positive, metavar="N", help="default: until the longest starts, and 100 more")
    parser.add_argument("--longest", type=int, default=20, metavar="K", help="documents to list (default: 20)")
    parser.add_argument("--refill", default="128", metavar="N|FILE",
                        help="documents that arrive at once, or a .npy file of such batches (default: 128)")
    parser.add_argument("--capacity", type=positive, default=2049, metavar="N",
                        help="tokens in a row, for --lengths (default: 2049)")
    parser.add_argument("--buffer-size", type=positive, default=1000, metavar="N",
                        help="documents in the buffer, for --lengths (default: 1000)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="results (.json); needed with --lengths")
    parser.add_argument("--freeze", action="store_true", help="write the study's evidence beside this script")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR",
                        help="prepared studies (default: data/)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="trained runs (default: runs/)")
    args = parser.parse_args(argv)
    if args.lengths and (args.freeze or not args.out):
        parser.error("--lengths needs --out FILE, and cannot be frozen")
    if args.capacity < 2 or args.longest < 0:
        parser.error(f"--capacity {args.capacity} --longest {args.longest}: expected at least 2 and at least 0")
    return args


def print_finding(name, found):
    """Print the finding in sentences, and the tables."""
    print(sentence(name, found))
    print(bound_sentence(**found["lengths_over_a_row"]))
    print(steady_sentence(found["steady"], found["replayed"]))
    print_tables(found)


def main(argv=None):
    """Replay, write, print and compare; the exit code says whether everything that was checked holds."""
    args, checks = parse_arguments(argv), Checks()
    stream, packing, inputs, study = study_input(args) if args.study else user_input(args)
    try:
        found, records, false, drawn = measure(stream, packing, args.passes, args.longest)
    except Unbalanced as error:
        checks.expect(False, f"the replay does not balance: {error}")
        return checks.close()
    name = "served" if args.policy == "baseline" else f"served_{args.policy}"
    out = args.out or args.runs / study / "audit" / f"{name}.json"
    lines = [list(records[0]), *(record.values() for record in records)]
    table = "".join(",".join(map(str, line)) + "\n" for line in lines).encode()
    found |= {"study": study, "policy": args.policy, "inputs": inputs, "all_passes_sha256": sha256_bytes(table)}
    print_finding(f"{study or args.lengths}, {args.policy}", found)
    write_json(out, found)
    write_atomic(out.with_suffix(".csv"), table)
    written = [out, out.with_suffix(".csv").name]
    if found["longest"]:
        written.append(draw(out.with_suffix(".png"), *drawn).name)
    checks.expect(not false, f"{found['lengths_over_a_row']['distinct']} lengths over a row: {len(false)} first start "
                  "otherwise than the bound and the proposition say")
    for line in false:
        checks.expect(False, line)
    if study:
        compare(checks, HERE / f"served_{study}{name.removeprefix('served')}.json", found, args.freeze)
    print("results:", *written)
    return checks.close()


def settings(found):
    """Return what --passes and --longest were."""
    return {"passes": found["replayed"], "longest": len(found["longest"])}


def compare(checks, frozen, found, freeze):
    """Freeze when asked; check the frozen evidence when it is of the same passes and documents."""
    if freeze:
        freeze_json(frozen, found)
    if not frozen.exists():
        return
    kept = read_json(frozen)
    if any(settings(kept)[key] != value for key, value in settings(found).items()):
        print(f"left out {frozen}: it is of {settings(kept)}")
        return
    difference = first_difference(kept, found)
    checks.expect(not difference, f"{frozen}: differs at {difference}" if difference else
                  f"equals the frozen evidence {frozen}")


if __name__ == "__main__":
    sys.exit(run_script(main))
