"""What do the saved models score on documents that were reserved for the end?

Reads   protocol_NAME.json (freeze_protocol.py), exclusions_NAME.json, runs/NAME/report/checkpoints.json
        (audit_checkpoints.py), every run of NAME, and the prepared validation split
Writes  runs/NAME/report/: confirmation_began.json before the first forward pass, then confirmation.json and
        confirmation_rows.npy, float64 (runs, rows, 4): nats, supplied bytes, raw bytes, targets. With --freeze the last
        two also beside this script, as NAME.json and rows_NAME.npy.
Needs   torch; the study prepared, its runs finished and the gate open
About   as long as the official scores of all runs

    python research/confirmation/score_confirmation.py --study wheels (--device cpu | --gpu INDEX_OR_UUID) [--freeze]

Where NAME.json is frozen, the scoring is a repetition and is compared with it: the same models must give the same
numbers; models that were trained anew must be fed the same inputs and targets, and score within a tolerance
(saved_runs.py). Nothing frozen is replaced.

Exit 2, without a forward pass: the protocol is not the frozen one, or a checkpoint check is missing (gate.py).
Exit 1: a model was fed other inputs or targets than were audited, or a scoring does not repeat the first one.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devices import add_device_arguments, reserve_device
from evidence import (
    Checks,
    first_difference,
    parser,
    read_json,
    require,
    run_script,
    sha256_bytes,
    write_atomic,
    write_json,
)
from research.confirmation.blocks import score_table
from research.confirmation.repetition import compare, lasting

ROOT = Path(__file__).resolve().parents[2]


class Watched:
    """A trainer's device model that fingerprints the inputs and targets of every forward pass."""

    def __init__(self, forward, fingerprint):
        self.forward, self.device, self.fingerprint = forward, forward.device, fingerprint

    def nats(self, inputs, targets):
        self.fingerprint.add(inputs.cpu().numpy(), targets.cpu().numpy())
        return self.forward.nats(inputs, targets)


def score_run(reserved, name, plan, device):
    """Return (entry in the evidence, row statistics float64 (rows, 4)) of one saved model."""
    from research.confirmation.reserved import Fingerprint
    from research.saved_runs import SavedRun

    saved = SavedRun(reserved.root / "runs" / reserved.study / name, device)
    reader = saved.train.rows.RowReader(plan, reserved.tokens("validation"), reserved.lengths("validation"),
                                        saved.config["bos"], reserved.capacity)
    watched, began = Watched(saved.forward(), Fingerprint()), time.perf_counter()
    statistics = saved.score(watched, reader)
    return {"fingerprint": watched.fingerprint.hexdigest(), "model_sha256": saved.files["model.safetensors"],
            "score": saved.scoring.summarise(statistics), "seconds": time.perf_counter() - began}, statistics


def collect(protocol, checkpoints, entries, rows_bytes, environment, began_at):
    """Return the evidence: scores, differences from the same seed's baseline, and the SHA-256 of what came before."""
    bits = {name: entry["score"]["bits_per_byte"] for name, entry in entries.items()}
    return {
        "study": protocol["content"]["study"], "began_at": began_at, "environment": environment,
        "protocol": {key: protocol[key] for key in ("sealed_at", "sha256")},
        "checkpoints": {key: checkpoints[key] for key in ("sealed_at", "sha256")},
        "runs": entries, "rows": {"order": list(entries), "sha256": sha256_bytes(rows_bytes)},
        "bits_per_byte_minus_baseline": {a: bits[a] - bits[b] for a, b in protocol["content"]["contrasts"]},
    }


def keep(path, evidence, rows_bytes):
    """Write the first scoring, which a later one must repeat; return (the first, its difference from this one)."""
    if path.exists():
        first = read_json(path)
        return first, first_difference(lasting(first), lasting(evidence))
    write_atomic(path.with_name("confirmation_rows.npy"), rows_bytes)
    write_json(path, evidence)
    return evidence, None


def score_all(reserved, protocol, device):
    """Return ({run: entry}, bytes of the row statistics as .npy, time at which scoring first began)."""
    import numpy as np

    from loaders.accounting import plan_sha256
    from research.confirmation import gate
    from research.confirmation.reserved import reserved_stream
    from research.frozen_arrays import npy_bytes

    content = protocol["content"]
    plan, frozen = reserved_stream(reserved, content["excluded"]).plan, content["stream"]["plan_sha256"]
    require(plan_sha256(plan) == frozen, f"{gate.protocol_path(reserved)}: stream.plan_sha256",
            f"expected {plan_sha256(plan)}, the plan that today's loader gives, found {frozen}")
    began_at = gate.begin(reserved, protocol)
    scored = {name: score_run(reserved, name, plan, device) for name in content["runs"]}
    rows_bytes = npy_bytes(np.stack([statistics for _, statistics in scored.values()]))
    return {name: entry for name, (entry, _) in scored.items()}, rows_bytes, began_at


def check_repetition(checks, reserved, evidence, difference):
    """Check that a scoring repeats the first one in runs/, and the frozen one where there is one."""
    from research.confirmation.gate import frozen_path

    frozen = frozen_path(reserved)
    checks.expect(not difference, f"the first scoring is kept, and this one differs: {difference}" if difference else
                  "this scoring is the first, or repeats it")
    if frozen.exists():
        findings, how = compare(evidence, read_json(frozen))
        for finding in findings:
            checks.expect(False, f"does not repeat {frozen}, which is kept: {finding}")
        if not findings:
            checks.expect(True, f"repeats {frozen}: {how}")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    add_device_arguments(arguments)
    arguments.add_argument("--freeze", action="store_true", help="copy the evidence beside this script")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    device, checks = reserve_device(options), Checks()
    from research.confirmation import gate
    from research.confirmation.reserved import Reserved
    from research.frozen_arrays import freeze
    from research.saved_runs import device_facts

    reserved = Reserved(options.study, options.root)
    protocol, checkpoints = gate.require_open(reserved)
    entries, rows_bytes, began_at = score_all(reserved, protocol, device)
    audited = protocol["content"]["stream"]["fingerprint"]
    for name, entry in entries.items():
        checks.equal(f"{name}: fingerprint of inputs and targets", audited, entry["fingerprint"])
    if checks.failed:
        return checks.close()
    new = collect(protocol, checkpoints, entries, rows_bytes, device_facts(device), began_at)
    evidence, difference = keep(gate.result_path(reserved), new, rows_bytes)
    check_repetition(checks, reserved, evidence, difference)
    if options.freeze and not checks.failed:
        freeze(gate.frozen_path(reserved), evidence, {f"rows_{reserved.study}.npy": rows_bytes})
    print(f"{score_table(evidence)}\n\nresults: {gate.result_path(reserved)}")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
