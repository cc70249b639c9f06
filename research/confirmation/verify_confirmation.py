"""Is the confirmation what its frozen files say: sealed before scoring, of this stream, and these scores?

Nothing of the scripts that made it is imported: hashes, order in time, every score and delta are derived again from
rows_NAME.npy, and where the data are prepared the stream is packed and fingerprinted again (repack.py).

    verify_confirmation.py --study wheels

Reads   NAME.json, rows_NAME.npy, protocol_NAME.json and exclusions_NAME.json beside this script,
        ../matched_training/checkpoints_NAME.json and, where they are there, ../matched_training/runs_NAME.sha256 and
        the files that the protocol names as inputs
Writes  nothing
Needs   NumPy. About a second without the data

That excluded texts equal others, and that no other text does, exclude_duplicates.py derives again from the texts.
Exit 1: something is false; it is named.
"""

import argparse
import functools
import io
import math
import sys
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import (
    Checks,
    InputError,
    canonical_json,
    read_json,
    run_script,
    sha256_bytes,
)
from research.confirmation import repack

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

DATA = ("validation/tokens.npy", "validation/lengths.npy", "validation/refill.npy", "tokenizer/tokenizer.json",
        "tokenizer/bytes_supplied.npy", "tokenizer/bytes_raw.npy")
TIME = "%Y-%m-%dT%H:%M:%SZ"


class Evidence:
    """The frozen files of a study's confirmation."""

    def __init__(self, study, root):
        self.study, self.root, here = study, root.resolve(), root.resolve() / "research/confirmation"
        self.exclusions_path, self.rows_path = here / f"exclusions_{study}.json", here / f"rows_{study}.npy"
        self.result, self.exclusions = read_json(here / f"{study}.json"), read_json(self.exclusions_path)
        self.sealed = {"protocol": read_json(here / f"protocol_{study}.json"),
                       "checkpoints": read_json(root / f"research/matched_training/checkpoints_{study}.json")}
        self.protocol, self.checkpoints = (record["content"] for record in self.sealed.values())
        if not self.rows_path.exists():
            raise InputError(f"{self.rows_path}: missing; it comes with {study}.json")
        self.rows_bytes = self.rows_path.read_bytes()

    @functools.cached_property
    def rows(self):
        """float64 (runs, rows, 4); ValueError when the bytes are no array."""
        return np.load(io.BytesIO(self.rows_bytes), allow_pickle=False)

    def digest_of(self, name):
        """The SHA-256 that the protocol states of an input, or None."""
        return next((entry["sha256"] for entry in self.protocol["inputs"] if entry["path"] == name), None)

    def data(self, name):
        return self.root / "data" / self.study / name


# ------------------------------------------------------------------------------------------- checks


def is_past(text):
    """Whether it is a time in UTC to the second, spelled like 2026-01-31T12:00:00Z, that has been."""
    time = datetime.strptime(text, TIME)
    return time.strftime(TIME) == text and time <= datetime.now(timezone.utc).replace(tzinfo=None)


def check_order(checks, frozen):
    """The protocol and the checkpoint checks are unedited, the ones that the scoring named, and older than it."""
    began = frozen.result["began_at"]
    times = [began, *(record["sealed_at"] for record in frozen.sealed.values())]
    checks.expect(all(map(is_past, times)), f"times in UTC that have been: {', '.join(times)}")
    for name, record in frozen.sealed.items():
        found = sha256_bytes(canonical_json({key: record[key] for key in ("content", "sealed_at")}))
        checks.equal(f"{name}: hash of content and time", record["sha256"], found)
        checks.equal(f"{name}: the one that was scored by", frozen.result[name],
                     {key: record[key] for key in ("sealed_at", "sha256")})
        checks.expect(record["sealed_at"] <= began, f"{name}: sealed {record['sealed_at']}, scoring began {began}")
    for name in frozen.protocol["runs"]:
        entry = frozen.checkpoints["runs"].get(name, {"findings": ["not checked"]})
        passed = not entry["findings"] and entry["rescored"] == entry["score"]
        checks.expect(passed, f"{name}: official score reproduced before scoring" if passed else
                      f"{name}: checkpoint check failed: {entry['findings']}")
        model = entry.get("files", {}).get("model.safetensors")
        checks.equal(f"{name}: model scored", model, frozen.result["runs"].get(name, {}).get("model_sha256"))


def check_inputs(checks, frozen):
    """Every file that the protocol was made from and that is there has the stated hash.

    The list of the runs' code is that of the frozen runs: those that lie in runs/ may have been generated since.
    """
    code = f"runs/{frozen.study}/runs.sha256"
    for entry in frozen.protocol["inputs"]:
        kept = f"research/matched_training/runs_{frozen.study}.sha256" if entry["path"] == code else entry["path"]
        checks.file(kept, entry["sha256"], frozen.root)


def check_exclusions(checks, frozen):
    """The excluded documents are listed with a copy elsewhere, lie in the reserved range, and are the protocol's."""
    entries, (first, last) = frozen.exclusions["excluded"], frozen.exclusions["documents"]
    checks.equal("reserved documents", frozen.protocol["evaluation"]["confirmation"]["documents"], [first, last])
    checks.equal("excluded documents", frozen.protocol["excluded"], [entry["document"] for entry in entries])
    sound = [entry["document"] for entry in entries if first <= entry["document"] < last and entry["copies"] > 0]
    checks.equal("excluded documents reserved, with a copy", sound, sorted(set(frozen.protocol["excluded"])))
    checks.equal("documents left", frozen.protocol["stream"]["documents"], last - first - len(entries))


def summary(rows):
    """The score of row statistics float64 (rows, 4), as the paper's section 4 defines it."""
    nats = math.fsum(rows[:, 0])
    supplied, raw, counted = (int(column.sum()) for column in rows[:, 1:].astype(np.int64).T)
    return {"rows": len(rows), "targets": counted, "nats": nats, "supplied_bytes": supplied, "raw_bytes": raw,
            "bits_per_byte": nats / (math.log(2) * supplied), "raw_bits_per_byte": nats / (math.log(2) * raw),
            "cross_entropy": nats / counted, "perplexity": math.exp(nats / counted)}


def check_scores(checks, frozen):
    """Every score and delta follows from the rows; all runs scored the same targets."""
    result, stream, order = frozen.result, frozen.protocol["stream"], frozen.result["rows"]["order"]
    checks.equal("rows file", result["rows"]["sha256"], sha256_bytes(frozen.rows_bytes))
    checks.equal("runs", frozen.protocol["runs"], order)
    checks.equal("rows", [len(order), stream["rows"], 4], list(frozen.rows.shape))
    found = {}
    for name, rows in zip(order, frozen.rows):
        score, entry = summary(rows), result["runs"][name]
        found[name] = score["bits_per_byte"]
        checks.equal(f"{name}: score", entry["score"], score)
        checks.equal(f"{name}: fingerprint", entry["fingerprint"], stream["fingerprint"])
    for name, rows in zip(order[1:], frozen.rows[1:]):
        same = np.array_equal(rows[:, 1:], frozen.rows[0, :, 1:])
        verdict = "those" if same else "not those"
        checks.expect(same, f"{name}: bytes and targets of {len(rows)} rows are {verdict} of {order[0]}")
    pairs = [[name, f"baseline_s{name.rsplit('_s', 1)[1]}"] for name in order]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    checks.equal("contrasts", frozen.protocol["contrasts"], pairs)
    for a, b in pairs:
        checks.equal(f"{a} minus {b}", result["bits_per_byte_minus_baseline"][a], found[a] - found[b])


def check_stream(checks, frozen):
    """The stream packed again from lengths and tokens is the protocol's, and its bytes are those of the rows."""
    missing = [name for name in DATA if not frozen.data(name).exists()]
    if missing:
        print(f"left out the packing of the stream: no data/{frozen.study}/{missing[0]}")
        return
    tokens, lengths, refill = (np.load(frozen.data(name), mmap_mode="r") for name in DATA[:3])
    packing, stream = frozen.protocol["packing"], dict(frozen.protocol["stream"])
    capacity, rows = packing["context"] + 1, stream.pop("targets") // packing["context"]
    batches = repack.arrivals(refill, *frozen.exclusions["documents"], frozen.protocol["excluded"])
    try:
        plan, arrived = repack.pack(lengths, batches, capacity, packing["buffer_size"], rows)
    except IndexError:
        checks.expect(False, f"stream: the reserved documents do not fill {rows} rows")
        return
    ids = repack.row_ids(plan, tokens, lengths, read_json(frozen.data(DATA[3]))["bos"], capacity)
    facts = repack.stream_facts(plan, arrived, batches, lengths, capacity) | {"fingerprint": repack.fingerprint(ids)}
    checks.equal("stream packed again", stream, facts)
    columns = repack.byte_columns(ids, *(np.load(frozen.data(name)) for name in DATA[4:]))
    differ = np.argwhere(columns != frozen.rows[0, :, 1:])
    checks.expect(not len(differ), f"bytes and targets of row {differ[0][0]} differ" if len(differ) else
                  f"bytes and targets of {len(ids)} rows counted again")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    options = parser.parse_args(argv)
    frozen, checks = Evidence(options.study, options.root), Checks()
    for check in (check_order, check_inputs, check_exclusions, check_scores, check_stream):
        with checks.attempt(check.__name__):
            check(checks, frozen)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
