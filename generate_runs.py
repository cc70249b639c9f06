"""Which run directories does a protocol stand for? One directory a condition and seed, each complete and hashed.

Reads   a protocol (protocols/<study>.json), data/<study>/prepared.json and its tokenizer/tokenizer.json, train.py,
        evidence.py, and those files of loaders/ that the conditions and train.py import
Writes  runs/<study>/<condition>_s<seed>/{train.py,evidence.py,loader.py,loaders/,config.json} and
        runs/<study>/runs.sha256, the list of all of them
Needs   the standard library; the study prepared by prepare.py
Takes   less than a second

    python generate_runs.py protocols/demo.json [--runs DIR] [--data DIR]

All runs of a study share every byte but loader.py and the keys condition, seed and loader of config.json. A second
run writes nothing; a generated file that differs on disk is named and left alone.
"""

import ast
import itertools
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python leaves it out under -I or PYTHONSAFEPATH

import evidence
from corpora.prepared import prepared_digests, prepared_file
from evidence import canonical_json, read_json, require, run_script, sha256_bytes, sha256_file, write_atomic
from manifest import format_manifest
from protocols.schema import check_protocol

ROOT = Path(__file__).resolve().parent

COPIED_SECTIONS = ("packing", "model", "optimizer", "training", "evaluation")
DATA_FILES = (
    "tokenizer/ranks.txt", "tokenizer/tokenizer.json", "tokenizer/bytes_supplied.npy", "tokenizer/bytes_raw.npy",
    *(f"{split}/{name}.npy" for split in ("train", "validation") for name in ("tokens", "lengths", "refill")),
)


def _imported_files(root, path):
    """Return the files of the repository that a Python file imports anywhere, as paths relative to `root`."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_bytes(), filename=str(path))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    names = {f"{module.replace('.', '/')}.py" for module in modules}
    return {name for name in names if (root / name).is_file()}


def _loader_file(root, name, where):
    path = root / "loaders" / f"{name}.py"
    holds = path.is_file() and re.search(r"^LOADER = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    require(holds, where, f"{name!r} names no loader: expected {path} with a LOADER")
    return path


def shared_files(root, loaders):
    """Return {relative path: bytes} of the code that all runs share: train.py and what it and `loaders` import."""
    found = {name for name in ("train.py", "loaders/__init__.py") if (root / name).is_file()}
    waiting = [root / "train.py", *loaders]
    while waiting:
        imported = _imported_files(root, waiting.pop()) - found
        waiting += [root / name for name in imported]
        found |= imported
    return {name: (root / name).read_bytes() for name in sorted(found)}


def prepared_data(directory, tokenizer):
    """({relative path: sha256} of what a run reads, BOS id) of a prepared study whose tokenizer is the protocol's."""
    files = prepared_digests(directory, DATA_FILES)
    tokenizer_path = prepared_file(directory, "tokenizer/tokenizer.json")
    saved = read_json(tokenizer_path)
    found = {"vocabulary": saved["vocabulary"], "pattern": saved["pattern"], "specials": sorted(saved["specials"]),
             "bos": [name for name, number in saved["specials"].items() if number == saved["bos"]]}
    expected = {**tokenizer, "specials": sorted(tokenizer["specials"]), "bos": [tokenizer["bos"]]}
    for key, value in found.items():
        require(value == expected[key], f"{tokenizer_path}: {key}",
                 f"expected {expected[key]!r} as in the protocol, found {value!r}; prepare the study again")
    return files, saved["bos"]


def generated_files(protocol, protocol_path, root, data, directory):
    """{path relative to `directory`: bytes} of every run of a checked protocol, and their list runs.sha256."""
    loaders = {condition: _loader_file(root, name, f"{protocol_path}: conditions.{condition}")
               for condition, name in protocol["conditions"].items()}
    shared = shared_files(root, loaders.values())
    data_files, bos = prepared_data(data, protocol["tokenizer"])
    common = {
        "study": protocol["study"], "protocol_sha256": sha256_file(protocol_path),
        "bos": bos, "vocabulary": protocol["tokenizer"]["vocabulary"],
        "data": {"directory": Path(os.path.relpath(data, directory / "run")).as_posix(), "files": data_files},
        **{section: protocol[section] for section in COPIED_SECTIONS},
    }
    files = {}
    for (condition, loader), seed in itertools.product(loaders.items(), protocol["seeds"]):
        config = {**common, "condition": condition, "seed": seed, "loader": loader.name}
        own = {"loader.py": loader.read_bytes(), "config.json": canonical_json(config)}
        files |= {f"{condition}_s{seed}/{name}": content for name, content in {**shared, **own}.items()}
    return {**files, "runs.sha256": format_manifest({name: sha256_bytes(content) for name, content in files.items()})}


def few_documents(prepared, buffer_size):
    """A warning for each split of prepared.json that the buffer holds whole, so that the stream soon repeats it."""
    counts = {name: split["documents"] for name, split in prepared.get("splits", {}).items()}
    return [f"warning: {name} has {count:,} documents, no more than the buffer of {buffer_size:,}: its stream repeats "
            "them before a long one can start; take more text, or lower packing.buffer_size"
            for name, count in counts.items() if count <= buffer_size]


def write_missing(files, directory):
    """Write what is not there yet; return how many. InputError naming every file that is there and differs."""
    missing = [name for name in files if not (directory / name).exists()]
    changed = [name for name in files if name not in missing and (directory / name).read_bytes() != files[name]]
    require(not changed, directory, f"edited, or generated from another version: {', '.join(sorted(changed))}; "
             "nothing was written. Move the folder aside (its ledger stays with it) and generate again")
    for name in missing:
        write_atomic(directory / name, files[name])
    return len(missing)


def main(argv=None):
    parser = evidence.parser(__doc__)
    parser.add_argument("protocol", type=Path)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where studies are run (default: runs)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where studies are prepared (default: data)")
    arguments = parser.parse_args(argv)
    protocol = read_json(arguments.protocol)
    check_protocol(protocol, str(arguments.protocol))
    directory, data = (folder.resolve() / protocol["study"] for folder in (arguments.runs, arguments.data))
    files = generated_files(protocol, arguments.protocol, ROOT, data, directory)
    written = write_missing(files, directory)
    runs = len(protocol["conditions"]) * len(protocol["seeds"])
    for warning in few_documents(read_json(data / "prepared.json"), protocol["packing"]["buffer_size"]):
        print(warning)
    print(f"{runs} run directories, {len(files)} files, {written} of them new: {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
