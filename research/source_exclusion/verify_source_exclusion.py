"""Is every number of this directory's frozen evidence what the document lengths give?

Packs the streams again with a planner of its own (recount.py), counts with code of its own (recount_records.py,
recount_served.py), and compares value by value; nothing of loaders/ or of the audits is imported. The reported numbers
of paper_thresholds.json are compared with those of the paper's section 5.2, and its passes derived.

    verify_source_exclusion.py [FILE ...]

Reads   the JSON files beside this script, or the files named (the name says what a file is), protocols/NAME.json and
        data/NAME/{train,validation}/{lengths,refill}.npy; rows_sha256 also needs train/tokens.npy and the tokenizer
Writes  nothing
Needs   NumPy
About   70 seconds for all files; the 1,100 passes of served_NAME.json take most of it

Prints a line for each part of each file, and the first value of it that differs. Exit 1: one differs.
"""

import argparse
import math
import re
import statistics
import sys
from functools import partial
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import Checks, InputError, canonical_json, parse_json, read_json, run_script, sha256_file
from research.source_exclusion.recount import Stream
from research.source_exclusion.recount_records import protected, ratio, record, rows_sha256
from research.source_exclusion.recount_served import served

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

ORDERS = 20
NOT_CHECKED = object()
LOADERS = {"best_fit_crop": "baseline", "random_span": "random_crop", "segment_first": "segmented"}
REPORTED = {16384: 789, 32768: 196, 65536: 39, 131072: 9, 290219: 1}  # length: documents; the paper, section 5.2
STREAM_FILES = ("train/lengths.npy", "train/refill.npy")

# ------------------------------------------------------------------------------------------- inputs


class Study:
    """A protocol and its prepared lengths."""

    def __init__(self, name, protocols, data):
        self.name, self.path, self.data = name, protocols / f"{name}.json", data / name
        self.protocol = read_json(self.path)
        self.packing = self.protocol["packing"]
        self.edges = self.protocol["audit"]["strata"]

    def file(self, name):
        """Path of a prepared file; InputError saying how to prepare it."""
        if not (self.data / name).exists():
            raise InputError(f"{self.data / name}: missing; prepare it with: python prepare.py --study {self.name}")
        return self.data / name

    def array(self, name):
        """A prepared array; lengths and refill are int64."""
        return np.load(self.file(name), allow_pickle=False)

    def training_rows(self):
        """Rows that a run reads, as (rows a microbatch, microbatches an update, updates)."""
        return [self.protocol["training"][key] for key in ("microbatch", "accumulation", "updates")]

    def stream(self, policy, split="train", order=slice(None), **horizon):
        """The recounted Stream of a policy, its documents in an order; `horizon` as Stream takes it."""
        settings = {"capacity": self.packing["context"] + 1, "buffer_size": self.packing["buffer_size"],
                    "seed": self.packing["span_seed"], **horizon}
        return Stream(self.array(f"{split}/lengths.npy")[order], self.array(f"{split}/refill.npy"), policy, **settings)

    def has_tokens(self):
        """Whether the training tokens are there; a bundle may come without."""
        return (self.data / "train/tokens.npy").exists()

    def inputs(self, names):
        """Path and SHA-256 of the protocol and of prepared files."""
        digests = {f"data/{self.name}/{name}": sha256_file(self.file(name)) if name != "train/tokens.npy" or
                   self.has_tokens() else NOT_CHECKED for name in names}
        digests[f"protocols/{self.name}.json"] = sha256_file(self.path)
        return [{"path": path, "sha256": digest} for path, digest in sorted(digests.items())]

    def about(self, names=STREAM_FILES):
        """The entries that all evidence of a study has."""
        return {"study": self.name, "buffer_size": self.packing["buffer_size"], "capacity": self.packing["context"] + 1,
                "inputs": self.inputs(names)}


# ----------------------------------------------------------------------------------------- evidence


def study_audit(study):
    """audit_stream.py --study: what the runs read, and the validation stream."""
    batch, records = study.training_rows(), {}
    for condition, loader in study.protocol["conditions"].items():
        stream = study.stream(LOADERS[loader], rows=math.prod(batch))
        records[condition] = {**record(stream, study.edges), "rows_sha256": NOT_CHECKED}
        if study.has_tokens():
            bos = read_json(study.file("tokenizer/tokenizer.json"))["bos"]
            records[condition]["rows_sha256"] = rows_sha256(stream, study.array("train/tokens.npy"), bos, *batch[:2])
    rows = study.protocol["evaluation"]["targets"] // study.packing["context"]
    held_out = study.stream("baseline", "validation", rows=rows)
    names = [*STREAM_FILES, "validation/lengths.npy", "validation/refill.npy", "train/tokens.npy"]
    return {**study.about([*names, "tokenizer/tokenizer.json"]), "training": records,
            "evaluation": record(held_out, study.edges)}


def repeated_audit(study):
    """audit_stream.py --repeated: whole passes under every policy."""
    repeated = study.protocol["audit"]["repeated"]
    horizon = {"capacity": repeated["context"] + 1, "passes": repeated["passes"]}
    records = {policy: record(study.stream(policy, **horizon), study.edges) for policy in repeated["policies"]}
    return {**study.about(), **horizon, "training": records}


def permutations(study):
    """permute_order.py: the same documents in shuffled orders."""
    size, rows = len(study.array("train/lengths.npy")), math.prod(study.training_rows())

    def measure(order):
        stream = study.stream("baseline", order=order, rows=rows)
        first, kept, arrived = stream.first_long_start(), protected(stream), int(stream.length.sum())
        return {"startup_target": first and first["target_offset"], "arrived_tokens": arrived,
                "discarded_tokens": int(stream.discarded.sum()), "buffered_tokens": int(stream.buffered.sum()),
                "protected_tokens": kept["tokens"], "protected_share": ratio(kept["tokens"], arrived),
                "started": kept["started"]}

    raw = [np.random.PCG64(seed).random_raw(size) for seed in range(ORDERS)]
    orders = [{"seed": seed, **measure(np.argsort(keys, kind="stable"))} for seed, keys in enumerate(raw)]
    ranges = {}
    for column in set(orders[0]) - {"seed", "started"}:
        values = sorted(order[column] for order in orders if order[column] is not None)
        ranges[column] = {"orders": len(values), "least": min(values, default=None), "most": max(values, default=None),
                          "median": statistics.median_low(values) if values else None}
    return {**study.about(), "policy": "baseline", "rows": rows, "orders": orders, "ranges": ranges,
            "as_stored": measure(np.arange(size))}


def thresholds(counts, buffer_size):
    """The earliest pass in which one of `documents` a pass can be begun, for {length: documents}."""
    return [{"length": length, "documents": documents, "earliest_pass": -(-buffer_size // documents)}
            for length, documents in sorted(counts.items())]


def length_histogram(study):
    """freeze_length_histogram.py: documents by length, and from each threshold up."""
    lengths, about = study.array("train/lengths.npy").tolist(), study.about(STREAM_FILES[:1])
    longest, capacity = max(lengths), about["capacity"]
    powers = {2**power for power in range(longest.bit_length())}
    steps = [step for step in {capacity + 1, *powers, longest} if capacity < step <= longest]
    rows = thresholds({step: sum(length >= step for length in lengths) for step in steps}, about["buffer_size"])
    for row in rows:
        row["tokens"] = sum(length for length in lengths if length >= row["length"])
    return {**about, "documents": len(lengths), "tokens": sum(lengths), "thresholds": rows,
            "histogram": [[length, len(list(equal))] for length, equal in groupby(sorted(lengths))]}


def service(study, policy="baseline"):
    """serve_repeated.py: when each document is first begun."""
    arrays, about = map(study.array, STREAM_FILES), study.about()
    return {**about, **served(*arrays, about["capacity"], about["buffer_size"], policy)}


def paper_thresholds():
    """The paper's table, as reported."""
    return {"buffer_size": 1000, "capacity": 2049, "documents": 846848, "tokens": 631241817,
            "source": "reported by the paper, section 5.2: its ten ClimbMix shards, not counted here",
            "thresholds": thresholds(REPORTED, 1000)}


KINDS = {r"repeated_(\w+)": repeated_audit, r"permutations_(\w+)": permutations,
         r"length_histogram_(\w+)": length_histogram, r"served_(\w+)_lossless": partial(service, policy="lossless"),
         r"served_(\w+)": service, r"(\w+)": study_audit}


def expected_of(path, protocols, data):
    """What a frozen file must hold, by its name."""
    if path.stem == "paper_thresholds":
        return paper_thresholds()
    for pattern, derive in KINDS.items():
        if found := re.fullmatch(pattern, path.stem):
            return derive(Study(found[1], protocols, data))
    raise InputError(f"{path}: the name of a frozen file is expected, as in {HERE.relative_to(ROOT)}")


class Nothing:
    """Stands for a key that is not there."""

    def __repr__(self):
        return "nothing"


def leaves(value, path=""):
    """(key path, value) of every number, text and empty container of a JSON value."""
    if value and isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif value and isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def part_of(path):
    """The part of a file that a key path lies in: at most three keys, without list indices."""
    return re.sub(r"\[\d+\]", "", ".".join(path.split(".")[:3]))


def compare(checks, name, expected, found):
    """One check a part of the file."""
    expected, found, nothing = dict(leaves(expected)), dict(leaves(found)), Nothing()
    for part, paths in groupby(sorted({*expected, *found}, key=part_of), key=part_of):
        paths = [(path, expected.get(path, nothing), found.get(path, nothing)) for path in paths]
        wrong = [(path, want, have) for path, want, have in paths
                 if want is not NOT_CHECKED and (type(want) is not type(have) or want != have)]
        left_out = ", ".join(path for path, want, _ in paths if want is NOT_CHECKED)
        text = f"{len(paths)} values" if len(paths) > 1 else repr(paths[0][2])
        if wrong:
            part, want, have = wrong[0]
            text = f"expected {want!r}, found {have!r} ({len(wrong)} of {len(paths)} values differ)"
        if left_out:
            text += f"; not checked without train/tokens.npy: {left_out}"
        checks.expect(not wrong, f"{name}: {part}: {text}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="default: all frozen files beside this one")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="default data/")
    parser.add_argument("--protocols", type=Path, default=ROOT / "protocols", metavar="DIR", help="default protocols/")
    args = parser.parse_args(argv)
    checks = Checks()
    for path in args.files or sorted(HERE.glob("*.json")):
        data = path.read_bytes()
        found = parse_json(data, path)
        compare(checks, path.name, expected_of(path, args.protocols, args.data), found)
        checks.expect(data == canonical_json(found), f"{path.name}: canonical JSON, {len(data):,} bytes")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
