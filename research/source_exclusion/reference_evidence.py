"""Every frozen file of this directory derived again from the frozen document lengths, and compared value by value.

Used by verify_source_exclusion.py and check_length_histogram.py. Nothing of loaders/ or of the audits is imported.
Standard library and NumPy.
"""

import math
import re
import statistics
from functools import partial
from itertools import groupby

import numpy as np

from evidence import InputError, read_json, sha256_file
from manifest import read_manifest
from research.source_exclusion.reference_records import protected, ratio, record, rows_sha256
from research.source_exclusion.reference_service import served, steps
from research.source_exclusion.reference_stream import ReferenceStream

FOLDER = "research/source_exclusion"
PRINTED = "research/published_tables/version_2.json"
ORDERS = 20
POLICIES = {"best_fit_crop": "baseline", "random_span": "random_crop", "segment_first": "segmented",
            **{name: name for name in ("lossless", "backfill", "backfill_lossless")}}  # {loader: policy}
STREAM_FILES = ("train/lengths.npy", "train/refill.npy")
ARRAYS = (*STREAM_FILES, "validation/lengths.npy", "validation/refill.npy")


class NotDerived:
    """The expected value of a key that cannot be derived here; the class itself is the value."""


class ReferenceStudy:
    """A protocol, the frozen lengths of its prepared data below `root`, and the tokens where the data are prepared."""

    def __init__(self, root, name):
        self.name, self.root, self.protocol_path = name, root, root / f"protocols/{name}.json"
        self.protocol = read_json(self.protocol_path)
        self.prepared = self.protocol.get("prepared", name)
        self.packing, self.edges = self.protocol["packing"], self.protocol["audit"]["strata"]
        manifest = root / f"manifests/{self.prepared}.sha256"
        self.listed = read_manifest(manifest) if manifest.exists() else {}

    def frozen(self, name):
        """Return the path of the frozen copy of a prepared array such as train/lengths.npy."""
        path = self.root / FOLDER / f"{self.prepared}_{name.replace('/', '_')}"
        if not path.exists():
            raise InputError(f"{path}: missing; freeze it with: python {FOLDER}/freeze_lengths.py --study {self.name}")
        return path

    def array(self, name):
        """Return a frozen array, int64 (documents,) or (batches,)."""
        return np.load(self.frozen(name), allow_pickle=False)

    def training_rows(self):
        """Return the rows that a run reads as (rows a microbatch, microbatches an update, updates)."""
        return [self.protocol["training"][key] for key in ("microbatch", "accumulation", "updates")]

    def stream(self, policy, split="train", order=slice(None), **horizon):
        """Return the ReferenceStream of a policy, its documents in an order; `horizon` as the stream takes it."""
        settings = {"capacity": self.packing["context"] + 1, "buffer_size": self.packing["buffer_size"],
                    "seed": self.packing["span_seed"], **horizon}
        return ReferenceStream(self.array(f"{split}/lengths.npy")[order], self.array(f"{split}/refill.npy"), policy,
                               **settings)

    def digest(self, name):
        """Return the SHA-256 of a prepared file: a frozen array's own, else what manifests/ lists."""
        return sha256_file(self.frozen(name)) if name in ARRAYS else self.listed.get(name, NotDerived)

    def data(self, name):
        """Return the path of a prepared file if it is the one that the manifest lists, else None."""
        path = self.root / "data" / self.prepared / name
        return path if path.exists() and sha256_file(path) == self.listed.get(name) else None

    def about(self, names=STREAM_FILES):
        """Return the entries that all evidence of a study has."""
        digests = {f"data/{self.prepared}/{name}": self.digest(name) for name in names}
        digests[f"protocols/{self.name}.json"] = sha256_file(self.protocol_path)
        return {"study": self.name, "buffer_size": self.packing["buffer_size"], "capacity": self.packing["context"] + 1,
                "inputs": [{"path": path, "sha256": digest} for path, digest in sorted(digests.items())]}


# ----------------------------------------------------------------------------------------- evidence


def study_audit(study):
    """Derive audit_stream.py --study: what the runs read, and the validation stream."""
    batch, records = study.training_rows(), {}
    tokens, tokenizer = study.data("train/tokens.npy"), study.data("tokenizer/tokenizer.json")
    for condition, loader in study.protocol["conditions"].items():
        stream = study.stream(POLICIES[loader], rows=math.prod(batch))
        records[condition] = {**record(stream, study.edges, study.schema), "rows_sha256": NotDerived}
        if tokens and tokenizer:
            bos = read_json(tokenizer)["bos"]
            records[condition]["rows_sha256"] = rows_sha256(stream, np.load(tokens), bos, *batch[:2])
    rows = study.protocol["evaluation"]["targets"] // study.packing["context"]
    held_out = study.stream("baseline", "validation", rows=rows)
    return {**study.about([*ARRAYS, "train/tokens.npy", "tokenizer/tokenizer.json"]), "training": records,
            "evaluation": record(held_out, study.edges, study.schema)}


def repeated_audit(study):
    """Derive audit_stream.py --repeated: whole passes under every policy."""
    repeated = study.protocol["audit"]["repeated"]
    horizon = {"capacity": repeated["context"] + 1, "passes": repeated["passes"]}
    records = {policy: record(study.stream(policy, **horizon), study.edges, study.schema)
               for policy in repeated["policies"]}
    return {**study.about(), **horizon, "training": records}


def order_record(study, order, rows):
    """Return what one order of the documents gives."""
    stream = study.stream("baseline", order=order, rows=rows)
    first, kept, arrived = stream.first_long_start(), protected(stream), int(stream.length.sum())
    return {"startup_target": first and first["target_offset"], "arrived_tokens": arrived,
            "discarded_tokens": int(stream.discarded.sum()), "buffered_tokens": int(stream.buffered.sum()),
            "protected_tokens": kept["tokens"], "protected_share": ratio(kept["tokens"], arrived),
            "started": kept["started"]}


def permutations(study):
    """Derive permute_order.py: the same documents in shuffled orders."""
    size, rows = len(study.array("train/lengths.npy")), math.prod(study.training_rows())
    keys = {seed: np.random.PCG64(seed).random_raw(size) for seed in range(ORDERS)}
    orders = [{"seed": seed, **order_record(study, np.argsort(raw, kind="stable"), rows)} for seed, raw in keys.items()]
    ranges = {}
    for column in set(orders[0]) - {"seed", "started"}:
        values = sorted(order[column] for order in orders if order[column] is not None)
        ranges[column] = {"orders": len(values), "least": min(values, default=None), "most": max(values, default=None),
                          "median": statistics.median_low(values) if values else None}
    return {**study.about(), "policy": "baseline", "rows": rows, "orders": orders, "ranges": ranges,
            "as_stored": order_record(study, np.arange(size), rows)}


def service(study, policy="baseline"):
    """Derive serve_repeated.py: when each document is first started."""
    arrays, about = map(study.array, STREAM_FILES), study.about()
    return {**about, **served(*arrays, about["capacity"], about["buffer_size"], policy)}


def thresholds(counts, buffer_size):
    """Return the earliest pass in which one of so many documents a pass can start, for {length: documents}."""
    return [{"length": length, "documents": documents, "earliest_pass": -(-buffer_size // documents)}
            for length, documents in sorted(counts.items())]


def length_histogram(study):
    """Derive freeze_lengths.py: documents by length, and from each threshold up."""
    lengths, about = study.array("train/lengths.npy").tolist(), study.about(STREAM_FILES[:1])
    counts = {step: sum(length >= step for length in lengths) for step in steps(about["capacity"], max(lengths))}
    rows = thresholds(counts, about["buffer_size"])
    for row in rows:
        row["tokens"] = sum(length for length in lengths if length >= row["length"])
    return {**about, "documents": len(lengths), "tokens": sum(lengths), "thresholds": rows,
            "histogram": [[length, len(list(equal))] for length, equal in groupby(sorted(lengths))]}


def whole(printed):
    """Return a whole number that the paper prints with commas."""
    return int(printed.replace(",", ""))


def paper_thresholds(root):
    """Derive the paper's table of thresholds: counts as the paper prints them, passes from the counts."""
    printed = read_json(root / PRINTED)["groups"]
    census, packing, passes = (printed[group]["values"] for group in ("census", "packing", "passes"))
    counts = {whole(row["length"]): whole(row["sources"]) for row in passes.values()}
    buffer_size = whole(census["buffer"])
    return {"buffer_size": buffer_size, "capacity": whole(packing["capacity"]),
            "documents": whole(census["documents"]), "tokens": whole(census["tokens"]),
            "source": "reported by the paper, section 5.2: its ten ClimbMix shards, not counted here",
            "thresholds": thresholds(counts, buffer_size)}


KINDS = {r"repeated_(\w+)": repeated_audit, r"permutations_(\w+)": permutations,
         r"length_histogram_(\w+)": length_histogram, r"served_(\w+)_lossless": partial(service, policy="lossless"),
         r"served_(\w+)": service, r"(\w+)": study_audit}
PAPER = "paper_thresholds"


def kind_of(path):
    """Return (derivation, study name) of a frozen file by its name; (None, None) for the paper's table."""
    if path.stem == PAPER:
        return None, None
    for pattern, derive in KINDS.items():
        if found := re.fullmatch(pattern, path.stem):
            return derive, found[1]
    raise InputError(f"{path}: expected the name of a frozen file, as in {FOLDER}")


def expected_of(path, root):
    """Return what the frozen file `path` below `root` must hold, by its name."""
    derive, name = kind_of(path)
    if not derive:
        return paper_thresholds(root)
    study = ReferenceStudy(root, name)
    records = read_json(path).get("training", {})
    study.schema = 2 if any("schema" in record for record in records.values()) else 1
    return derive(study)


# --------------------------------------------------------------------------------------- comparison


class Nothing:
    """Stands for a key that is missing."""

    def __repr__(self):
        return "nothing"


def leaves(value, path=""):
    """Yield (key path, value) of every number, text and empty container of a JSON value."""
    if value and isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif value and isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def part_of(path):
    """Return the part of a file that a key path lies in: at most three keys, without list indices."""
    return re.sub(r"\[\d+\]", "", ".".join(path.split(".")[:3]))


def compare(checks, name, expected, found):
    """Make one check for each part of a file, naming the first value that differs and every key that is not derived."""
    expected, found, nothing = dict(leaves(expected)), dict(leaves(found)), Nothing()
    for part, paths in groupby(sorted({*expected, *found}, key=part_of), key=part_of):
        paths = [(path, expected.get(path, nothing), found.get(path, nothing)) for path in paths]
        derived = [(path, want, have) for path, want, have in paths if want is not NotDerived]
        wrong = [(path, want, have) for path, want, have in derived if type(want) is not type(have) or want != have]
        if wrong:
            path, want, have = wrong[0]
            checks.expect(False, f"{name}: {path}: expected {want!r}, found {have!r} "
                          f"({len(wrong)} of {len(derived)} values differ)")
        elif derived:
            text = f"{len(derived)} values" if len(derived) > 1 else repr(derived[0][2])
            checks.expect(True, f"{name}: {part}: {text}")
        for path, want, _ in paths:
            if want is NotDerived:
                print(f"not derived {name}: {path}: needs the prepared data")
