"""What is a protocol? The exact keys, types, bounds and relations of protocols/*.json, checked in one place.

Scripts that read a protocol call `find_protocol` or `check_protocol`, `read_evaluation` for a section of
evaluation_<study>.json, and `read_sweep` for candidates_<study>.json. InputError names a key that is missing, unknown,
of the wrong type, out of bounds or contradicted by another. Nothing has a default. Standard library only.

Four keys of a protocol may be absent. `prepared` names the study whose prepared data are used instead of the study's
own. `runs` lists the runs one by one, as [condition, seed]; otherwise every condition has every seed. `edits` gives a
condition the edits of its plan (see loaders/edits.py). `captures` is the number of first updates that are captured.
"""

from pathlib import Path

from evidence import InputError, read_json, require, require_keys
from protocols.shapes import (
    BETAS,
    COUNT,
    DIGEST,
    FILE,
    FLAG,
    FRACTION,
    NAME,
    NATURAL,
    POSITIVE,
    RISING,
    SEED,
    SEED64,
    SPAN,
    TEXT,
    Absent,
    Kinds,
    Leaf,
    Nullable,
    check_shape,
    integer,
    matching,
    one_of,
)

SMALL = integer(1, 1 << 16)
TOKENS = integer(1, 1 << 24)
ENTRIES = integer(1, 1_000_000_000)
UPDATES = integer(1, 100_000_000)
WINDOWS = matching(r"[SL]{1,1000}", "a text of S and L")
RUN = Leaf("[condition, seed]", lambda v: type(v) is list and len(v) == 2 and NAME.holds(v[0]) and SEED.holds(v[1]))

_SHARDS = {"text_column": TEXT, "train_shards": [FILE], "validation_shard": FILE}
_WHEEL = {"file": FILE, "name": TEXT, "sha256": DIGEST, "version": TEXT}
CORPUS = Kinds({
    "download": {"base_url": TEXT, **_SHARDS},
    "wheels": {"maximum_bytes": COUNT, "minimum_bytes": COUNT, "row_group_documents": ENTRIES, "suffixes": [TEXT],
               "wheels": [_WHEEL], **_SHARDS},
})
EDIT = Kinds({
    "order": {"unit": one_of("row", "update"), "block_updates": UPDATES, "generator": one_of("PCG64"), "seed": SEED64},
    "substitute": {"table": matching(r"substitution_\w+\.json", "substitution_<name>.json"), "sha256": DIGEST},
})
_ADAM_GROUP = {"betas": BETAS, "rate": POSITIVE, "scale_by_width": FLAG}
_ADAM_GROUPS = ("embedding_scales", "head", "residual_scales", "token_embedding", "value_embeddings")
SCHEMA = {
    "study": NAME,
    "prepared": Absent(NAME),
    "corpus": CORPUS,
    "conditions": {NAME: NAME},
    "seeds": [SEED],
    "runs": Absent([RUN]),
    "edits": Absent({NAME: [EDIT]}),
    "captures": Absent(UPDATES),
    "tokenizer": {"bos": TEXT, "document_characters": COUNT, "pattern": TEXT, "specials": [TEXT],
                  "train_characters": COUNT, "vocabulary": TOKENS},
    "packing": {"buffer_size": ENTRIES, "context": TOKENS, "refill_batch": ENTRIES, "span_seed": SEED64},
    "model": {"gate_channels": SMALL, "heads": SMALL, "layers": integer(1, 1000), "rotary_base": POSITIVE,
              "softcap": POSITIVE, "width": SMALL, "window_pattern": WINDOWS},
    "optimizer": {
        "adam": {"epsilon": POSITIVE, "reference_width": SMALL, **dict.fromkeys(_ADAM_GROUPS, _ADAM_GROUP)},
        "cooldown_fraction": FRACTION,
        "muon": {"momentum_end": FRACTION, "momentum_start": FRACTION, "momentum_updates": UPDATES, "rate": POSITIVE,
                 "second_moment_beta": FRACTION, "weight_decay": FRACTION},
    },
    "training": {"accumulation": SMALL, "checkpoint_every": UPDATES, "compile": FLAG, "logit_chunk": TOKENS,
                 "loss_limit": POSITIVE, "microbatch": SMALL, "precision": one_of("float32", "bfloat16"),
                 "threads": integer(1, 1024), "timer_skip": NATURAL, "updates": UPDATES},
    "evaluation": {"microbatch": SMALL, "targets": COUNT},
    "audit": {"repeated": {"context": TOKENS, "passes": UPDATES, "policies": [NAME]}, "strata": [COUNT]},
}
_POPULATION = Nullable({"documents": SPAN, "seed": SEED64})
EVALUATION = {
    "confirmation": Nullable({"documents": SPAN, "targets": COUNT}),
    "prefix_ranking": {"prefixes": RISING, "seed": SEED64, "subsets": UPDATES},
    "source_windows": {"bins": RISING, "bootstrap": {"replicates": UPDATES, "seed": SEED64},
                       "contrast_strata": [TEXT], "per_stratum": COUNT, "strata": RISING,
                       "populations": {"development": _POPULATION, "confirmation": _POPULATION}},
}


def protocol_runs(protocol):
    """Return {name: (condition, seed)} of a protocol's runs, seed by seed unless the protocol lists them."""
    pairs = protocol.get("runs") or [(condition, seed) for seed in protocol["seeds"]
                                     for condition in protocol["conditions"]]
    return {f"{condition}_s{seed}": (condition, seed) for condition, seed in pairs}


def _check_distinct(protocol, where):
    corpus = protocol["corpus"]
    lists = {"seeds": protocol["seeds"], "tokenizer.specials": protocol["tokenizer"]["specials"],
             "corpus: shards": [*corpus["train_shards"], corpus["validation_shard"]],
             "runs": [tuple(run) for run in protocol.get("runs", [])]}
    for key, values in lists.items():
        require(len(set(values)) == len(values), f"{where}.{key}", f"expected distinct entries, found {values}")


def _check_runs(protocol, where):
    conditions, seeds = protocol["conditions"], protocol["seeds"]
    for key, names in (("runs", [condition for condition, _ in protocol.get("runs", [])]),
                       ("edits", list(protocol.get("edits", {})))):
        unknown = sorted(set(names) - set(conditions))
        require(not unknown, f"{where}.{key}", f"expected conditions of {', '.join(conditions)}, found {unknown}")
    pairs = protocol_runs(protocol).values()
    for key, expected, found in (("conditions", conditions, {condition for condition, _ in pairs}),
                                 ("seeds", seeds, {seed for _, seed in pairs})):
        unlike = sorted(set(expected) ^ found)
        require(not unlike, f"{where}.runs", f"expected runs of exactly the {key}, differs in {unlike}")


def _check_relations(protocol, where):
    model, tokenizer, context = protocol["model"], protocol["tokenizer"], protocol["packing"]["context"]
    specials = tokenizer["specials"]
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
    """Raise InputError, which names the key, unless a protocol has the schema and its parts agree."""
    check_shape(protocol, SCHEMA, where)
    _check_distinct(protocol, where)
    _check_runs(protocol, where)
    _check_relations(protocol, where)


def read_evaluation(path, section):
    """Return a section of an evaluation protocol, None where the study goes without; InputError says what is wrong."""
    content = read_json(path)
    require_keys(content, {section, *EVALUATION.keys() & content} if isinstance(content, dict) else (), path)
    check_shape(content[section], EVALUATION[section], f"{path}: {section}")
    return content[section]


def study_protocols(folder):
    """Return the paths of the protocols of studies in `folder`; other files there only add to a study."""
    others = ("evaluation_", "candidates_", "substitution_")
    return [path for path in sorted(folder.glob("*.json")) if not path.stem.startswith(others)]


def find_protocol(name, folder):
    """Return (checked protocol, its path) of a study in `folder`, or of the path of a .json file.

    InputError lists the studies when there is no such protocol.
    """
    path = Path(name) if name.endswith(".json") else folder / f"{name}.json"
    if not path.exists():
        known = ", ".join(other.stem for other in study_protocols(path.parent))
        raise InputError(f"{path}: no such protocol; expected one of {known}")
    protocol = read_json(path)
    check_protocol(protocol, str(path))
    return protocol, path


# -------------------------------------------------------------------------------------------- sweeps

CANDIDATE = {"context": TOKENS, "heads": SMALL, "microbatch": SMALL, "width": SMALL}
SWEEP = {"base": NAME, "calibration_updates": integer(2, 100_000),
         "candidates": [CANDIDATE], "condition": NAME, "evaluation_targets": COUNT, "logit_chunk": TOKENS,
         "seconds": POSITIVE, "seed": SEED}


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
