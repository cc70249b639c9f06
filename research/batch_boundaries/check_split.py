"""Were training and validation separated by group before packing, and does no text stand in both?

A group is what must not be torn apart: a package, a directory, or the value of a column. Documents of one group are
related, so a validation score over groups that were trained on measures memory as well.

    check_split.py --study NAME [--group package directory column:COL] [--json FILE]
    check_split.py --train FILES --validation FILES --group column:COL

package and directory are read from the names of wheel members, `package-1.0-py3-none-any.whl/directory/file`, in the
column --name-column.

Reads   data/NAME/corpus/*.parquet, the last one being validation; or parquet and JSON lines files of yours
Writes  nothing; with --json the counts, once: other content is refused
Needs   pyarrow
About   a second for `demo`, two for `wheels`

Exit 1: a group is in both splits, or a text is. prepare.py --group-column or --group-by splits your files by group.
"""

import argparse
import hashlib
import sys
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, freeze_json, run_script, sha256_file

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

EXAMPLES = 3
SPLITS = ("train", "validation")


def package_of(name):
    """The package of a wheel member's name."""
    return name.split("/")[0].split("-")[0].lower()


def directory_of(name):
    """The directory of a document's name."""
    return PurePosixPath(name).parent.as_posix()


def grouping_of(group, name_column):
    """(column to read, value -> group) of package, directory or column:COL; InputError for another."""
    kind, _, column = group.partition(":")
    if kind == "column" and column:
        return column, str
    named = {"package": package_of, "directory": directory_of}
    if group not in named:
        raise InputError(f"--group {group}: expected package, directory or column:COL")
    return name_column, named[group]


def groups_across(groups):
    """Counts and examples of the groups in both splits. groups: {split: Counter of documents a group}."""
    shared = sorted(groups["train"].keys() & groups["validation"].keys())
    return {"groups": {split: len(groups[split]) for split in SPLITS}, "shared_groups": len(shared),
            "documents_of_shared_groups": {split: sum(groups[split][g] for g in shared) for split in SPLITS},
            "examples": shared[:EXAMPLES]}


def duplicates_across(digests):
    """Counts and examples of the texts in both splits. digests: {split: {SHA-256: [place, ...]}}."""
    shared = sorted(digests["train"].keys() & digests["validation"].keys())
    return {"texts": len(shared),
            "documents": {split: sum(len(digests[split][digest]) for digest in shared) for split in SPLITS},
            "examples": [{split: digests[split][digest][0] for split in SPLITS} for digest in shared[:EXAMPLES]]}


def text_digests(paths, column):
    """{SHA-256 of a text: its places, `file: document number`} of all documents of the files."""
    from corpora.files import read_documents

    places = defaultdict(list)
    for path in paths:
        for number, text in enumerate(read_documents([path], column)):
            places[hashlib.sha256(text.encode()).hexdigest()].append(f"{path.name}: document {number}")
    return places


def inspect(files, groupings, text_column, name_column):
    """{"documents", "duplicates", "groupings"} of {split: paths}; InputError when a split has no document."""
    from corpora.files import read_documents

    digests = {split: text_digests(files[split], text_column) for split in SPLITS}
    documents = {split: sum(map(len, digests[split].values())) for split in SPLITS}
    for split in SPLITS:
        if not documents[split]:
            raise InputError(f"{split}: no document in {', '.join(map(str, files[split]))}")
    found = {}
    for group in groupings:
        column, rule = grouping_of(group, name_column)
        found[group] = groups_across({split: Counter(map(rule, read_documents(files[split], column)))
                                      for split in SPLITS})
    return {"documents": documents, "duplicates": duplicates_across(digests), "groupings": found}


def study_files(directory):
    """{split: paths} of a prepared corpus: the last shard is validation."""
    shards = sorted((directory / "corpus").glob("*.parquet"))
    if len(shards) < 2:
        raise InputError(f"{directory}/corpus: expected two shards or more, found {len(shards)}; prepare it first")
    return {"train": shards[:-1], "validation": shards[-1:]}


def report(found):
    """Print every check; the exit code."""
    checks, documents = Checks(), found["documents"]
    print(f"{documents['train']} training documents, {documents['validation']} validation documents")
    for group, counts in found["groupings"].items():
        sides, torn = counts["groups"], counts["documents_of_shared_groups"]
        checks.expect(not counts["shared_groups"], f"{group}: {counts['shared_groups']} groups are in both splits (of "
                      f"{sides['train']} and {sides['validation']}), with {torn['validation']} of "
                      f"{documents['validation']} validation documents" + example_text(counts["examples"]))
    same = found["duplicates"]
    checks.expect(not same["texts"], f"exact duplicates: {same['texts']} texts are in both splits ("
                  f"{same['documents']['train']} and {same['documents']['validation']} documents)"
                  + example_text([" = ".join(pair.values()) for pair in same["examples"]]))
    return checks.close()


def example_text(examples):
    return f": {'; '.join(examples)}" if examples else ""


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", metavar="NAME", help="a prepared corpus, data/NAME")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="default data/")
    parser.add_argument("--train", type=Path, nargs="+", metavar="FILE", help="instead of --study")
    parser.add_argument("--validation", type=Path, nargs="+", metavar="FILE", help="with --train")
    parser.add_argument("--group", nargs="+", default=["package", "directory"], metavar="GROUP",
                        help="package, directory, column:COL (default package directory)")
    parser.add_argument("--text-column", default="text", metavar="COL", help="default text")
    parser.add_argument("--name-column", default="name", metavar="COL", help="for package and directory (default name)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="freeze the counts there")
    args = parser.parse_args(argv)
    if bool(args.study) == bool(args.train) or bool(args.train) != bool(args.validation):
        parser.error("give --study, or both --train and --validation")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    if args.study:
        files = study_files(args.data / args.study)
    else:
        files = {"train": args.train, "validation": args.validation}
    found = inspect(files, args.group, args.text_column, args.name_column)
    code = report(found)
    if args.json:
        paths = {path: f"data/{args.study}/corpus/{path.name}" if args.study else str(path)
                 for split in SPLITS for path in files[split]}
        inputs = [{"path": name, "sha256": sha256_file(path)} for path, name in paths.items()]
        freeze_json(args.json, found | {"inputs": inputs, "study": args.study})
        print(f"frozen: {args.json}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
