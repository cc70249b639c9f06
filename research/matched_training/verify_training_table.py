"""Do the scores of the matched runs follow from their frozen results, and do the results agree with each other?

    python research/matched_training/verify_training_table.py [--study NAME ...] [--root DIR]

Reads   NAME.json beside this script (report.py --freeze). Where they exist it also reads curves_NAME.json,
        runs_NAME.sha256 and checkpoints_NAME.json (audit_checkpoints.py --freeze) beside it, protocols/NAME.json,
        loaders/, manifests/NAME.sha256, research/source_exclusion/NAME.json and runs/NAME/
Writes  nothing
Needs   Python's standard library
About   one second

The verifier derives every score from nats, bytes and targets, FLOPs from targets, and the differences from the baseline
of the same seed. run_identity.py checks that each result is the run of its label. Measured numbers (nats, seconds, peak
memory, losses of the learning curves) follow from nothing that is frozen. Those of a result are bound by the SHA-256
of the file whose model was scored again. Those of a learning curve are compared with runs/NAME/<run>/metrics.jsonl
where that run lies; otherwise only their number, their order and their end are checked, and a line says so. Exit 1
names what is false.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, canonical_json, parser, read_json, run_script, sha256_bytes
from manifest import read_manifest
from research.reference_scores import baseline_of, minus_baseline, quotients
from research.run_identity import check_bindings, positions_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "research/matched_training"

SHARED = ("parameters", "flops_per_token", "updates", "rows")
SHARED_IF_FULL = (*SHARED, "targets", "total_flops")  # of results that have no `positions`: every row is full
POPULATION = ("rows", "targets", "supplied_bytes", "raw_bytes")
MEASURED = ("loss", "seconds")

# ----------------------------------------------------------------------------------------- results


def check_run(checks, name, result):
    """Check the relations inside one result."""
    checks.equal(f"{name}: name", name, f"{result['condition']}_s{result['seed']}")
    score = result["score"]
    sums = (score[key] for key in ("nats", "supplied_bytes", "raw_bytes", "targets"))
    checks.equal(f"{name}: score", score, score | quotients(*sums))
    positions, effective = positions_of(result), result["effective_targets"]
    checks.equal(f"{name}: total_flops", result["total_flops"], result["flops_per_token"] * positions)
    rows, updates = result["rows"], result["updates"]
    checks.expect(rows % updates == 0, f"{name}: {rows} rows in {updates} updates")
    if "positions" not in result:  # every row is full, so the context follows
        context, rest = divmod(positions, rows)
        checks.expect(rest == 0 and score["targets"] <= score["rows"] * context,
                      f"{name}: {score['targets']} targets scored in {score['rows']} rows of context {context}")
    checks.expect(0 < effective <= positions, f"{name}: {effective} effective targets of {positions} positions")
    timed, loop, scored, total = (result["seconds"][key] for key in ("timed", "loop", "score", "run"))
    checks.expect(0 <= timed <= loop and loop + scored <= total,
                  f"{name}: seconds: timed {timed:.3f}, loop {loop:.3f}, score {scored:.3f}, run {total:.3f}")
    checks.expect(result["peak_bytes"] > 0, f"{name}: peak_bytes {result['peak_bytes']}")


def check_same(checks, what, runs, name, other, facts):
    """Check that `facts` of two runs are equal, unless both are one run."""
    if name != other:
        checks.equal(f"{name}: {what} of {other}", facts(runs[other]), facts(runs[name]))


def population(result):
    """The rows that an official score is of."""
    return {"plan": result["digests"]["evaluation_plan"], **{key: result["score"][key] for key in POPULATION}}


def budget(result):
    """The size and the budget that matched runs share."""
    return {key: result[key] for key in (SHARED if "positions" in result else SHARED_IF_FULL)}


def shared_code(result):
    """{file: SHA-256} of a run's code without its loader."""
    return {file: digest for file, digest in result["digests"]["code"].items() if file != "loader.py"}


def check_matched(checks, runs):
    """Check what all runs share (size, budget, scored rows), what a seed shares, and what a condition shares."""
    first, first_of = next(iter(runs)), {}
    for name, result in runs.items():
        twin, other = baseline_of(name), first_of.setdefault(result["condition"], name)
        check_same(checks, "budget", runs, name, first, budget)
        check_same(checks, "population", runs, name, first, population)
        check_same(checks, "initial weights", runs, name, twin, lambda r: r["digests"]["initial_weights"])
        check_same(checks, "code but loader.py", runs, name, twin, shared_code)
        check_same(checks, "plan and rows", runs, name, other,
                   lambda r: {key: r["digests"][key] for key in ("plan", "rows")})


def check_digests(checks, frozen, path):
    """Check that each result is, byte for byte, the file of a run whose saved model reproduced its score."""
    if not path.exists():
        print(f"left out the SHA-256 of each result: no {path}")
        return
    entries = read_json(path)["content"]["runs"]
    checks.equal("runs with checkpoint evidence", sorted(entries), sorted(frozen["runs"]))
    for name in sorted(entries.keys() & frozen["runs"].keys()):
        entry = entries[name]
        checks.expect(not entry["findings"] and entry["rescored"] == entry["score"], f"{name}: score reproduced")
        found = sha256_bytes(canonical_json(frozen["runs"][name]))
        checks.equal(f"{name}: SHA-256 of result.json", entry["files"]["result.json"], found)


def check_code(checks, frozen, path):
    """Check that each result is of the code and the settings that were generated for its run."""
    if not path.exists():
        print(f"left out code and settings: no {path}")
        return
    listed = read_manifest(path)
    for name, result in frozen["runs"].items():
        digests = result["digests"]
        found = {f"{name}/{file}": digest for file, digest in digests["code"].items()}
        found[f"{name}/config.json"] = digests["config"]
        expected = {file: digest for file, digest in listed.items() if file.startswith(f"{name}/")}
        checks.equal(f"{name}: code and settings generated", expected, found)


# ------------------------------------------------------------------------------------------ curves


def check_curve(checks, name, result, curve):
    """Check the number of a curve's updates, that its seconds ascend, and that it ends when the run's loop did."""
    losses, seconds = curve["loss"], curve["seconds"]
    made = [loss for loss in losses if loss is not None]
    checks.equal(f"{name}: updates of the curve", [len(losses), len(seconds), len(losses) - len(made)],
                 [result["updates"], result["updates"], result["empty_updates"]])
    checks.expect(all(loss > 0 for loss in made) and seconds == sorted(seconds),
                  f"{name}: losses over 0, from {made[0]:.4f} to {made[-1]:.4f}; seconds ascend")
    checks.equal(f"{name}: end of the curve in seconds", seconds[-1], result["seconds"]["loop"])


def is_here(result, run):
    """Return whether a run directory holds the frozen run, and not one of the same name that was trained elsewhere."""
    path = run / "result.json"
    return path.exists() and path.read_bytes() == canonical_json(result) and (run / "metrics.jsonl").exists()


def check_curves(checks, frozen, path, runs):
    """Check every learning curve against its result, and against metrics.jsonl where the frozen run lies in `runs`."""
    if not path.exists():
        print(f"left out the learning curves: no {path}")
        return
    curves, here = read_json(path)["runs"], []
    checks.equal("runs with curves", sorted(curves), sorted(frozen["runs"]))
    for name in sorted(curves.keys() & frozen["runs"].keys()):
        check_curve(checks, name, frozen["runs"][name], curves[name])
        if is_here(frozen["runs"][name], runs / name):
            here.append(name)
            lines = [json.loads(line) for line in (runs / name / "metrics.jsonl").read_bytes().splitlines()]
            found = {key: [line[key] for line in lines] for key in MEASURED}
            checks.equal(f"{name}: curve of metrics.jsonl", {key: curves[name][key] for key in MEASURED}, found)
    if absent := sorted(curves.keys() - here):
        print(f"left out {path.name}: loss and seconds of {', '.join(absent)}: measured; the runs are not in {runs}")


# -------------------------------------------------------------------------------------------- main


def check_study(checks, study, root):
    """Make all checks of one study."""
    folder = root / FOLDER
    path = folder / f"{study}.json"
    frozen = read_json(path)
    absent = [name for name in frozen["runs"] if baseline_of(name) not in frozen["runs"]]
    if absent or not frozen["runs"]:
        raise InputError(f"{path}: runs: no baseline of the same seed for {', '.join(absent) or 'any run'}")
    for name, result in frozen["runs"].items():
        check_run(checks, name, result)
    check_matched(checks, frozen["runs"])
    bits = {name: result["score"]["bits_per_byte"] for name, result in frozen["runs"].items()}
    checks.equal("bits_per_byte_minus_baseline", frozen["bits_per_byte_minus_baseline"], minus_baseline(bits))
    check_digests(checks, frozen, folder / f"checkpoints_{study}.json")
    check_curves(checks, frozen, folder / f"curves_{study}.json", root / "runs" / study)
    check_code(checks, frozen, folder / f"runs_{study}.sha256")
    check_bindings(checks, study, frozen["runs"], root)


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", nargs="+", metavar="NAME", help="default: every study whose results are frozen")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    root, checks = options.root.resolve(), Checks()
    frozen = [path.stem for path in sorted((root / FOLDER).glob("*.json")) if (root / "protocols" / path.name).exists()]
    studies = options.study or frozen
    if not studies:
        raise InputError(f"{root / FOLDER}: no results are frozen; make them with: report.py --study NAME --freeze")
    for study in studies:
        with checks.attempt(f"{study}.json"):
            check_study(checks, study, root)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
