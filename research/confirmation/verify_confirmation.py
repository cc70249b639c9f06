"""Is the confirmation what its frozen files say: sealed before scoring, of this stream, with these scores?

    python research/confirmation/verify_confirmation.py [--study NAME ...] [--root DIR]

Reads   NAME.json, rows_NAME.npy, protocol_NAME.json and exclusions_NAME.json beside this script,
        research/matched_training/checkpoints_NAME.json and, where they exist, runs_NAME.sha256 beside the latter, the
        lengths and refill batches of the validation split, and data/NAME/
Writes  nothing
Needs   NumPy
About   one second a study

Nothing of the scripts that made the evidence is imported. The verifier derives hashes, the order in time, and every
score and difference from rows_NAME.npy. It packs the stream again with the reference packer, from the prepared data or
from the lengths that research/source_exclusion freezes; with prepared data it also derives the fingerprint and the
bytes of each row. Only exclude_duplicates.py can tell which texts are duplicates. Exit 1 names what is false.
"""

import functools
import io
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import (
    Checks,
    InputError,
    canonical_json,
    parser,
    read_json,
    require,
    run_script,
    sha256_bytes,
)
from manifest import read_manifest
from research.confirmation import reference_stream
from research.reference_scores import baseline_of, minus_baseline, quotients
from research.sealed import is_past

ROOT = Path(__file__).resolve().parents[2]

ROW_FILES = ("validation/tokens.npy", "tokenizer/tokenizer.json", "tokenizer/bytes_supplied.npy",
             "tokenizer/bytes_raw.npy")


class Evidence:
    """The frozen files of a study's confirmation."""

    def __init__(self, study, root):
        self.study, self.root, folder = study, root, root / "research/confirmation"
        self.result, self.exclusions = (read_json(folder / f"{name}{study}.json") for name in ("", "exclusions_"))
        self.sealed = {"protocol": read_json(folder / f"protocol_{study}.json"),
                       "checkpoints": read_json(root / f"research/matched_training/checkpoints_{study}.json")}
        self.protocol, self.checkpoints = (record["content"] for record in self.sealed.values())
        self.inputs = {entry["path"]: entry["sha256"] for entry in self.protocol["inputs"]}
        self.prepared = reference_stream.prepared_name(self.protocol)
        rows = folder / f"rows_{study}.npy"
        require(rows.exists(), rows, f"missing; it comes with {study}.json")
        self.rows_bytes = rows.read_bytes()

    @functools.cached_property
    def rows(self):
        """float64 (runs, rows, 4); ValueError when the bytes are no array."""
        return np.load(io.BytesIO(self.rows_bytes), allow_pickle=False)

    def data(self, name):
        return self.root / "data" / self.prepared / name


# ------------------------------------------------------------------------------------------- checks


def check_order(checks, frozen):
    """Check that protocol and checkpoint checks are unedited, those that the scoring names, and older than it."""
    began = frozen.result["began_at"]
    times = [began, *(record["sealed_at"] for record in frozen.sealed.values())]
    checks.expect(all(map(is_past, times)), f"times in UTC that are not in the future: {', '.join(map(str, times))}")
    for name, record in frozen.sealed.items():
        found = sha256_bytes(canonical_json({key: record[key] for key in ("content", "sealed_at")}))
        checks.equal(f"{name}: SHA-256 of content and time", record["sha256"], found)
        checks.equal(f"{name}: the one that the scoring names", frozen.result[name],
                     {key: record[key] for key in ("sealed_at", "sha256")})
        checks.expect(record["sealed_at"] <= began, f"{name}: sealed {record['sealed_at']}, scoring began {began}")
    for name in frozen.protocol["runs"]:
        entry = frozen.checkpoints["runs"].get(name, {"findings": ["not checked"]})
        passed = not entry["findings"] and entry["rescored"] == entry["score"]
        checks.expect(passed, f"{name}: official score reproduced before scoring" if passed else
                      f"{name}: the checkpoint check failed: {entry['findings']}")
        model = entry.get("files", {}).get("model.safetensors")
        checks.equal(f"{name}: model scored", frozen.result["runs"][name]["model_sha256"], model)


def check_protocol(checks, frozen):
    """Check that the frozen protocol is that of the study's protocols and of the frozen runs, where these are here."""
    study, content = frozen.study, frozen.protocol
    for key, path in (("evaluation", f"protocols/evaluation_{study}.json"), ("packing", f"protocols/{study}.json")):
        if not (frozen.root / path).exists():
            print(f"left out {key}: no {frozen.root / path}")
            continue
        found = read_json(frozen.root / path)
        checks.equal(f"protocol: {key}", content[key], found["packing"] if key == "packing" else found)
    rows, rest = divmod(content["evaluation"]["confirmation"]["targets"], content["packing"]["context"])
    checks.equal("protocol: rows and targets", [content["stream"][key] for key in ("rows", "targets")],
                 [rows, content["evaluation"]["confirmation"]["targets"] - rest])
    code = frozen.root / f"research/matched_training/runs_{study}.sha256"
    checks.file(code.relative_to(frozen.root).as_posix(), frozen.inputs[f"runs/{study}/runs.sha256"], frozen.root)
    if code.exists():
        runs = {name.split("/")[0] for name in read_manifest(code)}
        checks.equal("protocol: runs", sorted(content["runs"]), sorted(runs))
    pairs = [[name, baseline_of(name)] for name in content["runs"] if name != baseline_of(name)]
    checks.equal("protocol: contrasts", content["contrasts"], pairs)


def check_exclusions(checks, frozen):
    """Check that excluded documents are reserved, have a copy elsewhere, and are those of the protocol."""
    entries, (first, last) = frozen.exclusions["excluded"], frozen.exclusions["documents"]
    checks.equal("reserved documents", frozen.protocol["evaluation"]["confirmation"]["documents"], [first, last])
    checks.equal("excluded documents", frozen.protocol["excluded"], [entry["document"] for entry in entries])
    sound = [entry["document"] for entry in entries if first <= entry["document"] < last and entry["copies"] > 0]
    excluded = sorted(set(frozen.protocol["excluded"]))
    checks.equal("excluded documents that are reserved and have a copy", sound, excluded)
    checks.equal("documents left", frozen.protocol["stream"]["documents"], last - first - len(entries))


def score_of(rows):
    """Return the score of row statistics float64 (rows, 4), as section 4 of the paper defines it."""
    nats = math.fsum(rows[:, 0])
    supplied, raw, targets = (int(column.sum()) for column in rows[:, 1:].astype(np.int64).T)
    return {"rows": len(rows), "targets": targets, "nats": nats, "supplied_bytes": supplied, "raw_bytes": raw,
            **quotients(nats, supplied, raw, targets)}


def check_scores(checks, frozen):
    """Check that every score and difference follows from the rows, and that all runs scored the same targets."""
    result, stream, order = frozen.result, frozen.protocol["stream"], frozen.result["rows"]["order"]
    checks.equal("rows file", result["rows"]["sha256"], sha256_bytes(frozen.rows_bytes))
    checks.equal("runs", frozen.protocol["runs"], order)
    checks.equal("rows", [len(order), stream["rows"], 4], list(frozen.rows.shape))
    scores = {name: score_of(rows) for name, rows in zip(order, frozen.rows, strict=True)}
    for name, score in scores.items():
        checks.equal(f"{name}: score", result["runs"][name]["score"], score)
        checks.equal(f"{name}: fingerprint", result["runs"][name]["fingerprint"], stream["fingerprint"])
    for name, rows in zip(order[1:], frozen.rows[1:], strict=True):
        same = np.array_equal(rows[:, 1:], frozen.rows[0, :, 1:])
        checks.expect(same, f"{name}: bytes and targets of {len(rows)} rows are {'' if same else 'not '}those of "
                            f"{order[0]}")
    differences = minus_baseline({name: score["bits_per_byte"] for name, score in scores.items()})
    checks.equal("bits_per_byte_minus_baseline", result["bits_per_byte_minus_baseline"], differences)


def check_stream(checks, frozen):
    """Check the stream's facts from the lengths and, with prepared data, its fingerprint and the bytes of each row."""
    found = reference_stream.read_lengths(frozen.root, frozen.prepared)
    if found is None:
        return
    (lengths, refill), capacity = found, frozen.protocol["packing"]["context"] + 1
    plan, arrived, documents, batches = reference_stream.pack_reserved(lengths, refill, frozen.protocol)
    checks.expect(arrived <= len(documents), f"stream: {arrived} of {len(documents)} reserved documents arrive")
    facts = reference_stream.stream_facts(plan, arrived, documents, batches, lengths, capacity)
    checks.equal("stream packed again", {key: frozen.protocol["stream"][key] for key in facts}, facts)
    missing = [name for name in ROW_FILES if not frozen.data(name).exists()]
    if missing:
        print(f"left out the fingerprint and the bytes of the rows: no data/{frozen.prepared}/{missing[0]}")
    else:
        check_rows(checks, frozen, plan, lengths, capacity)


def check_rows(checks, frozen, plan, lengths, capacity):
    """Check the fingerprint of the stream's rows, and their bytes and targets, from the prepared tokens."""
    tokens, supplied, raw = (np.load(frozen.data(name), mmap_mode="r") for name in (ROW_FILES[0], *ROW_FILES[2:]))
    ids = reference_stream.row_ids(plan, tokens, lengths, read_json(frozen.data(ROW_FILES[1]))["bos"], capacity)
    checks.equal("fingerprint", frozen.protocol["stream"]["fingerprint"], reference_stream.fingerprint(ids))
    differ = np.argwhere(reference_stream.byte_columns(ids, supplied, raw) != frozen.rows[0, :, 1:])
    checks.expect(not len(differ), f"bytes and targets of row {differ[0][0]} differ" if len(differ) else
                  f"bytes and targets of {len(ids)} rows counted again")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", nargs="+", metavar="NAME", help="default: every study with a protocol_NAME.json")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    root, checks = options.root.resolve(), Checks()
    folder = root / "research/confirmation"
    studies = options.study or [path.stem.removeprefix("protocol_") for path in sorted(folder.glob("protocol_*.json"))]
    if not studies:
        raise InputError(f"{folder}: no confirmation is frozen here; REPRODUCE.md says how one is made")
    for study in studies:
        frozen = Evidence(study, root)
        for check in (check_order, check_protocol, check_exclusions, check_scores, check_stream):
            with checks.attempt(f"{study}: {check.__name__}"):
                check(checks, frozen)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
