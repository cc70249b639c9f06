"""Do the totals of the frozen resource ledgers follow from their records, and do the records agree with each other?

    python research/resources/verify_resources.py [--study NAME ...] [--root DIR]

Reads   NAME.json beside this script and, where they exist, the frozen files that hold the same numbers:
        research/matched_training/{NAME,sweep_NAME,checkpoints_NAME}.json, research/confirmation/NAME.json,
        research/source_windows/NAME_POPULATION.json, and protocols/{NAME,candidates_NAME}.json
Writes  nothing
Needs   Python's standard library
About   one second

No relation can tell whether a measured second or byte is what the machine took; such numbers are compared with the
other frozen files. Exit 1 names what is false.
"""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import (
    Checks,
    InputError,
    canonical_json,
    parser,
    read_json,
    require_keys,
    run_script,
    sha256_bytes,
)
from research.resources.reference_sweep import check_sweep
from research.resources.reference_totals import SECONDS, reference_totals

ROOT = Path(__file__).resolve().parents[2]

# The outcomes that run_all.py writes, and which exit statuses each may have.
OUTCOMES = {"failed": lambda status: status is not None and status >= 0, "finished": lambda status: status == 0,
            "interrupted": lambda status: status is not None,
            "killed": lambda status: status is not None and status < 0, "lost": lambda status: status is None}
KEYS = ("inputs", "not_recorded", "records", "study", "totals")


# ------------------------------------------------------------------------------------------- records


def check_training(checks, record):
    """Check the relations within the record of one training."""
    name, seconds = record["name"], record["seconds"]
    checks.expect(0 <= seconds["timed"] <= seconds["loop"] and seconds["score"] >= 0 and
                  seconds["loop"] + seconds["score"] <= seconds["run"],
                  f"{name}: seconds: " + ", ".join(f"{key} {seconds[key]:.3f}" for key in SECONDS))
    context, rest = divmod(record["targets"], record["rows"])
    per_update, rows_rest = divmod(record["rows"], record["updates"])
    checks.expect(rest == rows_rest == 0 < context, f"{name}: {record['targets']} targets = "
                  f"{record['updates']} updates of {per_update} rows of {context}")
    checks.equal(f"{name}: total_flops", record["total_flops"], record["flops_per_token"] * record["targets"])
    checks.expect(0 < record["effective_targets"] <= record["targets"] and record["peak_bytes"] > 0 and
                  record["attempts"] > 0 < record["scored_rows"] and record["flops_per_token"] % 3 == 0,
                  f"{name}: {record['effective_targets']} effective targets, {record['attempts']} attempts, "
                  f"{record['peak_bytes']} bytes at most")


def check_scorings(checks, records):
    """Check that positions are whole rows of the run's context, and that each training has one official score."""
    trainings, found = {record["name"]: record for record in records["trainings"]}, []
    for scoring in records["scorings"]:
        kind, run = scoring["kind"], scoring["run"]
        training = trainings[run]
        context, positions = training["targets"] // training["rows"], scoring["forward_positions"]
        checks.expect(positions >= 0 == positions % context, f"{kind} of {run}: {positions} positions, whole rows")
        official = training["scored_rows"] * context
        if kind == f"official_{training['kind']}":
            found.append(run)
            stated, derived = [positions, scoring["seconds"]], [official, training["seconds"]["score"]]
            checks.equal(f"{kind} of {run}: positions and seconds", stated, derived)
        elif kind == "checkpoints" and positions:
            checks.equal(f"{kind} of {run}: positions", positions, official)
    checks.equal("trainings with an official score", sorted(found), sorted(trainings))


def check_reservations(checks, records):
    """Check that attempts are numbered from 1, and that a result's attempts and seconds are within its reservations."""
    by_run = {}
    for record in records["reservations"]:
        by_run.setdefault(record["run"], []).append(record)
    for run, attempts in by_run.items():
        numbers = [record["attempt"] for record in attempts]
        checks.expect(numbers == list(range(1, len(numbers) + 1)), f"{run}: reservations {numbers}")
        wrong = [r["attempt"] for r in attempts if r["outcome"] not in OUTCOMES or
                 not OUTCOMES[r["outcome"]](r["exit_status"]) or (r["outcome"] == "lost") != (r["seconds"] is None)]
        checks.expect(not wrong, f"{run}: outcomes that contradict exit status or seconds: {wrong or 'none'}")
    for result in records["trainings"]:
        if result["kind"] != "run":
            continue
        attempts = by_run.get(result["name"], [])
        ends = [i for i, record in enumerate(attempts, 1) if record["outcome"] == "finished"]
        checks.expect(bool(ends) and result["attempts"] <= ends[-1],
                      f"{result['name']}: {result['attempts']} attempts in the result, {len(attempts)} in the ledger")
        counted = attempts[: ends[-1]][-result["attempts"]:] if ends else []
        elsewhere = [record["device"] for record in counted if record["device"] != result["device"]]
        checks.expect(not elsewhere, f"{result['name']}: on {result['device']}, reserved {elsewhere or 'nothing else'}")
        own = [record["seconds"] for record in counted]
        if own and None not in own:
            checks.expect(math.fsum(own) >= result["seconds"]["run"] - 0.001,
                          f"{result['name']}: {math.fsum(own):.3f} s reserved, {result['seconds']['run']:.3f} s run")


# ------------------------------------------------------------------------------- other frozen evidence


def check_results(checks, records, frozen, *_):
    """Compare each run with the frozen result, by SHA-256 and number by number."""
    runs = {record["name"]: record for record in records["trainings"] if record["kind"] == "run"}
    for name, result in frozen["runs"].items():
        record = runs.get(name, {})
        checks.equal(f"{name}: SHA-256 of result.json", record.get("sha256"), sha256_bytes(canonical_json(result)))
        expected = {**{key: result[key] for key in record if key in result},
                    "scored_rows": result["score"]["rows"], "device": result["environment"]["device"]}
        checks.equal(f"{name}: numbers of the frozen result", {key: record.get(key) for key in expected}, expected)


def other_scorings(root, study):
    """List (kind, run, what a frozen file states of that scoring), over the frozen files that exist."""
    research, found = root / "research", []
    path = research / f"matched_training/checkpoints_{study}.json"
    if path.exists():
        found += [("checkpoints", run, {"forward_positions": entry.get("forward_positions", 0)})
                  for run, entry in read_json(path)["content"]["runs"].items()]
    path = research / f"confirmation/{study}.json"
    if path.exists():
        found += [("confirmation", run, {"seconds": entry["seconds"]})
                  for run, entry in read_json(path)["runs"].items()]
    for population in ("development", "confirmation"):
        path = research / f"source_windows/{study}_{population}.json"
        for entry in read_json(path)["scoring"] if path.exists() else []:
            found.append((f"windows_{population}", entry["run"], {"forward_positions": entry["forward_positions"]}))
    return found


def check_others(checks, records, root, study):
    """Compare the records with every other frozen file that holds the same numbers."""
    for name, check in ((f"{study}.json", check_results), (f"sweep_{study}.json", check_sweep)):
        path = root / "research/matched_training" / name
        if path.exists():
            check(checks, records, read_json(path), study, root)
        else:
            print(f"not compared: {path} does not exist")
    ours = {(record["kind"], record["run"]): record for record in records["scorings"]}
    for kind, run, expected in other_scorings(root, study):
        found = ours.get((kind, run), {})
        checks.equal(f"{kind} of {run}: as frozen", expected, {key: found.get(key) for key in expected})


# ---------------------------------------------------------------------------------------------- main


def check_study(checks, path, root):
    """Run all checks of one frozen ledger."""
    evidence = read_json(path)
    require_keys(evidence, KEYS, path)
    records = evidence["records"]
    checks.expect(evidence["study"] == path.stem, f"{path.name}: study {evidence['study']}")
    strangers = {record["run"] for record in records["scorings"]} - {record["name"] for record in records["trainings"]}
    checks.expect(not strangers, f"scorings of runs without a record in trainings: {sorted(strangers) or 'none'}")
    if strangers:
        return
    for record in records["trainings"]:
        check_training(checks, record)
    check_scorings(checks, records)
    unknown = [line for line in evidence["not_recorded"] if line.startswith("reservations:")]
    checks.expect(bool(unknown) == (records["reservations"] is None), f"reservations: {unknown or 'recorded'}")
    if records["reservations"] is not None:
        check_reservations(checks, records)
    totals = reference_totals(records)
    for key in sorted({*totals, *evidence["totals"]}):
        checks.equal(f"total {key}", evidence["totals"].get(key), totals.get(key))
    check_others(checks, records, root, path.stem)


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", nargs="+", metavar="NAME", help="studies to check (default: all that are frozen)")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    folder, checks = options.root / "research/resources", Checks()
    frozen = sorted(folder.glob("*.json"))
    paths = [folder / f"{name}.json" for name in options.study] if options.study else frozen
    if not paths:
        raise InputError(f"{folder}: no ledger is frozen; run sum_resources.py --study NAME --freeze")
    for path in paths:
        check_study(checks, path, options.root)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
