"""Does diagnose.py pass every right batch, and does it find every fault that is planted in one?

The script builds right batches in the forms that people use and diagnoses each of them. Then it plants each fault of
the checklist in each form and looks at the item that must FAIL. "Cannot tell" is accepted only if the same arrays are a
right batch under a convention that the declared options do not exclude; otherwise the fault counts as missed.

    python research/batch_boundaries/audit_diagnose.py [--json FILE]

Reads   nothing
Writes  nothing, or the table of all forms and faults with --json FILE
Needs   NumPy
About   ten seconds

Exit 1: a right batch FAILs, or a fault is missed.
"""

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, freeze_json, parser, run_script
from research.batch_boundaries.diagnosis import diagnose
from research.batch_boundaries.plain_arrays import plain
from research.batch_boundaries.planted_batches import (
    alternative,
    build,
    declared_of,
    documents_of,
    inapplicable,
    same_arrays,
    targets_of,
)
from research.batch_boundaries.planted_faults import FAULTS
from research.batch_boundaries.planted_forms import FORMS
from research.batch_boundaries.read_batches import as_mapping

CAUGHT, UNKNOWN, MISSED = "caught", "cannot tell", "missed"


def diagnosed(form, batch):
    """Return {item: (status, counts)} of a form's batch."""
    result = diagnose(lambda documents: batch, documents_of(form), declared_of(form), targets_of(form))
    return {item["item"]: (item["status"], item["counts"]) for item in result["items"]}


def as_text(batch):
    """Return {key: number, line or lines} of a batch; a row of numbers is one line, so that the table stays short."""
    return {key: lines(plain(value)) for key, value in as_mapping(batch).items()}


def lines(array):
    if array.ndim == 0:
        return array.item()
    if array.ndim == 1:
        return " ".join(f"{value:g}" for value in array)
    return [lines(part) for part in array]


def right_record(form):
    """Return what diagnose.py says about the right batch of a form."""
    batch = build(form)
    items = diagnosed(form, batch)
    return {"batch": as_text(batch), "statuses": {item: status for item, (status, _) in items.items()},
            "effective_targets": items["effective targets"][1]["effective_targets"]}


def fault_record(form, fault):
    """Return what diagnose.py says about a form with a planted fault, and whether that is right."""
    reason = inapplicable(form, fault)
    if reason:
        return {"not_applicable": reason}
    batch = build(form, fault)
    items = diagnosed(form, batch)
    status, other = items[FAULTS[fault].item][0], alternative(form, fault)
    verdict = MISSED
    if status == "FAIL":
        verdict = CAUGHT
    elif status == "cannot tell" and other is not None and same_arrays(batch, other):
        verdict = UNKNOWN
    right, planted = as_text(build(form)), as_text(batch)
    changed = {key: planted.get(key) for key in right if planted.get(key) != right[key]}
    return {"changed": changed, "status": status, "verdict": verdict,
            "failed": sorted(item for item, (found, _) in items.items() if found == "FAIL"),
            "effective_targets": items["effective targets"][1].get("effective_targets")}


def form_record(form):
    declared = {key: value for key, value in asdict(declared_of(form)).items() if value is not None}
    keys = form.keys
    return {
        "declared": declared | {"added": list(form.declared.get("added", ())), "prompts": form.prompts},
        "documents": documents_of(form),
        "keys": {"inputs": keys.get("ids", "input_ids"), "labels": keys.get("labels", "labels"),
                 "loss": keys.get("loss"), "ignore": keys.get("ignore", -100)},
        "layout": form.layout, "shift": form.shift, "right": right_record(form),
        "faults": {fault: fault_record(form, fault) for fault in FAULTS}}


def totals(forms):
    """Return how many right batches pass, and how many planted faults have each verdict."""
    condemned = sum("FAIL" in form["right"]["statuses"].values() for form in forms.values())
    cells = [cell for form in forms.values() for cell in form["faults"].values()]
    verdicts = Counter(cell["verdict"] for cell in cells if "verdict" in cell)
    return {"forms": len(forms), "right_batches_condemned": condemned, "planted": sum(verdicts.values()),
            "caught": verdicts[CAUGHT], "cannot_tell": verdicts[UNKNOWN], "missed": verdicts[MISSED]}


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--json", type=Path, metavar="FILE",
                           help="write the table to FILE; if FILE exists, its content must be the same")
    options = arguments.parse_args(argv)
    forms, checks = {name: form_record(form) for name, form in FORMS.items()}, Checks()
    for name, form in forms.items():
        failed = [item for item, status in form["right"]["statuses"].items() if status == "FAIL"]
        checks.expect(not failed, f"{name}: the right batch FAILs {', '.join(failed) or 'no item'}")
        missed = [fault for fault, cell in form["faults"].items() if cell.get("verdict") == MISSED]
        planted = sum("verdict" in cell for cell in form["faults"].values())
        checks.expect(not missed, f"{name}: {planted} faults planted, missed: {', '.join(missed) or 'none'}")
    counts = totals(forms)
    print(", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in counts.items()))
    if options.json:
        items = {name: fault.item for name, fault in FAULTS.items()}
        freeze_json(options.json, {"faults": items, "forms": forms, "inputs": [], "totals": counts})
        print(f"written: {options.json}")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
