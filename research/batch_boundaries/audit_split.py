"""Does any text or group of documents stand in both training and validation?

A group is what must not be split between training and validation: a package, a directory, or the value of a column.
Documents of one group are related, so a validation score over groups that were trained on measures memory as well.
Exact duplicates are counted whether or not the files name groups.

    python research/batch_boundaries/audit_split.py --study NAME [--group package directory column:COL] [--json FILE]
    python research/batch_boundaries/audit_split.py --train FILES --validation FILES [--group column:COL]

The groups `package` and `directory` are read from the names of wheel members, which look like
`package-1.0-py3-none-any.whl/directory/file`, in the column --name-column.

Reads   the shards that data/NAME/prepared.json names; or parquet and JSON lines files of your own
Writes  nothing, or the counts with --json FILE
Needs   pyarrow
About   one second for `demo`, two for `wheels`

Exit 1: a text or a group is in both splits. `prepare.py --group-column` and `--group-by` split your files by group.
"""

import hashlib
import sys
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from corpora.prepared import prepared_file, require_prepared
from evidence import Checks, InputError, freeze_json, parser, read_json, require, run_script, sha256_file

ROOT = Path(__file__).resolve().parents[2]

EXAMPLES = 3
SPLITS = ("train", "validation")


def package_of(name):
    """Return the package in the name of a wheel member."""
    return name.split("/")[0].split("-")[0].lower()


def directory_of(name):
    """Return the directory in the name of a document."""
    return PurePosixPath(name).parent.as_posix()


def grouping_of(group, name_column):
    """Return (column to read, function from its value to the group) for package, directory or column:COL."""
    kind, _, column = group.partition(":")
    if kind == "column" and column:
        return column, str
    named = {"package": package_of, "directory": directory_of}
    if group not in named:
        raise InputError(f"--group {group}: expected package, directory or column:COL")
    return name_column, named[group]


def groups_across(groups):
    """Return counts and examples of the groups in both splits. groups: {split: Counter of documents by group}."""
    shared = sorted(groups["train"].keys() & groups["validation"].keys())
    return {"groups": {split: len(groups[split]) for split in SPLITS}, "shared_groups": len(shared),
            "documents_of_shared_groups": {split: sum(groups[split][g] for g in shared) for split in SPLITS},
            "examples": shared[:EXAMPLES]}


def duplicates_across(digests):
    """Return counts and examples of the texts in both splits. digests: {split: {SHA-256: [place, ...]}}."""
    shared = sorted(digests["train"].keys() & digests["validation"].keys())
    return {"texts": len(shared),
            "documents": {split: sum(len(digests[split][digest]) for digest in shared) for split in SPLITS},
            "examples": [{split: digests[split][digest][0] for split in SPLITS} for digest in shared[:EXAMPLES]]}


def text_digests(paths, column):
    """Return {SHA-256 of a text: ['file: document number', ...]} for all documents of the files."""
    from corpora.files import read_documents

    places = defaultdict(list)
    for path in paths:
        for number, text in enumerate(read_documents([path], column)):
            places[hashlib.sha256(text.encode()).hexdigest()].append(f"{path.name}: document {number}")
    return places


def inspect(files, groupings, text_column, name_column):
    """Return {"documents", "duplicates", "groupings"} for {split: paths}; InputError if a split has no document."""
    from corpora.files import read_documents

    digests = {split: text_digests(files[split], text_column) for split in SPLITS}
    documents = {split: sum(map(len, digests[split].values())) for split in SPLITS}
    for split in SPLITS:
        require(documents[split], split, f"expected a document in {', '.join(map(str, files[split]))}, found none")
    found = {}
    for group in groupings:
        column, rule = grouping_of(group, name_column)
        found[group] = groups_across({split: Counter(map(rule, read_documents(files[split], column)))
                                      for split in SPLITS})
    return {"documents": documents, "duplicates": duplicates_across(digests), "groupings": found}


def has_column(paths, column):
    """Return whether every file is a parquet file with this column."""
    import pyarrow.parquet

    return all(path.suffix == ".parquet" and column in pyarrow.parquet.read_schema(path).names for path in paths)


def report(found):
    """Print every check and return the exit code."""
    checks, documents = Checks(), found["documents"]
    print(f"{documents['train']} training documents, {documents['validation']} validation documents")
    for group, counts in found["groupings"].items():
        sides, shared = counts["groups"], counts["documents_of_shared_groups"]
        checks.expect(not counts["shared_groups"], f"{group}: {counts['shared_groups']} groups are in both splits (of "
                      f"{sides['train']} and {sides['validation']}), with {shared['validation']} of "
                      f"{documents['validation']} validation documents" + example_text(counts["examples"]))
    same = found["duplicates"]
    checks.expect(not same["texts"], f"exact duplicates: {same['texts']} texts are in both splits ("
                  f"{same['documents']['train']} and {same['documents']['validation']} documents)"
                  + example_text([" = ".join(pair.values()) for pair in same["examples"]]))
    return checks.close()


def example_text(examples):
    return f": {'; '.join(examples)}" if examples else ""


def parse_arguments(argv):
    arguments = parser(__doc__)
    arguments.add_argument("--study", metavar="NAME", help="a prepared study")
    arguments.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR",
                           help="folder of the prepared studies (default: data/)")
    arguments.add_argument("--train", type=Path, nargs="+", metavar="FILE", help="files instead of a study")
    arguments.add_argument("--validation", type=Path, nargs="+", metavar="FILE", help="files, with --train")
    arguments.add_argument("--group", nargs="+", metavar="GROUP", help="package, directory or column:COL (default: the "
                           "first two if the files have the column --name-column, otherwise none)")
    arguments.add_argument("--text-column", metavar="COL", help="column of the texts (default: the study's, or text)")
    arguments.add_argument("--name-column", default="name", metavar="COL",
                           help="column of the names, for package and directory (default: name)")
    arguments.add_argument("--json", type=Path, metavar="FILE",
                           help="write the counts to FILE; if FILE exists, its content must be the same")
    options = arguments.parse_args(argv)
    if bool(options.study) == bool(options.train) or bool(options.train) != bool(options.validation):
        arguments.error("give --study, or both --train and --validation")
    return options


def read_source(options):
    """Return ({split: paths}, {path: name in `inputs`}, text column) for the command line."""
    if options.study:
        directory = options.data / options.study
        require_prepared(directory / "prepared.json", options.study)
        corpus = read_json(directory / "prepared.json")["corpus"]
        shards = {"train": corpus["train_shards"], "validation": [corpus["validation_shard"]]}
        files = {split: [prepared_file(directory, f"corpus/{name}") for name in shards[split]] for split in SPLITS}
        names = {path: f"data/{options.study}/corpus/{path.name}" for split in SPLITS for path in files[split]}
        return files, names, options.text_column or corpus["text_column"]
    files = {"train": options.train, "validation": options.validation}
    return files, {path: str(path) for split in SPLITS for path in files[split]}, options.text_column or "text"


def main(argv=None):
    options = parse_arguments(argv)
    files, names, text_column = read_source(options)
    groupings = options.group
    if groupings is None:
        groupings = ["package", "directory"] if has_column(names, options.name_column) else []
    if not groupings:
        print("no groups are checked: pass --group column:COL where a column names them")
    found = inspect(files, groupings, text_column, options.name_column)
    code = report(found)
    if options.json:
        inputs = [{"path": name, "sha256": sha256_file(path)} for path, name in names.items()]
        freeze_json(options.json, found | {"inputs": inputs, "study": options.study})
        print(f"written: {options.json}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
