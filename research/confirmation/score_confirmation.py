"""What do the saved models score on documents that were reserved for the end?

Reads   protocol_NAME.json (freeze_protocol.py), exclusions_NAME.json, runs/NAME/report/checkpoints.json
        (../matched_training/verify_checkpoints.py), every run of NAME, and the prepared validation split
Writes  runs/NAME/report/: confirmation_began.json before the first forward pass, then confirmation.json and
        confirmation_rows.npy, float64 (runs, rows, 4): nats, supplied bytes, raw bytes, targets; with --freeze the
        last two also beside this script, as NAME.json and rows_NAME.npy. Where NAME.json is there, this is a repetition
        and compared with it: the same numbers from the same models; from models trained anew the same inputs and
        targets, and scores within TOLERANCE of saved_runs.py
Needs   torch; about as long as the official scores of all runs

    score_confirmation.py --study wheels (--device cpu | --gpu INDEX_OR_UUID) [--freeze]

Exit 2 and no forward pass, unless the protocol is the frozen one and every checkpoint check is in evidence (gate.py).
Exit 1: a model was fed other inputs or targets than were audited, or a scoring does not repeat the first, which stands.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devices import add_device_arguments, reserve_device
from evidence import first_difference, read_json, run_script, sha256_bytes, write_atomic, write_json
from research.confirmation.repetition import compare, lasting

ROOT = Path(__file__).resolve().parents[2]


class Watched:
    """A train.Forward that fingerprints the inputs and targets of every forward pass that it makes."""

    def __init__(self, forward, fingerprint):
        self.forward, self.device, self.fingerprint = forward, forward.device, fingerprint

    def nats(self, inputs, targets):
        self.fingerprint.add(inputs.cpu().numpy(), targets.cpu().numpy())
        return self.forward.nats(inputs, targets)


def score_run(study, name, plan, device):
    """(entry in the evidence, row statistics float64 (rows, 4)) of one saved model."""
    from research.confirmation.reserved import Fingerprint
    from research.saved_runs import SavedRun

    saved = SavedRun(study.root / "runs" / study.name / name, device)
    tokens, lengths, _ = study.validation()
    reader = saved.train.rows.RowReader(plan, tokens, lengths, saved.config["bos"], study.capacity)
    watched, began = Watched(saved.forward(), Fingerprint()), time.perf_counter()
    statistics = saved.score(watched, reader)
    return {"fingerprint": watched.fingerprint.hexdigest(), "model_sha256": saved.files["model.safetensors"],
            "score": saved.train.summarise(statistics), "seconds": time.perf_counter() - began}, statistics


def collect(protocol, checkpoints, entries, rows_bytes, environment, began_at):
    """The evidence: scores, deltas against the same seed, and the hashes of what came before them."""
    bits = {name: entry["score"]["bits_per_byte"] for name, entry in entries.items()}
    return {
        "study": protocol["content"]["study"], "began_at": began_at, "environment": environment,
        "protocol": {key: protocol[key] for key in ("sealed_at", "sha256")},
        "checkpoints": {key: checkpoints[key] for key in ("sealed_at", "sha256")},
        "runs": entries, "rows": {"order": list(entries), "sha256": sha256_bytes(rows_bytes)},
        "bits_per_byte_minus_baseline": {a: bits[a] - bits[b] for a, b in protocol["content"]["contrasts"]},
    }


def score_table(evidence):
    """The paper's table of section 5.4 as Markdown."""
    lines = ["|Condition|Seed|BPB|Delta vs same-seed control|CE|Perplexity|", "|---|---:|---:|---:|---:|---:|"]
    for name, entry in evidence["runs"].items():
        (condition, seed), score = name.rsplit("_s", 1), entry["score"]
        delta = evidence["bits_per_byte_minus_baseline"].get(name, 0.0)
        lines.append(f"|{condition}|{seed}|{score['bits_per_byte']:.8f}|{delta:+.8f}|{score['cross_entropy']:.8f}|"
                     f"{score['perplexity']:.5f}|")
    return "\n".join(lines)


def keep(path, evidence, rows_bytes):
    """Write the first scoring; a later one must repeat it. The evidence that stands, and what differs from it."""
    if path.exists():
        first = read_json(path)
        return first, first_difference(lasting(first), lasting(evidence))
    write_atomic(path.with_name("confirmation_rows.npy"), rows_bytes)
    write_json(path, evidence)
    return evidence, None


def freeze(study, evidence, rows_bytes):
    """Copy the evidence beside this script; a frozen copy that differs is refused, and nothing is written."""
    from research.frozen_arrays import freeze as freeze_arrays

    freeze_arrays(study.evidence / f"{study.name}.json", evidence, {f"rows_{study.name}.npy": rows_bytes})


def score_all(study, protocol, device):
    """({run: entry}, bytes of the row statistics as .npy, time at which the first scoring ever began)."""
    import numpy as np

    from research.confirmation import gate
    from research.confirmation.reserved import reserved_stream
    from research.frozen_arrays import npy_bytes

    _, lengths, refill = study.validation()
    plan = reserved_stream(study, lengths, refill, protocol["content"]["excluded"]).plan
    began_at = gate.begin(study, protocol)
    scored = {name: score_run(study, name, plan, device) for name in protocol["content"]["runs"]}
    rows_bytes = npy_bytes(np.stack([statistics for _, statistics in scored.values()]))
    return {name: entry for name, (entry, _) in scored.items()}, rows_bytes, began_at


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    add_device_arguments(parser)
    parser.add_argument("--freeze", action="store_true", help="copy the evidence beside this script")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    options = parser.parse_args(argv)
    device = reserve_device(options)
    from research.confirmation import gate
    from research.confirmation.reserved import Study
    from research.saved_runs import device_facts

    study = Study(options.study, options.root)
    protocol, checkpoints = gate.require_open(study)
    entries, rows_bytes, began_at = score_all(study, protocol, device)
    expected = protocol["content"]["stream"]["fingerprint"]
    wrong = [name for name, entry in entries.items() if entry["fingerprint"] != expected]
    for name in wrong:
        print(f"FALSE {name}: fed {entries[name]['fingerprint']}, audited {expected}")
    if wrong:
        return 1
    new = collect(protocol, checkpoints, entries, rows_bytes, device_facts(device), began_at)
    evidence, difference = keep(gate.result_path(study), new, rows_bytes)
    findings = [f"this scoring is not the first one, which stands: {difference}"] if difference else []
    if (frozen := gate.frozen_path(study)).exists():
        found, how = compare(evidence, read_json(frozen))
        findings += [f"does not repeat {frozen}, which stands: {finding}" for finding in found]
        print(f"compared with {frozen}: {how}")
    for finding in findings:
        print(f"FALSE {finding}")
    if findings:
        return 1
    if options.freeze:
        freeze(study, evidence, rows_bytes)
    print(score_table(evidence))
    print(f"all fed the audited inputs and targets, fingerprint {expected}: {gate.result_path(study)}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
