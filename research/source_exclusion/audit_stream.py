"""What became of the documents and tokens of a packed training stream, and which documents has it not started?

The account is exact and needs document lengths alone: where each token went, which documents were started, which
positions within them were emitted, and what the official score samples (paper, sections 5.1 and 6).

    audit_stream.py --study demo [--repeated] [--freeze]
    audit_stream.py --lengths FILE.npy --policy baseline --capacity 2049 --buffer-size 1000 --refill 128 --passes 3 \\
        --strata 128,512,2049,16384 --out DIR [--ranks 8 | --deal FILE.json] [--row-groups FILE.npy]
    audit_stream.py --parquet 'shards/**/*.parquet' --tokenizer data/demo/tokenizer --out DIR
    audit_stream.py --jsonl FILE... --tokenizer data/demo/tokenizer --out DIR

Reads   protocols/NAME.json, data/NAME/ (prepare.py) and, where runs exist, runs/NAME/*/result.json; or your files
Writes  audit.json (with --repeated: repeated.json), four figures, and for each stream not_started_STREAM.csv, which
        lists the documents that arrived and were not started; all in runs/NAME/audit/, or for your data in --out;
        with --freeze also research/source_exclusion/NAME.json (repeated_NAME.json)
Needs   NumPy, numba, matplotlib, tabulate; torch for --study; pyarrow and tiktoken for texts
About   five seconds for `demo`; a minute for 100 million lengths on two cores, with 5 GB of memory

--repeated audits whole passes of the training documents, under every policy that the protocol lists, instead of what
the runs read. The audit of a study is compared by hash with the plans and the rows of its trained runs, and with its
frozen evidence. Exit 1: one of these differs, an account does not balance, a row group is dealt to no rank or to
several, or a document was started that the proposition of section 3 says stays in the buffer.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import evidence
from evidence import Checks, first_difference, freeze_json, read_json, run_script, write_json
from research.source_exclusion.account import Unbalanced
from research.source_exclusion.audit_inputs import ROOT, ascending, positive
from research.source_exclusion.audit_parts import audit_repeated, audit_study, audit_user
from research.source_exclusion.audit_tables import account_line, finding, tables
from research.source_exclusion.not_started import write_not_started
from research.source_exclusion.quantities import SCHEMA
from research.source_exclusion.streams import POLICIES

HERE = Path(__file__).resolve().parent

DEFAULT_STRATA = "32,128,512,1024,2049,4096,8192,16384"
STUDY_OPTIONS = {"repeated", "freeze", "data", "runs"}

# ------------------------------------------------------------------------------------------ options


def add_text_options(parser):
    """Add the options that say where a user's documents are."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--study", metavar="NAME", help="a protocol in protocols/, or the path of one (.json)")
    source.add_argument("--lengths", metavar="FILE",
                        help="tokens of each document in order, BOS included: .npy, or text with one length a line")
    source.add_argument("--parquet", nargs="+", metavar="FILE",
                        help="parquet files, folders or quoted patterns (** is any depth), in order of name")
    source.add_argument("--jsonl", nargs="+", metavar="FILE",
                        help="JSON lines (plain or gzipped) or plain texts: files, folders or quoted patterns")
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", help="the tokenizer of texts, as prepare.py writes it")
    parser.add_argument("--text-column", default="text", metavar="COL", help="column or key of texts (default: text)")
    parser.add_argument("--workers", type=positive, metavar="N",
                        help="processes or threads that tokenize texts (default: one for each core that may be used)")


def add_packing_options(parser):
    """Add the options that say how a user's documents are packed, and how far."""
    parser.add_argument("--policy", default="baseline", choices=POLICIES, help="packing rule (default: baseline)")
    parser.add_argument("--capacity", type=positive, default=2049, metavar="N",
                        help="tokens in a row, which is the context plus one (default: 2049)")
    parser.add_argument("--buffer-size", type=positive, default=1000, metavar="N",
                        help="documents in the buffer (default: 1000)")
    parser.add_argument("--refill", default="128", metavar="N|FILE",
                        help="documents that arrive at once, or a .npy file of such batches (default: 128)")
    parser.add_argument("--span-seed", type=positive, default=314159265, metavar="N",
                        help="seed of the random spans of random_crop (default: 314159265)")
    parser.add_argument("--strata", type=ascending, default=DEFAULT_STRATA, metavar="A,B",
                        help="upper ends of the length classes in tokens (default: %(default)s)")
    horizon = parser.add_mutually_exclusive_group()
    horizon.add_argument("--targets", type=positive, metavar="N", help="targets of all ranks, rounded up to whole rows")
    horizon.add_argument("--rows", type=positive, metavar="N", help="rows of all ranks, rounded up to as many for each")
    horizon.add_argument("--passes", type=positive, metavar="N", help="the whole rows of N passes (default: 1)")
    dealt = parser.add_mutually_exclusive_group()
    dealt.add_argument("--ranks", type=positive, default=1, metavar="N",
                       help="ranks that take row groups in turn, each with a buffer of its own (default: 1)")
    dealt.add_argument("--deal", metavar="FILE", help="JSON list with the row groups of each rank, instead of in turn")
    parser.add_argument("--row-groups", metavar="FILE",
                        help=".npy file of the documents in each row group (default: one refill batch each)")


def parse_arguments(argv):
    """Return the arguments; one that does not go with the others ends the script with exit code 2."""
    parser = evidence.parser(__doc__)
    add_text_options(parser)
    add_packing_options(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the results on your own data")
    parser.add_argument("--repeated", action="store_true", help="audit whole passes, as the study's protocol says")
    parser.add_argument("--freeze", action="store_true", help="write the study's evidence beside this script")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR",
                        help="prepared studies (default: data/)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="trained runs (default: runs/)")
    args = parser.parse_args(argv)
    usual = vars(parser.parse_args(["--study", args.study])) if args.study else vars(args)
    if given := [name for name, value in vars(args).items() if value != usual[name] and name not in STUDY_OPTIONS]:
        parser.error(f"--{given[0].replace('_', '-')} is for your own data: a study's settings are its protocol's")
    if not args.study and not args.out:
        parser.error("--out DIR is needed: the folder for the results")
    if (args.parquet or args.jsonl) and not args.tokenizer:
        parser.error("--tokenizer DIR is needed to count the tokens of texts, for example data/demo/tokenizer")
    if (args.freeze or args.repeated) and not args.study:
        parser.error("--freeze and --repeated are for studies")
    if not (args.rows or args.targets or args.passes):
        args.passes = 1
    return args


# ------------------------------------------------------------------------------------------ checks


def check_streams(checks, audit):
    """Check the proposition and the dealing of every stream; the accounts were balanced when they were closed."""
    for name, record in audit.records.items():
        kept, dealt = record["protected"], record.get("dealing")
        checks.expect(True, account_line(name, record))
        if kept["applies"]:
            checks.expect(not kept["started"], f"{name}: {kept['started']:,} of the {kept['documents']:,} documents "
                          "that the proposition protects were started")
        if dealt:
            none, several = dealt["units_of_no_rank"], dealt["units_of_several_ranks"]
            checks.expect(not none and not several, f"{name}: {dealt['units']:,} row groups or batches are dealt, "
                          f"{listed(none)} to no rank and {listed(several)} to several")


def listed(units):
    """Return how many units these are and the first of them, as text."""
    if not units:
        return "none"
    return f"{len(units):,} ({', '.join(map(str, units[:8]))}{', ...' if len(units) > 8 else ''})"


def check_study(checks, audit, frozen):
    """Check the trained runs and, where there is any, the frozen evidence."""
    for run in audit.runs:
        differing = [key for key, equal in run.items() if equal is False]
        if differing:
            checks.expect(False, f"{run['run']}: its {', '.join(differing)} differ from what the audit derives")
        else:
            checks.expect(True, f"{run['run']}: its rows and plans are those that the audit derives")
    if frozen.exists():
        difference = first_difference(read_json(frozen), audit.evidence(frozen_schema(frozen)))
        checks.expect(not difference, f"{frozen}: differs at {difference}" if difference else
                      f"the audit equals the frozen evidence {frozen}")


def frozen_schema(frozen):
    """Return the schema of the records of frozen evidence, and the newest one when there is none yet."""
    if not frozen.exists():
        return SCHEMA
    return min(record.get("schema", 1) for record in read_json(frozen)["training"].values())


# ------------------------------------------------------------------------------------------ command


def write_results(args, audit, prefix):
    """Write the audit, its lists and its figures; return (path of the audit, {path of a list: lines}, figures)."""
    from research.source_exclusion.audit_figures import draw

    result, found = audit.out / ("repeated.json" if args.repeated else "audit.json"), audit.evidence(SCHEMA)
    write_json(result, {**found, "runs": audit.runs} if args.study and not args.repeated else found)
    lists = {}
    for name, accounts in audit.accounts.items():
        path = audit.out / f"{prefix}not_started_{name}.csv"
        lists[path] = write_not_started(path, accounts, audit.name_of)
    return result, lists, draw(audit.out, audit.records, audit.curves, audit.about, prefix)


def print_findings(audit):
    """Print a sentence for each stream, the tables, and the rows that ranks leave."""
    for name, record in audit.records.items():
        print(finding(name, record, audit.about))
    print(tables(audit.records) + "\n")
    for record in audit.records.values():
        left = [f"rank {rank} {rows:,}" for rank, rows in enumerate(record.get("rows_left", [])) if rows]
        if left:
            print(f"All ranks stop after as many rows. More rows could be filled by: {', '.join(left)}")


def main(argv=None):
    """Audit, write, print and compare; the exit code says whether everything that was checked holds."""
    args, checks = parse_arguments(argv), Checks()
    audit_source = audit_user
    if args.study:
        audit_source = audit_repeated if args.repeated else audit_study
    try:
        audit = audit_source(args)
    except Unbalanced as error:
        checks.expect(False, f"the account does not balance: {error}")
        return checks.close()
    prefix = "repeated_" if args.repeated else ""
    result, lists, figures = write_results(args, audit, prefix)
    print_findings(audit)
    check_streams(checks, audit)
    if args.study:
        frozen = HERE / f"{prefix}{audit.evidence(SCHEMA)['study']}.json"
        if args.freeze:
            freeze_json(frozen, audit.evidence(frozen_schema(frozen)))
        check_study(checks, audit, frozen)
    for path, count in lists.items():
        print(f"{count:,} documents arrived and were not started: {path}")
    print(f"results: {result} and {', '.join(path.name for path in figures)}")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
