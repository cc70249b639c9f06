"""Does a scoring repeat the frozen one? The frozen scoring is kept in either case."""

from evidence import first_difference
from research.saved_runs import TOLERANCE

MEASURED = ("began_at", "seconds", "environment")
COUNTED = ("rows", "supplied_bytes", "raw_bytes", "targets")


def lasting(value, measured=MEASURED):
    """Return evidence without the values that every scoring measures anew."""
    if isinstance(value, dict):
        return {key: lasting(item, measured) for key, item in value.items() if key not in measured}
    return value


def models(evidence):
    """Return {run: SHA-256 of its model}."""
    return {name: entry["model_sha256"] for name, entry in evidence["runs"].items()}


def facts(evidence):
    """Return {run: the facts that no model and no machine may change}."""
    return {name: {"fingerprint": entry["fingerprint"], **{key: entry["score"][key] for key in COUNTED}}
            for name, entry in evidence["runs"].items()}


def compare(evidence, frozen):
    """Return ([findings], how it was compared) of a scoring against the frozen one.

    The same models must give the same numbers. Models that were trained anew must be fed the same inputs and targets
    and score within TOLERANCE bits per byte. Runs are compared by name, because their order in a new scoring differs
    from that of frozen JSON.
    """
    if models(evidence) == models(frozen):
        difference = first_difference(*(lasting(part, (*MEASURED, "checkpoints")) for part in (frozen, evidence)))
        return [difference] if difference else [], "the same models"
    difference = first_difference(facts(frozen), facts(evidence))
    if difference:
        return [difference], "models trained anew"
    largest = max(abs(entry["score"]["bits_per_byte"] - frozen["runs"][name]["score"]["bits_per_byte"])
                  for name, entry in evidence["runs"].items())
    far = [f"bits per byte differ by {largest:.6f}, more than {TOLERANCE}"] if largest > TOLERANCE else []
    return far, f"models trained anew, bits per byte within {largest:.6f}"
