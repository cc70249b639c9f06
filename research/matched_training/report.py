"""What did the matched runs score, and how do the interventions differ from the baseline of the same seed?

Reads   protocols/NAME.json, runs/NAME/<run>/{result.json,metrics.jsonl,evaluation_rows.npy} and
        runs/NAME/audit/audit.json (audit_stream.py)
Writes  runs/NAME/report/{results.json,intervals.json,curves.json,learning_curves.png,scores.png}; with --freeze
        NAME.json, curves_NAME.json and runs_NAME.sha256 (of code and settings) beside this script
Needs   matplotlib, NumPy and tabulate; all runs of the study finished and audited
About   three seconds

    python research/matched_training/report.py --study demo [--freeze]

The report ends with a warning for everything unusual that the results and the audit state. Where frozen evidence
exists, the facts that no machine may change (rows, plans, first weights, counts of targets and bytes) must equal it
exactly. Scores depend on the arithmetic of the machine and may differ by TOLERANCE bits per byte (saved_runs.py). Exit
1 names what differs.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import (
    Checks,
    freeze_json,
    input_list,
    parser,
    read_json,
    require,
    require_digest,
    run_script,
    sha256_file,
    write_json,
)
from research.frozen_arrays import freeze
from research.matched_training.report_tables import audit_table, score_table, warnings
from research.reference_scores import baseline_of, minus_baseline
from research.saved_runs import TOLERANCE, read_metrics, run_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

EXACT = {
    "digests": ("inputs", "plan", "rows", "evaluation_plan", "first_microbatch", "last_microbatch", "initial_weights"),
    "run": ("parameters", "rows", "targets", "updates", "total_flops"),
    "score": ("rows", "targets", "supplied_bytes", "raw_bytes"),
}


def require_own(result, run, protocol_sha256):
    """InputError unless a result is of the run's settings, and these are of the protocol."""
    config = run / "config.json"
    require(read_json(config)["protocol_sha256"] == protocol_sha256, config,
            "generated from another protocol; generate the runs again and train them")
    digest = result.get("digests", {}).get("config") if isinstance(result, dict) else None
    require(digest == sha256_file(config), run / "result.json", f"of other settings than {config}; train the run again")


def read_runs(protocol, directory, protocol_sha256):
    """Return {run: result} in the protocol's order; InputError names a run that is not finished or not its own."""
    runs = {}
    for name in run_names(protocol):
        path = directory / name / "result.json"
        require(path.exists(), path, f"missing; run `make run-all STUDY={protocol['study']}` first")
        runs[name] = read_json(path)
        require_own(runs[name], path.parent, protocol_sha256)
    return runs


def collect(protocol, runs, inputs):
    """Return the evidence of a study: every result, and each difference from the baseline of the same seed."""
    bits = {name: result["score"]["bits_per_byte"] for name, result in runs.items()}
    paired = {name: value for name, value in bits.items() if baseline_of(name) in bits}
    return {"study": protocol["study"], "inputs": inputs, "runs": runs,
            "bits_per_byte_minus_baseline": minus_baseline(paired)}


def read_intervals(evidence, directory):
    """Return {run: ([low, high] or None, reason or None)} from the row statistics of the runs."""
    import numpy as np

    from research.matched_training.score_intervals import difference_intervals

    rows = {}
    for name, result in evidence["runs"].items():
        path = directory / name / "evaluation_rows.npy"
        require_digest(path, result["digests"]["evaluation_rows.npy"])
        rows[name] = np.load(path)
    sizes = next(iter(rows.values()))[:, 1].astype(np.int64)
    return difference_intervals({name: values[:, 0] for name, values in rows.items()}, sizes)


def exact_facts(evidence):
    """Return those parts of the evidence that no machine may change."""
    def facts(result):
        parts = {"digests": result["digests"], "run": result, "score": result["score"]}
        return {name: {key: part[key] for key in EXACT[name]} for name, part in parts.items()}

    return {name: facts(result) for name, result in evidence["runs"].items()}


def compare(checks, evidence, frozen, where):
    """Check the evidence against the frozen one: exact facts, and bits per byte within TOLERANCE."""
    checks.equal(f"{where}: rows, plans, weights and counts", exact_facts(frozen), exact_facts(evidence),
                 f"{where}: rows, plans and counts are equal")
    pairs = [(frozen["runs"][name]["score"]["bits_per_byte"], result["score"]["bits_per_byte"])
             for name, result in evidence["runs"].items() if name in frozen["runs"]]
    largest = max(abs(new - old) for old, new in pairs)
    checks.expect(largest <= TOLERANCE, f"{where}: bits per byte differ by at most {largest:.6f}, allowed {TOLERANCE}")


def read_curves(evidence, directory):
    """Return the learning curves: for each run the loss (nats a target, null without targets) and seconds by update."""
    curves = {}
    for name in evidence["runs"]:
        lines = read_metrics(directory / name)
        curves[name] = {key: [line[key] for line in lines] for key in ("loss", "seconds")}
    return {"study": evidence["study"], "inputs": evidence["inputs"], "runs": curves}


def read_audit(directory, study):
    """Return the stream audit of a study; InputError says how it is made."""
    path = directory / "audit/audit.json"
    require(path.exists(), path,
            f"missing; run `python research/source_exclusion/audit_stream.py --study {study}` first")
    return read_json(path)


def write_results(evidence, curves, intervals, out):
    """Write results, intervals, curves and figures of a report; return the paths of the figures."""
    from research.matched_training.training_figures import draw_curves, draw_scores

    entries = {name: {"interval_95": bounds, "reason": reason} for name, (bounds, reason) in intervals.items()}
    write_json(out / "results.json", evidence)
    write_json(out / "intervals.json", {"study": evidence["study"], "over": "rows", "differences": entries})
    write_json(out / "curves.json", curves)
    return [draw_curves(evidence, curves, out / "learning_curves.png"), draw_scores(evidence, out / "scores.png")]


def print_report(evidence, audit, intervals):
    """Print the tables of the streams and of the scores."""
    print("\nWhere the training stream of each condition went "
          f"({audit['capacity']}-token rows, buffer {audit['buffer_size']})\n\n{audit_table(audit)}")
    targets = next(iter(evidence["runs"].values()))["targets"]
    print(f"\nOfficial score after {targets:,} training targets a run. The interval is a paired bootstrap over the "
          f"scored rows; it is no interval over seeds.\n\n{score_table(evidence, intervals, 'simple')}\n")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    arguments.add_argument("--freeze", action="store_true", help="write the study's evidence beside this script")
    arguments.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="default: runs/")
    options = arguments.parse_args(argv)
    protocol_path, directory = ROOT / "protocols" / f"{options.study}.json", options.runs / options.study
    protocol, audit = read_json(protocol_path), read_audit(directory, options.study)
    inputs = input_list([protocol_path], ROOT)
    evidence = collect(protocol, read_runs(protocol, directory, inputs[0]["sha256"]), inputs)
    curves, intervals = read_curves(evidence, directory), read_intervals(evidence, directory)
    figures = write_results(evidence, curves, intervals, directory / "report")
    frozen, checks = HERE / f"{options.study}.json", Checks()
    if options.freeze:
        freeze(frozen, evidence, {f"runs_{options.study}.sha256": (directory / "runs.sha256").read_bytes()})
        freeze_json(HERE / f"curves_{options.study}.json", curves)
    print_report(evidence, audit, intervals)
    if frozen.exists():
        compare(checks, evidence, read_json(frozen), frozen.relative_to(ROOT))
    for line in warnings(evidence, audit):
        print(f"warning: {line}")
    print(f"results: {directory / 'report/results.json'}, {', '.join(map(str, figures))}; audit: {directory / 'audit'}")
    return checks.close() if checks.made else 0


if __name__ == "__main__":
    sys.exit(run_script(main))
