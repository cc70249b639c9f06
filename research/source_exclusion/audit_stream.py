"""What does a packed training stream read, and which documents does it never begin?

An exact account from document lengths alone: where each token went, which documents were started, which positions
within them were shown, and what the official score samples (paper, sections 5.1 and 6).

    audit_stream.py --study demo [--repeated] [--freeze]
    audit_stream.py --lengths FILE.npy --policy baseline --capacity 2049 --buffer-size 1000 --refill 128 --passes 3 \\
        --strata 128,512,2049,16384 --out DIR [--ranks 8 | --deal FILE.json] [--row-groups FILE.npy]
    audit_stream.py --parquet 'shards/*.parquet' --tokenizer data/demo/tokenizer ...
    audit_stream.py --jsonl FILE... --tokenizer data/demo/tokenizer ...

Reads   protocols/NAME.json, data/NAME/ (prepare.py) and, where runs exist, runs/NAME/*/result.json; or your files
Writes  audit.json (repeated.json) and four figures: in runs/NAME/audit/, or for your data in --out; with --freeze
        research/source_exclusion/NAME.json (repeated_NAME.json)
Needs   NumPy, numba, matplotlib, tabulate; torch for --study; pyarrow and tiktoken for texts
About   five seconds for `demo`, half a minute for `climbmix` on one core

--repeated audits not what the runs read but whole passes of the training documents, under every policy that the
protocol lists. A study's trained runs are compared with the audit by hash: their plan, and the rows they consumed.
Where the study has frozen evidence, the audit must equal it. Exit 1: a run or the frozen evidence differs, an account
does not balance, or a document was started that the proposition of section 3 says waits in the buffer.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import InputError, first_difference, freeze_json, read_json, run_script, write_json
from research.source_exclusion.audit_inputs import (
    ascending,
    inputs_of,
    positive,
    read_study,
    read_user_stream,
    require_memory,
    study_inputs,
    study_packing,
    study_rows,
    study_stream,
)
from research.source_exclusion.audit_records import Unbalanced, audit, join_ranks
from research.source_exclusion.audit_tables import finding, tables
from research.source_exclusion.streams import POLICIES, deal, make_packing, rank_streams, read_deal, rows_of_passes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

DEFAULT_STRATA = "32,128,512,1024,2049,4096,8192,16384"
STUDY_OPTIONS = {"repeated", "freeze", "data", "runs"}

# ------------------------------------------------------------------------------------------- a study


def rows_sha256(plan, directory, split, protocol, stream, packing):
    """The trainer's chained digest of all rows of a plan, from the prepared tokens."""
    from loaders import rows

    bos = read_json(directory / "tokenizer/tokenizer.json")["bos"]
    tokens = np.load(directory / split / "tokens.npy", mmap_mode="r")
    reader = rows.RowReader(plan, tokens, stream.lengths, bos, packing.capacity)
    microbatch, chained = protocol["training"]["microbatch"], ""
    update = protocol["training"]["accumulation"] * microbatch
    for first in range(0, reader.count, update):
        digests = [rows.digest(reader.rows(at, at + microbatch)) for at in range(first, first + update, microbatch)]
        chained = rows.chain(chained, digests)
    return chained


def compare_runs(protocol, runs, records, validation):
    """One record for each finished run: whether its plan, its rows and its evaluation are those audited."""
    found = []
    for condition, record in records.items():
        expected = {"plan": record["plan_sha256"], "rows": record["rows_sha256"],
                    "evaluation_plan": validation["plan_sha256"]}
        for seed in protocol["seeds"]:
            name = f"{condition}_s{seed}"
            if (runs / name / "result.json").exists():
                digests = read_json(runs / name / "result.json")["digests"]
                found.append({"run": name, **{key: digests[key] == value for key, value in expected.items()}})
    return found


def planned_audit(stream, packing, edges, rows):
    """(plan, record, (fitting, held) over the stream) of one policy."""
    plan = packing.plan(stream, rows)
    record, _, _, curve = audit(plan, stream, packing, edges, stream.lengths, rows)
    return plan, record, curve


def audit_study(args):
    """(evidence, records, curves, runs compared, the output directory) of a study."""
    protocol, directory, protocol_path = read_study(args.study, args.data)
    edges, records, curves = protocol["audit"]["strata"], {}, {}
    stream, row_count = study_stream(directory, "train"), study_rows(protocol, "train")
    for condition, loader in protocol["conditions"].items():
        packing = study_packing(protocol, loader)
        plan, records[condition], curves[condition] = planned_audit(stream, packing, edges, row_count)
        records[condition]["rows_sha256"] = rows_sha256(plan, directory, "train", protocol, stream, packing)
    packing = study_packing(protocol, POLICIES["baseline"][0])
    held_out, row_count = study_stream(directory, "validation"), study_rows(protocol, "validation")
    _, validation, _ = planned_audit(held_out, packing, edges, row_count)
    names = [f"{split}/{name}.npy" for split in ("train", "validation") for name in ("lengths", "refill")]
    names += ["train/tokens.npy", "tokenizer/tokenizer.json"]
    evidence = {"study": protocol["study"], "capacity": packing.capacity, "buffer_size": packing.buffer_size,
                "inputs": study_inputs(protocol_path, directory, names), "training": records, "evaluation": validation}
    runs = args.runs / protocol["study"]
    compared = compare_runs(protocol, runs, records, validation)
    return evidence, {**records, "validation": validation}, curves, compared, runs / "audit"


def audit_repeated(args):
    """As audit_study, of whole passes of the training documents under every policy that the protocol lists."""
    protocol, directory, protocol_path = read_study(args.study, args.data)
    repeated, stream, records, curves = protocol["audit"]["repeated"], study_stream(directory, "train"), {}, {}
    capacity, buffer_size = repeated["context"] + 1, protocol["packing"]["buffer_size"]
    for policy in repeated["policies"]:
        if policy not in POLICIES:
            raise InputError(f"{protocol_path}: audit.repeated.policies: expected {list(POLICIES)}, found {policy!r}")
        packing = make_packing(POLICIES[policy][0], capacity, buffer_size, protocol["packing"]["span_seed"])
        row_count = rows_of_passes(stream, packing, repeated["passes"])
        _, records[policy], curves[policy] = planned_audit(stream, packing, protocol["audit"]["strata"], row_count)
    inputs = study_inputs(protocol_path, directory, ["train/lengths.npy", "train/refill.npy"])
    evidence = {"study": protocol["study"], "capacity": capacity, "buffer_size": buffer_size,
                "passes": repeated["passes"], "inputs": inputs, "training": records}
    return evidence, records, curves, [], args.runs / protocol["study"] / "audit"


# ------------------------------------------------------------------------------------- a user's data


def rank_rows(args, streams, packing):
    """[rows each rank could fill]: equal but for --passes, which each rank counts in its own documents."""
    context, ranks = packing.capacity - 1, len(streams)
    if args.passes:
        return [rows_of_passes(stream, packing, args.passes) for stream in streams]
    return [-(-args.rows // ranks) if args.rows else -(-args.targets // (context * ranks))] * ranks


def audit_user(args):
    """As audit_study, of a user's data under one policy, with no runs to compare."""
    packing = make_packing(POLICIES[args.policy][0], args.capacity, args.buffer_size, args.span_seed)
    stream, files, units, paths = read_user_stream(args)
    require_memory(args, stream, packing)
    shares = read_deal(args.deal, len(units)) if args.deal else deal(files, args.ranks)
    streams = rank_streams(stream, units, shares) if args.deal or args.ranks > 1 else [stream]
    possible = rank_rows(args, streams, packing)
    rows, lengths = min(possible), stream.lengths
    audits = [audit(packing.plan(part, rows), part, packing, args.strata, lengths, rows) for part in streams]
    record, curves = audits[0][0], {args.policy: audits[0][3]}
    if args.deal or args.ranks > 1:
        curves = {f"rank {rank}": result[3] for rank, result in enumerate(audits)}
        record = join_ranks(audits, packing, args.strata, lengths, shares, len(units))
        record["rows_left"] = [count - rows for count in possible]
    settings = {"policy": args.policy, "capacity": args.capacity, "buffer_size": args.buffer_size,
                "strata": args.strata, "refill": args.refill, "ranks": len(streams), "span_seed": args.span_seed}
    evidence = {"settings": settings, "inputs": inputs_of(paths), "training": {args.policy: record}}
    return evidence, {args.policy: record}, curves, [], args.out


# ------------------------------------------------------------------------------------------ command


def check(evidence, records, runs, frozen):
    """Lines saying what is false: the proposition, a run, or the frozen evidence."""
    false = [f"{name}: {record['protected']['started']} of the longest documents have started" for name, record in
             records.items() if record["protected"]["applies"] and record["protected"]["started"]]
    for run in runs:
        differing = (key for key, equal in run.items() if equal is False)
        false += [f"{run['run']}: its {key} is not what the audit derives" for key in differing]
    difference = frozen and first_difference(read_json(frozen), evidence)
    return false + ([f"{frozen}: differs at {difference}"] if difference else [])


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--study", metavar="NAME", help="a protocol in protocols/, or the path of one (.json)")
    source.add_argument("--lengths", metavar="FILE", help=".npy: tokens of each document in order, BOS included")
    source.add_argument("--parquet", metavar="GLOB", help="quoted pattern; files in order of name")
    source.add_argument("--jsonl", nargs="+", metavar="FILE", help="JSON lines, plain or gzipped")
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", help="with ranks.txt and tokenizer.json, for texts")
    parser.add_argument("--text-column", default="text", metavar="COL", help="default text")
    parser.add_argument("--policy", default="baseline", choices=POLICIES, help="default baseline")
    parser.add_argument("--capacity", type=positive, default=2049, help="tokens a row: context + 1 (default 2049)")
    parser.add_argument("--buffer-size", type=positive, default=1000, help="default 1000")
    parser.add_argument("--refill", default="128", metavar="N|FILE", help="documents a batch, or .npy (default 128)")
    parser.add_argument("--span-seed", type=positive, default=314159265, metavar="N", help="of random_crop")
    parser.add_argument("--strata", type=ascending, default=DEFAULT_STRATA, metavar="A,B", help="default %(default)s")
    horizon = parser.add_mutually_exclusive_group()
    horizon.add_argument("--targets", type=positive, metavar="N", help="of all ranks, rounded up to whole rows")
    horizon.add_argument("--rows", type=positive, metavar="N", help="of all ranks, rounded up to as many for each")
    horizon.add_argument("--passes", type=positive, metavar="N", help="whole rows of N passes (default 1)")
    dealt = parser.add_mutually_exclusive_group()
    dealt.add_argument("--ranks", type=positive, default=1, metavar="N", help="row groups in turn, a buffer a rank")
    dealt.add_argument("--deal", metavar="FILE", help="JSON: the row groups of each rank, instead of in turn")
    parser.add_argument("--row-groups", metavar="FILE", help=".npy: documents a row group (default: refill batches)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the results on your own data")
    parser.add_argument("--repeated", action="store_true", help="whole passes, as the study's protocol says")
    parser.add_argument("--freeze", action="store_true", help="write the study's evidence beside this script")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="default data/")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="default runs/")
    args = parser.parse_args(argv)
    usual = vars(parser.parse_args(["--study", args.study])) if args.study else vars(args)
    if given := [name for name, value in vars(args).items() if value != usual[name] and name not in STUDY_OPTIONS]:
        parser.error(f"--{given[0].replace('_', '-')} is for your own data: a study's settings are its protocol's")
    if not args.study and not args.out:
        parser.error("--out DIR is needed: where the results go")
    if (args.parquet or args.jsonl) and not args.tokenizer:
        parser.error("--tokenizer DIR is needed to count the tokens of texts, for example data/demo/tokenizer")
    if (args.freeze or args.repeated) and not args.study:
        parser.error("--freeze and --repeated are for studies")
    args.passes = args.passes or (None if args.rows or args.targets else 1)
    return args


def about(args, evidence):
    """Say what was audited, for the figures: corpus, capacity and buffer size."""
    settings = evidence.get("settings", evidence)
    corpus = f"study {evidence['study']}" if args.study else Path(args.lengths or args.parquet or args.jsonl[0]).name
    return {"corpus": corpus, "capacity": settings["capacity"], "buffer_size": settings["buffer_size"]}


def main(argv=None):
    from research.source_exclusion.audit_figures import draw

    args = parse_arguments(argv)
    audit_source = audit_repeated if args.repeated else audit_study if args.study else audit_user
    try:
        evidence, records, curves, runs, out = audit_source(args)
    except Unbalanced as error:
        print(f"FALSE the account does not balance: {error}")
        return 1
    result, prefix = (out / "repeated.json", "repeated_") if args.repeated else (out / "audit.json", "")
    write_json(result, {**evidence, "runs": runs} if audit_source is audit_study else evidence)
    figures = draw(out, records, curves, about(args, evidence), prefix)
    print(*(finding(*item) for item in records.items()), sep="\n")  # after the files: a reader such as head may leave
    print(tables(records))
    frozen = HERE / f"{prefix}{evidence['study']}.json" if args.study else None
    if args.freeze:
        freeze_json(frozen, evidence)
    frozen = frozen if frozen and frozen.exists() else None
    false = check(evidence, records, runs, frozen)
    print()
    for run in runs:
        print(f"{run['run']}: {'rows and plans equal' if all(run.values()) else 'DIFFERS FROM'} what the audit derives")
    for line in false or [f"equals the frozen evidence {frozen}"] * bool(frozen):
        print(f"FALSE {line}" if false else line)
    print(f"results: {result} and {', '.join(path.name for path in figures)}")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(run_script(main))
