"""The files of run directories: which code, settings and data each run of a protocol has.

generate_runs.py writes the runs of a study, and a sweep writes one run for each candidate. Standard library only.
"""

import ast
import os
import re
from pathlib import Path

from corpora.prepared import prepared_digests, prepared_file
from evidence import canonical_json, read_json, require, require_digest, sha256_bytes, sha256_file, write_atomic
from manifest import format_manifest
from protocols.schema import protocol_runs

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
    """Return ({relative path: SHA-256} of the files that a run reads, BOS id) of a prepared study.

    InputError names a setting of the tokenizer that is not the protocol's.
    """
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


def edit_tables(edits, folder):
    """Return {file: bytes} of the tables that edits name, from the folder of the protocol, checked by SHA-256."""
    tables = {}
    for edit in edits:
        if edit["kind"] == "substitute":
            require_digest(folder / edit["table"], edit["sha256"])
            tables[edit["table"]] = (folder / edit["table"]).read_bytes()
    return tables


def generated_files(protocol, protocol_path, root, data, directory):
    """Return {path relative to `directory`: bytes} of all runs of a checked protocol and their list runs.sha256."""
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
    if "captures" in protocol:
        common["captures"] = protocol["captures"]
    files = {}
    for run, (condition, seed) in protocol_runs(protocol).items():
        loader, config = loaders[condition], {**common, "condition": condition, "seed": seed}
        config["loader"] = loader.name
        own = {"loader.py": loader.read_bytes()}
        if condition in protocol.get("edits", {}):
            config["edits"] = protocol["edits"][condition]
            own |= edit_tables(config["edits"], protocol_path.parent)
        own["config.json"] = canonical_json(config)
        files |= {f"{run}/{name}": content for name, content in {**shared, **own}.items()}
    return {**files, "runs.sha256": format_manifest({name: sha256_bytes(content) for name, content in files.items()})}


def write_missing(files, directory):
    """Write the files that are missing; return their number. InputError names every existing file that differs."""
    missing = [name for name in files if not (directory / name).exists()]
    changed = [name for name in files if name not in missing and (directory / name).read_bytes() != files[name]]
    require(not changed, directory, f"edited, or generated from another version: {', '.join(sorted(changed))}; "
             "nothing was written. Move the folder aside (its ledger stays with it) and generate again")
    for name in missing:
        write_atomic(directory / name, files[name])
    return len(missing)
