"""Are the reserved documents that a sweep had scored those named, and do the differences follow without their rows?

Nothing of check_untouched.py is imported: differences are derived again from rows_NAME.npy and the listed rows, and
where the data are prepared every stream is packed again (repack.py).

    verify_seen.py --study wheels

Reads   seen_NAME.json, NAME.json, rows_NAME.npy and protocol_NAME.json beside this script,
        ../../protocols/candidates_NAME.json and, where they are there, the inputs that seen_NAME.json names
Writes  nothing
Needs   NumPy. About a second, with the data or without

Exit 1: something is false; it is named.
"""

import argparse
import io
import math
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import Checks, InputError, read_json, run_script, sha256_bytes
from research.confirmation import repack

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class Evidence:
    """The frozen files of a study that say what was seen, and of what."""

    def __init__(self, study, root):
        here, self.root, self.study = root / "research/confirmation", root, study
        self.seen, self.result = read_json(here / f"seen_{study}.json"), read_json(here / f"{study}.json")
        self.protocol = read_json(here / f"protocol_{study}.json")["content"]
        self.sweep = read_json(root / f"protocols/candidates_{study}.json")
        path = here / f"rows_{study}.npy"
        if not path.exists():
            raise InputError(f"{path}: missing; it comes with {study}.json")
        self.rows_bytes = path.read_bytes()

    def data(self, name):
        return self.root / "data" / self.study / "validation" / name


def check_inputs(checks, frozen):
    """Every input that is there has the stated hash, and what the protocol was made from too is the same file."""
    stated = {entry["path"]: entry["sha256"] for entry in frozen.protocol["inputs"]}
    common = [entry for entry in frozen.seen["inputs"] if entry["path"] in stated]
    checks.equal("inputs of the protocol, too", [stated[entry["path"]] for entry in common],
                 [entry["sha256"] for entry in common], f"{len(common)} inputs are those of the protocol, too")
    for entry in frozen.seen["inputs"]:
        checks.file(entry["path"], entry["sha256"], frozen.root)


def check_candidates(checks, frozen):
    """Every context of the sweep is accounted for, and the confirmation's stream is the one that was frozen."""
    stream, capacity = frozen.protocol["stream"], frozen.protocol["packing"]["context"] + 1
    counts = sorted(Counter(candidate["context"] for candidate in frozen.sweep["candidates"]).items())
    stated = [[record[key] for key in ("context", "candidates", "targets")] for record in frozen.seen["contexts"]]
    checks.equal("contexts, candidates, targets", stated,
                 [[*pair, frozen.sweep["evaluation_targets"]] for pair in counts])
    reserved = frozen.protocol["evaluation"]["confirmation"]["documents"]
    checks.equal("reserved documents", frozen.seen["reserved"], reserved)
    checks.equal("confirmation", frozen.seen["confirmation"], {
        "begun": stream["started"], "plan_sha256": stream["plan_sha256"], "rows": stream["rows"],
        "tokens": stream["rows"] * capacity})


def check_lists(checks, frozen):
    """Lists ascend and stay in range, what was confirmed was begun, and what was seen is what some context saw."""
    (first, last), seen, contexts = frozen.seen["reserved"], frozen.seen["seen"], frozen.seen["contexts"]
    for record in contexts:
        held = max(0, min(record["arrived"], last) - first)
        checks.equal(f"context {record['context']}: reserved documents arrived", record["reserved_arrived"], held)
    entries = {f"context {record['context']}": record for record in contexts}
    for name, entry in {**entries, "seen": {**seen, "reserved_begun": seen["reserved"]}}.items():
        begun, also = entry["reserved_begun"], entry["in_confirmation"]
        sound = (ascending(begun, first, last) and ascending(also["rows"], 0, frozen.seen["confirmation"]["rows"])
                 and ascending(also["documents"], first, last) and set(also["documents"]) <= set(begun))
        checks.expect(sound, f"{name}: {len(begun)} reserved documents begun, {len(also['documents'])} of them in "
                             f"{len(also['rows'])} rows of the confirmation{'' if sound else ': not so listed'}")
    checks.equal("seen, of all contexts", seen["reserved"], union(record["reserved_begun"] for record in contexts))
    for key in ("documents", "rows"):
        found = union(record["in_confirmation"][key] for record in contexts)
        checks.equal(f"seen {key}, of all contexts", seen["in_confirmation"][key], found)


def union(lists):
    return sorted({number for numbers in lists for number in numbers})


def ascending(numbers, first, last):
    """Whether they are integers, each larger than the one before, in [first, last)."""
    return (all(type(number) is int and first <= number < last for number in numbers)
            and all(a < b for a, b in zip(numbers, numbers[1:])))


def bits_per_byte(rows):
    """Of row statistics float64 (rows, 4) whose first columns are nats and supplied bytes."""
    return math.fsum(rows[:, 0]) / (math.log(2) * int(rows[:, 1].astype(np.int64).sum()))


def minus_baseline(statistics, order, rows):
    """{run: bits per byte minus the baseline's of its seed} over some rows; None when there are none."""
    bits = {name: bits_per_byte(run[rows]) for name, run in zip(order, statistics)} if rows else {}
    return {name: value - bits[f"baseline_s{name.rsplit('_s', 1)[1]}"] for name, value in bits.items()
            if not name.startswith("baseline_s")} or None


def check_differences(checks, frozen):
    """Differences over all rows are the confirmation's, and those over the rows that hold nothing seen follow."""
    order, statistics = frozen.result["rows"]["order"], np.load(io.BytesIO(frozen.rows_bytes), allow_pickle=False)
    checks.equal("rows file", frozen.result["rows"]["sha256"], sha256_bytes(frozen.rows_bytes))
    every, seen = list(range(statistics.shape[1])), set(frozen.seen["seen"]["in_confirmation"]["rows"])
    checks.equal("differences of the confirmation", frozen.result["bits_per_byte_minus_baseline"],
                 minus_baseline(statistics, order, every))
    for kind, rows in (("all_rows", every), ("without_rows_seen", [row for row in every if row not in seen])):
        found = minus_baseline(statistics, order, rows)
        told = ", ".join(f"{name} {value:+.5f}" for name, value in (found or {}).items())
        stated = frozen.seen["bits_per_byte_minus_baseline"][kind]
        checks.equal(kind, stated, found, f"{kind}: {len(rows)} rows, {told or 'so no difference'}")


def within(plan, documents):
    """What of a plan is of these documents."""
    part = plan[np.isin(plan[:, 1], documents)]
    return {"documents": np.unique(part[:, 1]).tolist(), "rows": np.unique(part[:, 0]).tolist(),
            "tokens": int(part[:, [2, 4]].sum())}


def plan_hash(plan):
    return sha256_bytes(plan.astype("<i8").tobytes())


def packed_again(lengths, refill, frozen, record, confirmed):
    """A context's record from the lengths, its stream reading the validation split as often as it must."""
    count, (first, last) = len(lengths), frozen.seen["reserved"]
    passes = -(-record["arrived"] // count)
    batches = repack.arrivals(np.tile(refill, passes), 0, passes * count, [])
    plan, arrived = repack.pack(np.tile(lengths, passes), batches, record["context"] + 1,
                                frozen.protocol["packing"]["buffer_size"], record["targets"] // record["context"])
    begun = np.unique(plan[:, 1] % count)
    reserved = [document for document in begun.tolist() if first <= document < last]
    return {**record, "arrived": arrived, "begun": len(begun), "plan_sha256": plan_hash(plan),
            "reserved_begun": reserved, "longest_begun": max(lengths[reserved].tolist(), default=0),
            "in_confirmation": within(confirmed, reserved)}


def check_streams(checks, frozen):
    """Every stream packed again draws and begins what is stated."""
    missing = [name for name in ("lengths.npy", "refill.npy") if not frozen.data(name).exists()]
    if missing:
        print(f"left out the packing of the streams: no data/{frozen.study}/validation/{missing[0]}")
        return
    lengths, refill = (np.load(frozen.data(name)) for name in ("lengths.npy", "refill.npy"))
    packing, stream = frozen.protocol["packing"], frozen.protocol["stream"]
    batches = repack.arrivals(refill, *frozen.seen["reserved"], frozen.protocol["excluded"])
    confirmed, _ = repack.pack(lengths, batches, packing["context"] + 1, packing["buffer_size"], stream["rows"])
    checks.equal("confirmation packed again", frozen.seen["confirmation"]["plan_sha256"],
                 plan_hash(confirmed))
    for record in frozen.seen["contexts"]:
        found = packed_again(lengths, refill, frozen, record, confirmed)
        name = f"context {record['context']}"
        checks.equal(name, record, found, f"{name} packed again: {found['arrived']} arrive, "
                                          f"{len(found['reserved_begun'])} reserved begun")
    checks.equal("seen in the confirmation", frozen.seen["seen"]["in_confirmation"],
                 within(confirmed, frozen.seen["seen"]["reserved"]))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME", help="a study whose sweep has candidates")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    options = parser.parse_args(argv)
    frozen, checks = Evidence(options.study, options.root.resolve()), Checks()
    for check in (check_inputs, check_candidates, check_lists, check_differences, check_streams):
        with checks.attempt(check.__name__):
            check(checks, frozen)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
