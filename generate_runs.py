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

import argparse
import ast
import itertools
import math
import os
import re
import sys
from pathlib import Path
from typing import Callable, NamedTuple

from evidence import (
    HEX_DIGEST, InputError, canonical_json, format_manifest, read_json, require_digest, require_keys, run_script,
    sha256_bytes, sha256_file, write_atomic,
)

ROOT = Path(__file__).resolve().parent
COPIED_SECTIONS = ("packing", "model", "optimizer", "training", "evaluation")
DATA_FILES = (
    "tokenizer/ranks.txt", "tokenizer/tokenizer.json", "tokenizer/bytes_supplied.npy", "tokenizer/bytes_raw.npy",
    *(f"{split}/{name}.npy" for split in ("train", "validation") for name in ("tokens", "lengths", "refill")),
)


class Leaf(NamedTuple):
    """One value of a protocol: what it must be, in words and as a predicate."""

    expected: str
    holds: Callable[[object], bool]


def _number(value):
    return type(value) in (int, float) and abs(value) < math.inf


def _fraction(value):
    return _number(value) and 0 <= value <= 1


def _matches(pattern):
    return lambda value: type(value) is str and re.fullmatch(pattern, value) is not None


COUNT = Leaf("a positive integer", lambda v: type(v) is int and v > 0)
NATURAL = Leaf("an integer of 0 or more", lambda v: type(v) is int and v >= 0)
POSITIVE = Leaf("a number over 0", lambda v: _number(v) and v > 0)
FRACTION = Leaf("a number from 0 to 1", _fraction)
BETAS = Leaf("two numbers from 0 to 1", lambda v: type(v) is list and len(v) == 2 and all(map(_fraction, v)))
FLAG = Leaf("true or false", lambda v: type(v) is bool)
TEXT = Leaf("a text that is not empty", lambda v: type(v) is str and v != "")
NAME = Leaf("a name of a-z, 0-9 and _", _matches(r"[a-z0-9_]+"))
FILE = Leaf("a plain file name", _matches(r"[\w-][\w.+-]*"))
DIGEST = Leaf("64 hex digits", _matches(HEX_DIGEST))
WINDOWS = Leaf("a text of S and L", _matches(r"[SL]+"))
PRECISION = Leaf('"float32" or "bfloat16"', lambda v: v in ("float32", "bfloat16"))

_SHARDS = {"text_column": TEXT, "train_shards": [FILE], "validation_shard": FILE}
_WHEEL = {"file": FILE, "name": TEXT, "sha256": DIGEST, "version": TEXT}
CORPORA = {
    "download": {"kind": TEXT, "base_url": TEXT, **_SHARDS},
    "wheels": {"kind": TEXT, "maximum_bytes": COUNT, "minimum_bytes": COUNT, "row_group_documents": COUNT,
               "suffixes": [TEXT], "wheels": [_WHEEL], **_SHARDS},
}
_ADAM_GROUP = {"betas": BETAS, "rate": POSITIVE, "scale_by_width": FLAG}
_ADAM_GROUPS = ("embedding_scales", "head", "residual_scales", "token_embedding", "value_embeddings")
SCHEMA = {
    "study": NAME,
    "conditions": {NAME: NAME},
    "seeds": [NATURAL],
    "tokenizer": {"bos": TEXT, "document_characters": COUNT, "pattern": TEXT, "specials": [TEXT],
                  "train_characters": COUNT, "vocabulary": COUNT},
    "packing": {"buffer_size": COUNT, "context": COUNT, "refill_batch": COUNT, "span_seed": NATURAL},
    "model": {"gate_channels": COUNT, "heads": COUNT, "layers": COUNT, "rotary_base": POSITIVE, "softcap": POSITIVE,
              "width": COUNT, "window_pattern": WINDOWS},
    "optimizer": {
        "adam": {"epsilon": POSITIVE, "reference_width": COUNT, **dict.fromkeys(_ADAM_GROUPS, _ADAM_GROUP)},
        "cooldown_fraction": FRACTION,
        "muon": {"momentum_end": FRACTION, "momentum_start": FRACTION, "momentum_updates": COUNT, "rate": POSITIVE,
                 "second_moment_beta": FRACTION, "weight_decay": FRACTION},
    },
    "training": {"accumulation": COUNT, "checkpoint_every": COUNT, "compile": FLAG, "logit_chunk": COUNT,
                 "loss_limit": POSITIVE, "microbatch": COUNT, "precision": PRECISION, "threads": COUNT,
                 "timer_skip": NATURAL, "updates": COUNT},
    "evaluation": {"microbatch": COUNT, "targets": COUNT},
    "audit": {"repeated": {"context": COUNT, "passes": COUNT, "policies": [NAME]}, "strata": [COUNT]},
}


def _require(holds, where, text):
    if not holds:
        raise InputError(f"{where}: {text}")


def check_shape(value, shape, where):
    """InputError naming the key unless `value` has the exact keys and types of `shape`.

    A shape is a Leaf, a dict of exact keys, a dict {Leaf: shape} for keys of the user's choice, or a list with the
    one shape of all its entries; the last two may not be empty.
    """
    if isinstance(shape, Leaf):
        _require(shape.holds(value), where, f"expected {shape.expected}, found {value!r}")
        return
    free = next((key for key in shape if isinstance(key, Leaf)), None)
    if isinstance(shape, list):
        _require(isinstance(value, list) and value, where, f"expected a list with entries, found {value!r}")
        value, shape = dict(enumerate(value)), dict(enumerate(shape * len(value)))
    elif free:
        _require(isinstance(value, dict) and value, where, f"expected an object with entries, found {value!r}")
        for key in value:
            check_shape(key, free, f"{where}: key")
        shape = dict.fromkeys(value, shape[free])
    require_keys(value, shape, where)
    for key, item in value.items():
        check_shape(item, shape[key], f"{where}.{key}")


def _check_relations(protocol, where):
    model, tokenizer, corpus = protocol["model"], protocol["tokenizer"], protocol["corpus"]
    context, specials = protocol["packing"]["context"], tokenizer["specials"]
    shards = [*corpus["train_shards"], corpus["validation_shard"]]
    for key, values in {"seeds": protocol["seeds"], "tokenizer.specials": specials, "corpus: shards": shards}.items():
        _require(len(set(values)) == len(values), f"{where}.{key}", f"expected distinct entries, found {values}")
    rules = [
        ("tokenizer", "bos", lambda v: v in specials, f"one of {specials}"),
        ("tokenizer", "vocabulary", lambda v: v >= 256 + len(specials), "room for 256 bytes and the specials"),
        ("model", "width", lambda v: v % (2 * model["heads"]) == 0, f"a multiple of 2 * heads = {2 * model['heads']}"),
        ("model", "gate_channels", lambda v: v <= model["width"], f"at most the width {model['width']}"),
        ("audit", "strata", lambda v: v == sorted(set(v)), "ascending lengths"),
        ("evaluation", "targets", lambda v: v % context == 0, f"a multiple of packing.context = {context}"),
    ]
    for section, key, holds, expected in rules:
        value = protocol[section][key]
        _require(holds(value), f"{where}.{section}.{key}", f"expected {expected}, found {value!r}")


def check_protocol(protocol, where):
    """InputError naming the first key of a protocol that is missing, unknown, of the wrong type or contradicted."""
    require_keys(protocol, {*SCHEMA, "corpus"}, where)
    kind = protocol["corpus"].get("kind") if isinstance(protocol["corpus"], dict) else None
    _require(kind in list(CORPORA), f"{where}.corpus.kind", f"expected one of {', '.join(CORPORA)}, found {kind!r}")
    check_shape(protocol, {**SCHEMA, "corpus": CORPORA[kind]}, where)
    _check_relations(protocol, where)


def _imported_loaders(path):
    """Names of the modules of loaders/ that a Python file imports, wherever in the file."""
    names = []
    for node in ast.walk(ast.parse(path.read_bytes(), filename=str(path))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names += [package + alias.name for alias in node.names]
    return re.findall(r"^loaders\.(\w+)", "\n".join(names), re.MULTILINE)


def _loader_file(root, name, where):
    path = root / "loaders" / f"{name}.py"
    holds = path.is_file() and re.search(r"^def plan\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    _require(holds, where, f"{name!r} names no loader: expected {path} with a function plan")
    return path


def shared_files(root, loaders):
    """{relative path: bytes} of the code all runs share: train.py, evidence.py and what they and `loaders` import."""
    found = {name for name in ("train.py", "evidence.py", "loaders/__init__.py") if (root / name).is_file()}
    waiting = [root / "train.py", *loaders]
    while waiting:
        imported = {f"loaders/{name}.py" for name in _imported_loaders(waiting.pop())} - found
        waiting += [root / name for name in sorted(imported)]
        found |= imported
    return {name: (root / name).read_bytes() for name in sorted(found)}


def prepared_data(directory, tokenizer, study):
    """({relative path: sha256} of what a run reads, BOS id) of a prepared study whose tokenizer is the protocol's."""
    path, tokenizer_path = directory / "prepared.json", directory / "tokenizer/tokenizer.json"
    _require(path.is_file(), path, f"missing; run `python prepare.py --study {study}` first")
    prepared = read_json(path)
    files = prepared.get("files") if isinstance(prepared, dict) else None
    missing = [name for name in DATA_FILES if not isinstance(files, dict) or not DIGEST.holds(files.get(name))]
    _require(not missing, f"{path}: files", f"no SHA-256 of {', '.join(missing)}; prepare the study again")
    require_digest(tokenizer_path, files["tokenizer/tokenizer.json"])
    saved = read_json(tokenizer_path)
    found = {"vocabulary": saved["vocabulary"], "pattern": saved["pattern"], "specials": sorted(saved["specials"]),
             "bos": [name for name, number in saved["specials"].items() if number == saved["bos"]]}
    expected = {**tokenizer, "specials": sorted(tokenizer["specials"]), "bos": [tokenizer["bos"]]}
    for key, value in found.items():
        _require(value == expected[key], f"{tokenizer_path}: {key}",
                 f"expected {expected[key]!r} as in the protocol, found {value!r}; prepare the study again")
    return {name: files[name] for name in DATA_FILES}, saved["bos"]


def generated_files(protocol, protocol_path, root, data, directory):
    """{path relative to `directory`: bytes} of every run of a checked protocol, and their list runs.sha256."""
    loaders = {condition: _loader_file(root, name, f"{protocol_path}: conditions.{condition}")
               for condition, name in protocol["conditions"].items()}
    shared = shared_files(root, loaders.values())
    data_files, bos = prepared_data(data, protocol["tokenizer"], protocol["study"])
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


def write_missing(files, directory):
    """Write what is not there yet; return how many. InputError naming every file that is there and differs."""
    missing = [name for name in files if not (directory / name).exists()]
    changed = [name for name in files if name not in missing and (directory / name).read_bytes() != files[name]]
    _require(not changed, directory, f"edited, or generated from another version: {', '.join(sorted(changed))}; "
             "nothing was written. Move the folder aside (its ledger stays with it) and generate again")
    for name in missing:
        write_atomic(directory / name, files[name])
    return len(missing)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    print(f"{runs} run directories, {len(files)} files, {written} of them new: {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
