"""Which run directories does a protocol stand for? Write one complete directory for each of its runs.

Reads   a protocol (protocols/<study>.json) and the tables that its edits name, data/<study>/prepared.json and its
        tokenizer/tokenizer.json, train.py and all files of the repository that it and the conditions' loaders import
Writes  runs/<study>/<condition>_s<seed>/: train.py and what it imports, loader.py, loaders/, config.json;
        runs/<study>/runs.sha256, the list of all of them
Needs   the standard library; the study prepared by prepare.py
About   less than a second

    python generate_runs.py protocols/demo.json [--runs DIR] [--data DIR]

All runs of a study share every byte but loader.py, the tables of edits, and the keys condition, seed, loader and edits
of config.json. A second call writes nothing; it names a generated file that differs on disk and leaves it alone.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import evidence
from evidence import read_json, run_script
from protocols.run_files import generated_files, write_missing
from protocols.schema import check_protocol, protocol_runs

ROOT = Path(__file__).resolve().parent


def few_documents(prepared, buffer_size):
    """Return a warning for each split of prepared.json with no more documents than the buffer takes."""
    counts = {name: split["documents"] for name, split in prepared.get("splits", {}).items()}
    return [f"warning: {name} has {count:,} documents, no more than the buffer of {buffer_size:,}: its stream repeats "
            "them before a long one can start; take more text, or lower packing.buffer_size"
            for name, count in counts.items() if count <= buffer_size]


def main(argv=None):
    parser = evidence.parser(__doc__)
    parser.add_argument("protocol", type=Path, help="path of the protocol, such as protocols/demo.json")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where studies are run (default: runs)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where studies are prepared (default: data)")
    arguments = parser.parse_args(argv)
    protocol = read_json(arguments.protocol)
    check_protocol(protocol, str(arguments.protocol))
    directory = arguments.runs.resolve() / protocol["study"]
    data = arguments.data.resolve() / protocol.get("prepared", protocol["study"])
    files = generated_files(protocol, arguments.protocol, ROOT, data, directory)
    written = write_missing(files, directory)
    runs = len(protocol_runs(protocol))
    for warning in few_documents(read_json(data / "prepared.json"), protocol["packing"]["buffer_size"]):
        print(warning)
    print(f"{runs} run directories, {len(files)} files, {written} of them new: {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
