"""Which reserved documents had a sweep scored before the confirmation, and do the differences hold without them?

    python research/confirmation/verify_leakage.py [--study NAME ...] [--root DIR]

Reads   seen_NAME.json, NAME.json, rows_NAME.npy and protocol_NAME.json beside this script,
        protocols/candidates_NAME.json, and the lengths and refill batches of the validation split, as prepared or as
        research/source_exclusion freezes them
Writes  nothing
Needs   NumPy
About   one second a study

A document was scored when a row of a candidate's official stream holds any of its tokens. The verifier packs that
stream for each context with the reference packer, and derives every number of seen_NAME.json. freeze_protocol.py
refuses reserved documents that a sweep has scored (leakage.py), so no further file of this kind can come about. Exit 1
names what is false.
"""

import io
import math
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import Checks, InputError, parser, read_json, require, run_script, sha256_bytes
from research.confirmation import reference_stream
from research.reference_scores import bits_per_byte, minus_baseline

ROOT = Path(__file__).resolve().parents[2]


class Evidence:
    """The frozen files of a study that say which reserved documents were scored before."""

    def __init__(self, study, root):
        folder, self.study, self.root = root / "research/confirmation", study, root
        self.seen, self.result = read_json(folder / f"seen_{study}.json"), read_json(folder / f"{study}.json")
        self.protocol = read_json(folder / f"protocol_{study}.json")["content"]
        self.sweep = read_json(root / f"protocols/candidates_{study}.json")
        path = folder / f"rows_{study}.npy"
        require(path.exists(), path, f"missing; it comes with {study}.json")
        self.rows_bytes = path.read_bytes()


def within(plan, documents):
    """Return which of these documents a plan starts, the rows that hold them, and their tokens there."""
    part = plan[np.isin(plan[:, 1], documents)]
    return {"documents": np.unique(part[:, 1]).tolist(), "rows": np.unique(part[:, 0]).tolist(),
            "tokens": int(part[:, [2, 4]].sum())}


def context_record(frozen, context, candidates, lengths, refill, confirmed):
    """Return what the official stream of a context's candidates draws and starts; `confirmed` is the study's plan."""
    first, last = frozen.protocol["evaluation"]["confirmation"]["documents"]
    packing, targets = {**frozen.protocol["packing"], "context": context}, frozen.sweep["evaluation_targets"]
    plan, arrived = reference_stream.pack(lengths, refill, packing, targets // context)
    started = np.unique(plan[:, 1] % len(lengths))
    reserved = started[(started >= first) & (started < last)]
    return {"candidates": candidates, "context": context, "targets": targets, "arrived": arrived,
            "begun": len(started), "plan_sha256": reference_stream.plan_sha256(plan),
            "reserved_arrived": max(0, min(arrived, last) - first), "reserved_begun": reserved.tolist(),
            "longest_begun": int(lengths[reserved].max(initial=0)), "in_confirmation": within(confirmed, reserved)}


def derive_streams(frozen, lengths, refill):
    """Return the parts of seen_NAME.json that follow from lengths, refill batches, protocol and candidates."""
    confirmed, *_ = reference_stream.pack_reserved(lengths, refill, frozen.protocol)
    counts = Counter(candidate["context"] for candidate in frozen.sweep["candidates"])
    contexts = [context_record(frozen, context, counts[context], lengths, refill, confirmed)
                for context in sorted(counts)]
    reserved = sorted({document for record in contexts for document in record["reserved_begun"]})
    rows = int(confirmed[-1, 0]) + 1
    return {
        "study": frozen.study, "reserved": frozen.protocol["evaluation"]["confirmation"]["documents"],
        "contexts": contexts, "seen": {"reserved": reserved, "in_confirmation": within(confirmed, reserved)},
        "confirmation": {"begun": len(np.unique(confirmed[:, 1])), "rows": rows,
                         "plan_sha256": reference_stream.plan_sha256(confirmed),
                         "tokens": rows * (frozen.protocol["packing"]["context"] + 1)}}


def check_streams(checks, frozen):
    """Check every number that follows from the lengths of the validation documents."""
    found = reference_stream.read_lengths(frozen.root, reference_stream.prepared_name(frozen.protocol))
    if found is None:
        return
    for key, value in derive_streams(frozen, *found).items():
        stated = frozen.seen[key]
        if key == "contexts":
            checks.equal("contexts of the candidates", [record["context"] for record in stated],
                         [record["context"] for record in value])
            for record, derived in zip(stated, value, strict=True):
                checks.equal(f"context {derived['context']}", record, derived,
                             f"context {derived['context']} packed again: {derived['arrived']} documents arrive, "
                             f"{len(derived['reserved_begun'])} reserved ones start")
        else:
            checks.equal(key, stated, value)
    stream = frozen.protocol["stream"]
    checks.equal("plan of the frozen protocol", stream["plan_sha256"], frozen.seen["confirmation"]["plan_sha256"])


def differences(statistics, order, rows):
    """Return {run: bits per byte minus the baseline of its seed} over some rows; None without any row."""
    if not rows:
        return None
    return minus_baseline({name: bits_per_byte(math.fsum(run[rows, 0]), int(run[rows, 1].sum()))
                           for name, run in zip(order, statistics, strict=True)})


def check_differences(checks, frozen):
    """Check the differences over all rows, and over the rows that hold no document that was scored before."""
    statistics = np.load(io.BytesIO(frozen.rows_bytes), allow_pickle=False)
    order, excluded = frozen.result["rows"]["order"], set(frozen.seen["seen"]["in_confirmation"]["rows"])
    checks.equal("rows file", frozen.result["rows"]["sha256"], sha256_bytes(frozen.rows_bytes))
    rows = list(range(statistics.shape[1]))
    checks.equal("differences of the confirmation", frozen.result["bits_per_byte_minus_baseline"],
                 differences(statistics, order, rows))
    stated = frozen.seen["bits_per_byte_minus_baseline"]
    for kind, kept in (("all_rows", rows), ("without_rows_seen", [row for row in rows if row not in excluded])):
        found = differences(statistics, order, kept)
        told = ", ".join(f"{name} {value:+.5f}" for name, value in (found or {}).items())
        checks.equal(kind, stated[kind], found, f"{kind}: {len(kept)} rows, {told or 'so there is no difference'}")


def check_inputs(checks, frozen):
    """Check that the inputs which the frozen protocol names too are stated with the same SHA-256."""
    stated = {entry["path"]: entry["sha256"] for entry in frozen.protocol["inputs"]}
    common = [entry for entry in frozen.seen["inputs"] if entry["path"] in stated]
    checks.equal("inputs of the protocol", [stated[entry["path"]] for entry in common],
                 [entry["sha256"] for entry in common], f"{len(common)} inputs are those of the protocol")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", nargs="+", metavar="NAME", help="default: every study with a seen_NAME.json")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    folder, checks = options.root.resolve() / "research/confirmation", Checks()
    studies = options.study or [path.stem.removeprefix("seen_") for path in sorted(folder.glob("seen_*.json"))]
    if not studies:
        raise InputError(f"{folder}: no seen_NAME.json is frozen here")
    for study in studies:
        frozen = Evidence(study, options.root.resolve())
        for check in (check_inputs, check_streams, check_differences):
            with checks.attempt(f"{study}: {check.__name__}"):
                check(checks, frozen)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
