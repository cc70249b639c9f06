"""The verifier's own totals of a resource ledger, from its records alone."""

import math

SECONDS = ("timed", "loop", "score", "run")


def grouped(records, key):
    """Group records by a key, in the order of their first occurrence."""
    groups = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def reference_totals(records):
    """Return all totals: trainings and scorings by kind, reservations by outcome, unfinished trainings."""
    of = {record["name"]: record for record in records["trainings"]}
    totals = {"trainings": {}, "scorings": {}, "reservations": None}
    for kind, group in grouped(records["trainings"], lambda r: r["kind"]).items():
        sums = {key: sum(r[key] for r in group) for key in ("updates", "effective_targets", "attempts")}
        totals["trainings"][kind] = {
            **sums, "number": len(group), "training_positions": sum(r["targets"] for r in group),
            "training_flops": sum(r["targets"] * r["flops_per_token"] for r in group),
            "peak_bytes": sorted(r["peak_bytes"] for r in group)[-1],
            "seconds": {key: math.fsum(r["seconds"][key] for r in group) for key in SECONDS}}
    for kind, group in grouped(records["scorings"], lambda r: r["kind"]).items():
        seconds = [r["seconds"] for r in group]
        totals["scorings"][kind] = {
            "number": len(group), "forward_positions": sum(r["forward_positions"] for r in group),
            "forward_flops": sum(of[r["run"]]["flops_per_token"] // 3 * r["forward_positions"] for r in group),
            "seconds": None if None in seconds else math.fsum(seconds)}
    totals["forward_positions"] = sum(t["forward_positions"] for t in totals["scorings"].values())
    totals["training_positions"] = sum(t["training_positions"] for t in totals["trainings"].values())
    totals["peak_bytes"] = max(t["peak_bytes"] for t in totals["trainings"].values())
    if records["reservations"] is not None:
        totals["reservations"] = _reservation_totals(records["reservations"], of)
    logged = records["unfinished"]
    totals["unfinished"] = {"number": len(logged), "updates": sum(r["updates"] for r in logged),
                            "targets": sum(r["targets"] for r in logged),
                            "seconds": math.fsum(r["seconds"] for r in logged)}
    return totals


def _reservation_totals(reservations, results):
    """Sum by outcome; a finished reservation without a result of its own among `results` is `discarded`."""

    def outcome(record):
        later = [r for r in reservations if r["run"] == record["run"] and r["attempt"] > record["attempt"]]
        made_anew = any(r["outcome"] == "finished" for r in later) or record["run"] not in results
        return "discarded" if record["outcome"] == "finished" and made_anew else record["outcome"]

    return {name: {"number": len(group), "without_seconds": sum(r["seconds"] is None for r in group),
                   "seconds": math.fsum(r["seconds"] or 0 for r in group)}
            for name, group in grouped(reservations, outcome).items()}
