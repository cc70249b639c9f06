"""When is each of the longest documents first begun, if the whole corpus is repeated long enough?

The paper gives a necessary bound (section 3, repeated corpus): of r documents of at least some length, longer than a
row, none begins before the B-th of them has arrived, pass ceil(B / r). Here the whole corpus is replayed at the level
of lengths for B passes and more, exactly: when each document is first begun, how often, and what each pass discards.
The replay also checks that the bound is the date itself. While B of them wait, at least B entries are held, and no
refill comes before one of them has begun; so the first begins in the very refill that brings the B-th.

    serve_repeated.py --study demo [--policy baseline|lossless] [--passes 1100] [--longest 20] [--freeze]
    serve_repeated.py --lengths FILE.npy --out FILE.json [--refill 128] [--capacity 2049] [--buffer-size 1000]

Reads   protocols/NAME.json, data/NAME/train/{lengths,refill}.npy; or an .npy with each document's tokens, BOS included
Writes  runs/NAME/audit/served.json (served_lossless.json), or --out; beside it the same name with .csv: one line for
        each pass, and .png; with --freeze research/source_exclusion/served_NAME.json (served_NAME_lossless.json)
Needs   NumPy, numba, tabulate, matplotlib
About   3 seconds for 32,000 documents and 1,100 passes on one core, a minute for 850,000

Exit 1: of the documents of some length and more the first was begun before its bound, or later than in its refill; a
protected document was begun; the account does not balance; or the frozen evidence differs.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import first_difference, freeze_json, read_json, run_script, sha256_bytes, write_atomic, write_json
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
    """(stream, packing, inputs, study name) of a prepared study."""
    protocol, directory, path = read_study(args.study, args.data)
    inputs = study_inputs(path, directory, ["train/lengths.npy", "train/refill.npy"])
    packing = study_packing(protocol, POLICIES[args.policy][0])
    return study_stream(directory, "train"), packing, inputs, protocol["study"]


def user_input(args):
    """The same of a file of lengths, without a study."""
    from corpora.tokens import refill_batches

    lengths, paths = read_counts(args.lengths, "lengths"), [args.lengths]
    if args.refill.isdecimal() and int(args.refill):
        refill = refill_batches([len(lengths)], int(args.refill))
    else:
        refill, paths = read_counts(args.refill, "refill"), [*paths, args.refill]
    packing = make_packing(POLICIES[args.policy][0], args.capacity, args.buffer_size, 0)
    return whole_stream(lengths, refill), packing, inputs_of(paths), None


def default_passes(bound, buffer_size, documents):
    """Enough for the longest document to be begun, and some more; a document that fits a row needs no waiting."""
    arrived = max((refilled for _, _, refilled in bound.values()), default=buffer_size)
    return -(-arrived // documents) + MORE_PASSES


# ------------------------------------------------------------------------------------------ command


def measure(stream, packing, passes, longest):
    """(evidence, records of all passes, lines on what is false, the figure's arguments)."""
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
    broken += [f"{started} starts of protected documents: the proposition fails"] * bool(started)
    classes = [class_record(edge, lengths, bound, account) for edge in [1, *edges] if (lengths >= edge).any()]
    evidence = {"capacity": packing.capacity, "buffer_size": packing.buffer_size, "documents": documents,
                "tokens": int(lengths.sum()), "replayed": passes, "classes": classes,
                "lengths_over_a_row": {"distinct": len(bound), "first_begun_at_the_bound": at_bound,
                                       "bound_after_the_replay": list(served.values()).count(None)},
                "longest": longest_records(lengths, bound, account, longest), "passes": sampled(records, classes),
                "steady": steady_record(states, records)}
    return evidence, records, broken, (lengths, bound, account.first, passes)


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--study", metavar="NAME", help="in protocols/, or the path of one (.json)")
    source.add_argument("--lengths", metavar="FILE", help=".npy: tokens of each document in order, BOS included")
    parser.add_argument("--policy", default="baseline", choices=REPLAYED)
    parser.add_argument("--passes", type=int, metavar="N", help="default: till the longest is begun, and 100 more")
    parser.add_argument("--longest", type=int, default=20, metavar="K", help="documents to list (default 20)")
    parser.add_argument("--refill", default="128", metavar="N|FILE", help="documents a batch, or .npy (default 128)")
    parser.add_argument("--capacity", type=int, default=2049, help="tokens a row, of --lengths (default 2049)")
    parser.add_argument("--buffer-size", type=int, default=1000, help="of --lengths (default 1000)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="results (.json); needed with --lengths")
    parser.add_argument("--freeze", action="store_true", help="write the study's evidence beside this script")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="default data/")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="default runs/")
    args = parser.parse_args(argv)
    if args.lengths and (args.freeze or not args.out):
        parser.error("--lengths needs --out FILE, and cannot be frozen")
    least = {"passes": 1, "longest": 0, "capacity": 2, "buffer_size": 1}
    for name, value in least.items():
        if getattr(args, name) is not None and getattr(args, name) < value:
            parser.error(f"--{name.replace('_', '-')}: expected at least {value}, found {getattr(args, name)}")
    return args


def main(argv=None):
    from research.source_exclusion.served_report import bound_sentence, draw, print_tables, sentence, steady_sentence

    args = parse_arguments(argv)
    stream, packing, inputs, study = study_input(args) if args.study else user_input(args)
    try:
        evidence, records, false, drawn = measure(stream, packing, args.passes, args.longest)
    except Unbalanced as error:
        print(f"FALSE the replay does not balance: {error}")
        return 1
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
    if study:
        false += compare(HERE / f"served_{study}{name.removeprefix('served')}.json", evidence, args.freeze)
    for line in false:
        print(f"FALSE {line}")
    print("results:", *written)
    return 1 if false else 0


def settings(evidence):
    """What --passes and --longest were."""
    return {"passes": evidence["replayed"], "longest": len(evidence["longest"])}


def compare(frozen, evidence, freeze):
    """Freeze when asked; lines on how the frozen evidence differs."""
    if freeze:
        freeze_json(frozen, evidence)
    if not frozen.exists():
        return []
    kept = read_json(frozen)
    difference = first_difference(kept, evidence)
    if any(settings(kept)[key] != value for key, value in settings(evidence).items()):
        print(f"{frozen} is of {settings(kept)}: not compared")
        return []
    if not difference:
        print(f"equals the frozen evidence {frozen}")
    return [f"{frozen}: differs at {difference}"] * bool(difference)


if __name__ == "__main__":
    sys.exit(run_script(main))
