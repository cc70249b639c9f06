"""What did a study cost: seconds, positions, FLOPs, memory, and attempts without a result?

    python research/resources/sum_resources.py --study NAME [--root DIR] [--freeze]

Reads   runs/NAME/: <run>/result.json, ledger.jsonl (run_all.py), and the records of scorings (report/checkpoints.json,
        report/confirmation.json, windows/); runs/sweep_NAME/ (sweep.py); protocols/NAME.json
Writes  with --freeze, NAME.json beside this script: every record, and the totals
Needs   Python's standard library and tabulate
About   one second

--freeze requires that every run of the protocol is finished, that no reservation is open, and that the results are
those frozen in research/matched_training/NAME.json, where that exists. Quantities that no record holds are listed under
`not_recorded` and never estimated.
"""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import (
    InputError,
    canonical_json,
    freeze_json,
    input_list,
    parser,
    read_json,
    run_script,
    sha256_bytes,
)
from protocols.schema import find_protocol
from research.resources.source_records import read_records, sources
from research.saved_runs import run_names

ROOT = Path(__file__).resolve().parents[2]

ALWAYS = (
    "CPU time of preparation, audits and analyses",
    "peak memory of scorings after training",
    "reservations and process starts of scorings and of the sweep, which run outside the ledger",
    "scorings repeated or broken off: of each kind and run one record stays",
)


def known_sum(values):
    """Return the exact sum, or None where a value is not recorded."""
    values = list(values)
    return None if None in values else math.fsum(values)


# -------------------------------------------------------------------------------------------- totals


def training_totals(records):
    """Sum finished trainings; positions are those with a forward and a backward pass."""
    seconds = {key: math.fsum(r["seconds"][key] for r in records) for key in ("timed", "loop", "score", "run")}
    return {"number": len(records), "updates": sum(r["updates"] for r in records),
            "training_positions": sum(r["targets"] for r in records), "seconds": seconds,
            "effective_targets": sum(r["effective_targets"] for r in records),
            "training_flops": sum(r["total_flops"] for r in records),
            "attempts": sum(r["attempts"] for r in records),
            "peak_bytes": max(r["peak_bytes"] for r in records)}


def scoring_totals(records, flops_per_token):
    """Sum scorings; a forward position costs a third of a training position, as in the paper."""
    flops = sum(flops_per_token[r["run"]] * r["forward_positions"] for r in records)
    return {"number": len(records), "forward_positions": sum(r["forward_positions"] for r in records),
            "forward_flops": flops // 3, "seconds": known_sum(r["seconds"] for r in records)}


def reservation_totals(reservations, with_result):
    """Sum reservations by outcome; one is `discarded` when its result no longer exists or a later one made it again."""
    last = {r["run"]: r["attempt"] for r in reservations if r["outcome"] == "finished" and r["run"] in with_result}
    groups = {}
    for r in reservations:
        dropped = r["outcome"] == "finished" and last.get(r["run"]) != r["attempt"]
        groups.setdefault("discarded" if dropped else r["outcome"], []).append(r["seconds"])
    return {outcome: {"number": len(seconds), "without_seconds": seconds.count(None),
                      "seconds": math.fsum(s for s in seconds if s is not None)} for outcome, seconds in groups.items()}


def by_kind(records):
    """Group records by kind."""
    groups = {}
    for record in records:
        groups.setdefault(record["kind"], []).append(record)
    return groups


def total(records):
    """Return all totals of a study's records."""
    trainings, scorings = records["trainings"], records["scorings"]
    flops = {record["name"]: record["flops_per_token"] for record in trainings}
    reservations, logged = records["reservations"], records["unfinished"]
    return {
        "trainings": {kind: training_totals(group) for kind, group in by_kind(trainings).items()},
        "scorings": {kind: scoring_totals(group, flops) for kind, group in by_kind(scorings).items()},
        "forward_positions": sum(record["forward_positions"] for record in scorings),
        "training_positions": sum(record["targets"] for record in trainings),
        "peak_bytes": max(record["peak_bytes"] for record in trainings),
        "reservations": None if reservations is None else reservation_totals(reservations, set(flops)),
        "unfinished": {"number": len(logged), **{key: sum(r[key] for r in logged) for key in ("updates", "targets")},
                       "seconds": math.fsum(r["seconds"] for r in logged)},
    }


def not_recorded(records, folder):
    """List what the totals leave out because no record holds it."""
    kinds = sorted({r["kind"] for r in records["scorings"] if r["seconds"] is None})
    found = [*ALWAYS, *(f"seconds of scorings: {kind}" for kind in kinds)]
    if records["reservations"] is None:
        found.append("reservations: no ledger.jsonl, so attempts that left no result are unknown")
    lost = sum(r["seconds"] is None for r in records["reservations"] or ())
    if lost:
        found.append(f"seconds of {lost} reservations whose runner was killed")
    if records["unfinished"]:
        found.append("a last update of each unfinished training, if one was under way")
    if (folder / "report/confirmation_began.json").exists() and not (folder / "report/confirmation.json").exists():
        found.append("forward positions of a confirmation scoring that was broken off")
    return found


# ---------------------------------------------------------------------------------------------- main


def require_whole(protocol, records, frozen):
    """Raise InputError unless every run is finished, none is under way, and the results are the frozen ones, if any."""
    names = {record["name"]: record for record in records["trainings"] if record["kind"] == "run"}
    for name in [name for name in run_names(protocol) if name not in names]:
        raise InputError(f"{name}: not finished; run `make run-all STUDY={protocol['study']}` before --freeze")
    for record in records["reservations"] or ():
        if record["outcome"] == "open":
            raise InputError(f"{record['run']}: attempt {record['attempt']} has no end in the ledger: it is running or "
                             "its runner was killed; run_all.py writes the end when it is run again")
    for name, result in (read_json(frozen)["runs"] if frozen.exists() else {}).items():
        if name not in names or names[name]["sha256"] != sha256_bytes(canonical_json(result)):
            raise InputError(f"{frozen}: runs.{name}: expected the result.json of the frozen run; runs/ holds "
                             "other runs")


def print_totals(totals):
    from tabulate import tabulate

    rows = [[kind, t["number"], f"{t['training_positions']:,}", f"{t['training_flops']:.4g}",
             *(f"{t['seconds'][key]:,.1f}" for key in ("timed", "loop", "run")), f"{t['peak_bytes'] / 2**20:,.0f}"]
            for kind, t in totals["trainings"].items()]
    print(tabulate(rows, ["trainings", "number", "positions", "FLOPs", "timed s", "loop s", "run s", "peak MiB"],
                   disable_numparse=True), end="\n\n")
    rows = [[kind, t["number"], f"{t['forward_positions']:,}", f"{t['forward_flops']:.4g}",
             "not recorded" if t["seconds"] is None else f"{t['seconds']:,.1f}"]
            for kind, t in totals["scorings"].items()]
    print(tabulate(rows, ["scorings", "number", "forward positions", "FLOPs", "s"], disable_numparse=True), end="\n\n")
    rows = [[outcome, t["number"], f"{t['seconds']:,.1f}", t["without_seconds"]]
            for outcome, t in (totals["reservations"] or {}).items()]
    print(tabulate(rows, ["reservations", "number", "s", "without seconds"], disable_numparse=True), end="\n\n")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    arguments.add_argument("--freeze", action="store_true", help="write research/resources/NAME.json")
    options = arguments.parse_args(argv)
    protocol, path = find_protocol(options.study, options.root / "protocols")
    study, folder = protocol["study"], options.root / "runs" / protocol["study"]
    records = read_records(folder)
    totals = total(records)
    print_totals(totals)
    inputs = sorted([*input_list([path], options.root), *sources(folder)], key=lambda entry: entry["path"])
    evidence = {"study": study, "inputs": inputs, "records": records, "totals": totals,
                "not_recorded": not_recorded(records, folder)}
    for line in evidence["not_recorded"]:
        print(f"not recorded: {line}")
    out = options.root / f"research/resources/{study}.json"
    if not options.freeze:
        print("Nothing was written; --freeze writes the evidence.")
        return 0
    require_whole(protocol, records, options.root / f"research/matched_training/{study}.json")
    freeze_json(out, evidence)
    print(f"evidence: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
