"""Relations that must hold in diagnose_matrix.json, for verify_batch_boundaries.py.

The arrays of every batch are in the file as text. Without the checklist's code it follows from them which labels count
in the loss, that a right batch contains its documents, that a planted fault changes something, and that a batch on
which the checklist "cannot tell" is the right batch with one more token of a prompt.
"""

from collections import Counter
from itertools import chain

NO_TARGETS = {"labels", "loss"}
VERDICTS = {"FAIL": "caught", "cannot tell": "cannot tell"}
MINIMUM = 8


def numbers(value):
    """Return the numbers of the lines of an array, one list a line."""
    return [[float(number) for number in line.split()] for line in ([value] if isinstance(value, str) else value)]


def counted(record, batch):
    """Return for each row and column whether the label counts in the loss."""
    keys, internal = record["keys"], record["shift"] == "internal"
    labels = numbers(batch[keys["labels"]])
    weights = numbers(batch[keys["loss"]]) if keys["loss"] else labels
    ignore = None if keys["loss"] else keys["ignore"]
    return [[weight != 0 if keys["loss"] else weight != ignore for weight in row] for row in
            ([[0 if keys["loss"] else ignore, *row[1:]] for row in weights] if internal else weights)]


def expected_targets(record):
    """Return how many labels of the right batch count: those after the prompts, and in a stream every later start."""
    prompts = record["declared"]["prompts"] or [1] * len(record["documents"])
    inside = sum(len(ids) - max(1, prompt) for ids, prompt in zip(record["documents"], prompts))
    stream = record["declared"]["semantics"] == "continuous"
    return inside + (len(record["documents"]) - 1 if stream else 0)


def right_differences(record):
    """Return what is wrong with the right batch of a form."""
    right, found, documents = record["right"], [], record["documents"]
    failed = [item for item, status in right["statuses"].items() if status == "FAIL"]
    if failed:
        found.append(f"the right batch FAILs {', '.join(failed)}")
    targets = sum(map(sum, counted(record, right["batch"])))
    for what, number in (("frozen", right["effective_targets"]), ("expected", expected_targets(record))):
        if targets != number:
            found.append(f"{targets} labels of the right batch count, {number} {what}")
    inputs = Counter(chain.from_iterable(numbers(right["batch"][record["keys"]["inputs"]])))
    ends = {"document": len(documents), "row": 1}.get(record["shift"], 0)
    missing = Counter(chain.from_iterable(documents)) - inputs
    if sum(missing.values()) > ends:
        found.append(f"tokens {sorted(missing)} are not in the right batch")
    return found


def fault_differences(record, name, cell, item):
    """Return what is wrong with the record of one planted fault."""
    found, right = [], record["right"]["batch"]
    batch = {key: value for key, value in (right | cell["changed"]).items() if value is not None}
    if not cell["changed"] or any(value == right[key] for key, value in cell["changed"].items()):
        found.append("a key that is said to be changed is not")
    expected, fails = VERDICTS.get(cell["status"], "missed"), item in cell["failed"]
    if cell["verdict"] != expected or fails != (cell["status"] == "FAIL"):
        found.append(f"{cell['verdict']}, with status {cell['status']}")
    targets = sum(map(sum, counted(record, batch)))
    if item not in ("labels are shifted once",) and cell["effective_targets"] != targets:
        found.append(f"{targets} labels count, {cell['effective_targets']} frozen")
    if cell["verdict"] == "cannot tell":
        found += prompt_differences(record, cell, batch)
    return [f"{name}: {text}" for text in found]


def prompt_differences(record, cell, batch):
    """Return why a batch that "cannot tell" is not the right one with a longer prompt, which nobody excluded."""
    changed = {role for role in record["keys"] if record["keys"][role] in cell["changed"]}
    before, after = (list(chain.from_iterable(counted(record, b))) for b in (record["right"]["batch"], batch))
    first = [place for place, (old, new) in enumerate(zip(before, after)) if old != new]
    excluded = record["declared"]["prompts"] is not None
    alike = len(cell["changed"]) == len(changed) and changed <= NO_TARGETS
    if excluded or not alike or first != [before.index(True)]:
        return ["the batch is not the right one with a longer prompt"]
    return []


def form_differences(record, faults):
    """Return all that is wrong with the record of one form. faults: {name: item that must FAIL}."""
    found, planted = right_differences(record), 0
    for name, cell in record["faults"].items():
        if "not_applicable" not in cell:
            planted += 1
            found += fault_differences(record, name, cell, faults[name])
    if planted < MINIMUM or set(record["faults"]) != set(faults):
        found.append(f"{planted} faults are planted, at least {MINIMUM} expected")
    return found


def totals(forms):
    """Return the counts over all forms."""
    cells = [cell for form in forms.values() for cell in form["faults"].values() if "verdict" in cell]
    verdicts = Counter(cell["verdict"] for cell in cells)
    condemned = sum("FAIL" in form["right"]["statuses"].values() for form in forms.values())
    return {"forms": len(forms), "right_batches_condemned": condemned, "planted": len(cells),
            "caught": verdicts["caught"], "cannot_tell": verdicts["cannot tell"], "missed": verdicts["missed"]}
