"""What is a protocol? The exact keys, types and relations of protocols/<study>.json, checked in one place.

Scripts that read a protocol call `check_protocol`, or `read_evaluation` for a section of evaluation_<study>.json: a key
that is missing, unknown, of the wrong type or contradicted by another is named, and nothing has a default. Standard
library and `evidence` only.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from evidence import HEX_DIGEST, InputError, read_json, require, require_keys


class Leaf(NamedTuple):
    """One value of a protocol: what it must be, in words and as a predicate."""

    expected: str
    holds: Callable[[object], bool]


class Nullable(NamedTuple):
    """A part that may be null: the study goes without."""

    shape: object


def _number(value):
    return type(value) in (int, float) and abs(value) < math.inf


def _fraction(value):
    return _number(value) and 0 <= value <= 1


def _naturals(value, least=0):
    return type(value) is list and all(type(item) is int and item >= least for item in value)


def _matches(pattern):
    return lambda value: type(value) is str and re.fullmatch(pattern, value) is not None


COUNT = Leaf("a positive integer", lambda v: type(v) is int and v > 0)
NATURAL = Leaf("an integer of 0 or more", lambda v: type(v) is int and v >= 0)
POSITIVE = Leaf("a number over 0", lambda v: _number(v) and v > 0)
FRACTION = Leaf("a number from 0 to 1", _fraction)
BETAS = Leaf("two numbers from 0 to 1", lambda v: type(v) is list and len(v) == 2 and all(map(_fraction, v)))
RISING = Leaf("rising positive integers", lambda v: _naturals(v, 1) and v and v == sorted(set(v)))
SPAN = Leaf("[first, last) with 0 <= first < last", lambda v: _naturals(v) and len(v) == 2 and v[0] < v[1])
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
_POPULATION = Nullable({"documents": SPAN, "seed": NATURAL})
EVALUATION = {
    "confirmation": Nullable({"documents": SPAN, "targets": COUNT}),
    "prefix_ranking": {"prefixes": RISING, "seed": NATURAL, "subsets": COUNT},
    "source_windows": {"bins": RISING, "bootstrap": {"replicates": COUNT, "seed": NATURAL}, "contrast_strata": [TEXT],
                       "per_stratum": COUNT, "strata": RISING,
                       "populations": {"development": _POPULATION, "confirmation": _POPULATION}},
}


def check_shape(value, shape, where):
    """InputError naming the key unless `value` has the exact keys and types of `shape`.

    A shape is a Leaf, a Nullable of a shape, a dict of exact keys, a dict {Leaf: shape} for keys of the user's choice,
    or a list with the one shape of all its entries; the last two may not be empty.
    """
    if isinstance(shape, Nullable):
        if value is None:
            return
        shape = shape.shape
    if isinstance(shape, Leaf):
        require(shape.holds(value), where, f"expected {shape.expected}, found {value!r}")
        return
    free = next((key for key in shape if isinstance(key, Leaf)), None)
    if isinstance(shape, list):
        require(isinstance(value, list) and value, where, f"expected a list with entries, found {value!r}")
        value, shape = dict(enumerate(value)), dict(enumerate(shape * len(value)))
    elif free:
        require(isinstance(value, dict) and value, where, f"expected an object with entries, found {value!r}")
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
        require(len(set(values)) == len(values), f"{where}.{key}", f"expected distinct entries, found {values}")
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
        require(holds(value), f"{where}.{section}.{key}", f"expected {expected}, found {value!r}")


def check_protocol(protocol, where):
    """InputError naming the first key of a protocol that is missing, unknown, of the wrong type or contradicted."""
    require_keys(protocol, {*SCHEMA, "corpus"}, where)
    kind = protocol["corpus"].get("kind") if isinstance(protocol["corpus"], dict) else None
    require(kind in list(CORPORA), f"{where}.corpus.kind", f"expected one of {', '.join(CORPORA)}, found {kind!r}")
    check_shape(protocol, {**SCHEMA, "corpus": CORPORA[kind]}, where)
    _check_relations(protocol, where)


def read_evaluation(path, section):
    """One section of an evaluation protocol, null where the study goes without; InputError names what is wrong."""
    content = read_json(path)
    require_keys(content, {section, *EVALUATION.keys() & content} if isinstance(content, dict) else (), path)
    check_shape(content[section], EVALUATION[section], f"{path}: {section}")
    return content[section]


def study_protocols(folder):
    """The protocols of studies in `folder`; the rest say what else is done with a study (evaluation_, candidates_)."""
    return [path for path in sorted(folder.glob("*.json")) if not path.stem.startswith(("evaluation_", "candidates_"))]


def find_protocol(name, folder):
    """(checked protocol, its path) of a study in `folder`, or of the path of a .json; InputError lists the studies."""
    path = Path(name) if name.endswith(".json") else folder / f"{name}.json"
    if not path.exists():
        there = ", ".join(other.stem for other in study_protocols(path.parent))
        raise InputError(f"{path}: no such protocol; there are {there}")
    protocol = read_json(path)
    check_protocol(protocol, str(path))
    return protocol, path


# -------------------------------------------------------------------------------------------- sweeps

CANDIDATE = {"context": COUNT, "heads": COUNT, "microbatch": COUNT, "width": COUNT}
SWEEP = {"base": NAME, "calibration_updates": Leaf("2 or more", lambda v: type(v) is int and v >= 2),
         "candidates": [CANDIDATE], "condition": NAME, "evaluation_targets": COUNT, "logit_chunk": COUNT,
         "seconds": POSITIVE, "seed": NATURAL}


def read_sweep(path):
    """Return the sweep of a file candidates_<study>.json; InputError names what is wrong.

    At least two updates of calibration are needed, because the speed is measured over their second half.
    """
    sweep = read_json(path)
    check_shape(sweep, SWEEP, str(path))
    return sweep


def candidate_name(candidate):
    """Return the name of the folder of a sweep's candidate."""
    return "context{context}_width{width}_microbatch{microbatch}".format(**candidate)


def candidate_protocol(base, sweep, candidate, updates, targets):
    """Return the base study's protocol with a candidate's model and batch, one run, `updates` and scored `targets`."""
    condition, context = sweep["condition"], candidate["context"]
    training = {"microbatch": candidate["microbatch"], "accumulation": 1, "updates": updates,
                "checkpoint_every": updates, "logit_chunk": sweep["logit_chunk"]}
    protocol = {
        **base, "conditions": {condition: base["conditions"][condition]}, "seeds": [sweep["seed"]],
        "packing": {**base["packing"], "context": context},
        "model": {**base["model"], "width": candidate["width"], "heads": candidate["heads"]},
        "training": {**base["training"], **training},
        "evaluation": {**base["evaluation"], "targets": targets},
    }
    check_protocol(protocol, candidate_name(candidate))
    return protocol
