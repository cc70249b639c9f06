"""Does the table of the matched runs follow from their frozen results, and do the results agree with themselves?

    verify_training_table.py [--study demo ...] [--readme FILE]

Reads   NAME.json and, where they are there, curves_NAME.json, runs_NAME.sha256 (all report.py --freeze) and
        checkpoints_NAME.json (audit_checkpoints.py --freeze) beside this script; without --study every NAME.json.
        Below --root, each where it is there: protocols/NAME.json, loaders/ and supplement_v*/loaders/,
        manifests/NAME.sha256 and research/source_exclusion/NAME.json
Writes  nothing; prints the table of the paper's section 5.3 as Markdown
Needs   Python's standard library. About a second

Derived again: every score from nats, bytes and targets; FLOPs from targets; deltas against the same seed; the order of
the timers. What was measured (nats, seconds, memory) no relation can give: where checkpoint evidence is there, each
run's result must have the SHA-256 of the file whose model was scored again, so that no number of it is changed alone.
That a result is of its condition and seed: by the settings, loader, data and rows that it hashed (bound_runs.py).
--readme FILE also requires every line of the table in FILE. Exit 1: something is false; it is named.
"""

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, canonical_json, read_json, run_script, sha256_bytes
from manifest import read_manifest
from research.matched_training.run_identity import check_bindings

HERE = Path(__file__).resolve().parent

HEADER = ("|Condition|Seed|Official BPB|Delta vs same-seed control|CE|Perplexity|Full loop s|Total s|Peak MiB|",
          "|---|---:|---:|---:|---:|---:|---:|---:|---:|")
SHARED = ("parameters", "flops_per_token", "updates", "rows", "targets", "total_flops")
POPULATION = ("rows", "targets", "supplied_bytes", "raw_bytes")


def baseline_of(name):
    return f"baseline_s{name.rsplit('_s', 1)[1]}"


def check_run(checks, name, result):
    """What must hold inside one result."""
    checks.equal(f"{name}: name", name, f"{result['condition']}_s{result['seed']}")
    score, bits = result["score"], math.log(2)
    checks.equal(f"{name}: score", score, score | {
        "bits_per_byte": score["nats"] / (bits * score["supplied_bytes"]),
        "raw_bits_per_byte": score["nats"] / (bits * score["raw_bytes"]),
        "cross_entropy": score["nats"] / score["targets"], "perplexity": math.exp(score["nats"] / score["targets"])})
    checks.equal(f"{name}: total_flops", result["total_flops"], result["flops_per_token"] * result["targets"])
    context, rest = divmod(result["targets"], result["rows"])
    checks.expect(rest == 0 and result["rows"] % result["updates"] == 0 and score["targets"] <= score["rows"] * context,
                  f"{name}: {result['updates']} updates of whole rows of {context} targets; {score['targets']} scored")
    checks.expect(0 < result["effective_targets"] <= result["targets"],
                  f"{name}: {result['effective_targets']} effective targets of {result['targets']}")
    timed, loop, scored, total = (result["seconds"][key] for key in ("timed", "loop", "score", "run"))
    checks.expect(0 <= timed <= loop and loop + scored <= total,
                  f"{name}: seconds: timed {timed:.3f}, loop {loop:.3f}, score {scored:.3f}, run {total:.3f}")
    checks.expect(result["peak_bytes"] > 0, f"{name}: peak_bytes {result['peak_bytes']}")


def same(checks, what, runs, name, other, facts):
    """A check that `facts` of a run and of another one are equal; of a run and itself there is nothing to check."""
    if name != other:
        checks.equal(f"{name}: {what} of {other}", facts(runs[other]), facts(runs[name]))


def check_matched(checks, runs):
    """What must be equal: size, budget and scored population of all, first weights a seed, rows a condition."""
    first_of = {}
    for name, result in runs.items():
        first, twin = next(iter(runs)), baseline_of(name)
        other = first_of.setdefault(result["condition"], name)
        same(checks, "budget", runs, name, first, lambda r: {key: r[key] for key in SHARED})
        same(checks, "population", runs, name, first,
             lambda r: {"plan": r["digests"]["evaluation_plan"], **{key: r["score"][key] for key in POPULATION}})
        same(checks, "initial weights", runs, name, twin, lambda r: r["digests"]["initial_weights"])
        same(checks, "code but loader.py", runs, name, twin,
             lambda r: {file: digest for file, digest in r["digests"]["code"].items() if file != "loader.py"})
        same(checks, "plan and rows", runs, name, other, lambda r: {key: r["digests"][key] for key in ("plan", "rows")})


def check_deltas(checks, frozen):
    """Differences from the same-seed baseline, one for every other run and no more."""
    bits = {name: result["score"]["bits_per_byte"] for name, result in frozen["runs"].items()}
    found = {name: bits[name] - bits[baseline_of(name)] for name in bits if name != baseline_of(name)}
    checks.equal("bits_per_byte_minus_baseline", frozen["bits_per_byte_minus_baseline"], found)


def check_digests(checks, frozen, path):
    """Each result is, byte for byte, the file of a run whose saved model reproduced its score."""
    if not path.exists():
        print(f"left out the SHA-256 of each result: no {path}")
        return
    entries = read_json(path)["content"]["runs"]
    checks.equal("runs with checkpoint evidence", sorted(entries), sorted(frozen["runs"]))
    for name in sorted(set(entries) & set(frozen["runs"])):
        entry = entries[name]
        checks.expect(not entry["findings"] and entry["rescored"] == entry["score"], f"{name}: score reproduced")
        found = sha256_bytes(canonical_json(frozen["runs"][name]))
        checks.equal(f"{name}: SHA-256 of result.json", entry["files"]["result.json"], found)


def check_curves(checks, frozen, path):
    """Each learning curve has a finite loss for every update and ends when its run's loop did."""
    if not path.exists():
        print(f"left out the learning curves: no {path}")
        return
    curves = read_json(path)["runs"]
    checks.equal("runs with curves", sorted(curves), sorted(frozen["runs"]))
    for name in sorted(set(curves) & set(frozen["runs"])):
        result, losses, seconds = frozen["runs"][name], curves[name]["loss"], curves[name]["seconds"]
        made = [loss for loss in losses if loss is not None]
        checks.equal(f"{name}: updates of the curve", [len(losses), len(seconds), len(losses) - len(made)],
                     [result["updates"], result["updates"], result["empty_updates"]])
        checks.expect(all(loss > 0 for loss in made) and seconds == sorted(seconds),
                      f"{name}: losses over 0, from {made[0]:.4f} to {made[-1]:.4f}; seconds ascend")
        checks.equal(f"{name}: end of the curve in seconds", seconds[-1], result["seconds"]["loop"])


def check_code(checks, frozen, path):
    """Each result is of the code and the settings that were generated for its run."""
    if not path.exists():
        print(f"left out code and settings: no {path}")
        return
    listed = read_manifest(path)
    for name, result in frozen["runs"].items():
        digests = result["digests"]
        found = {f"{name}/{file}": digest for file, digest in digests["code"].items()}
        expected = {file: digest for file, digest in listed.items() if file.startswith(f"{name}/")}
        found[f"{name}/config.json"] = digests["config"]
        checks.equal(f"{name}: code and settings generated", expected, found)


def table(frozen):
    """The lines of the paper's table of section 5.3, with deltas."""
    lines = list(HEADER)
    for name, result in frozen["runs"].items():
        score, seconds = result["score"], result["seconds"]
        delta = score["bits_per_byte"] - frozen["runs"][baseline_of(name)]["score"]["bits_per_byte"]
        lines.append(f"|{result['condition']}|{result['seed']}|{score['bits_per_byte']:.8f}|{delta:+.8f}|"
                     f"{score['cross_entropy']:.8f}|{score['perplexity']:.5f}|{seconds['loop']:.3f}|"
                     f"{seconds['run']:.3f}|{result['peak_bytes'] / 2**20:.2f}|")
    return lines


def check_study(checks, study, folder, root, readme):
    """All checks of one study, then its table."""
    path = folder / f"{study}.json"
    frozen = read_json(path)
    absent = [name for name in frozen["runs"] if baseline_of(name) not in frozen["runs"]]
    if absent or not frozen["runs"]:
        raise InputError(f"{path}: runs: no baseline of the same seed for {', '.join(absent) or 'any run'}")
    for name, result in frozen["runs"].items():
        check_run(checks, name, result)
    check_matched(checks, frozen["runs"])
    check_deltas(checks, frozen)
    check_digests(checks, frozen, folder / f"checkpoints_{study}.json")
    check_curves(checks, frozen, folder / f"curves_{study}.json")
    check_code(checks, frozen, folder / f"runs_{study}.sha256")
    check_bindings(checks, study, frozen["runs"], root)
    lines = table(frozen)
    if readme:
        there = readme.read_text(encoding="utf-8").splitlines()
        for line in lines:
            checks.expect(line in there, f"{readme}: {'has' if line in there else 'lacks'} {line}")
    print("", f"Study `{study}`", "", *lines, "", sep="\n")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", nargs="+", metavar="NAME", help="default: all that are frozen")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="a file that must contain the table")
    parser.add_argument("--folder", type=Path, default=HERE, metavar="DIR", help="of the evidence (default: this one)")
    parser.add_argument("--root", type=Path, default=HERE.parents[1], metavar="DIR", help="default: two folders up")
    options = parser.parse_args(argv)
    protocols = options.root / "protocols"
    frozen = [path.stem for path in sorted(options.folder.glob("*.json")) if (protocols / path.name).exists()]
    studies, checks = options.study or frozen, Checks()
    if not studies:
        raise InputError(f"{options.folder}: no results are frozen; make them with: report.py --study NAME --freeze")
    for study in studies:
        check_study(checks, study, options.folder, options.root, options.readme)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
