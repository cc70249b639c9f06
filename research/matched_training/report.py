"""What did the six matched runs score, and how do the interventions differ from their same-seed baseline?

Reads   protocols/NAME.json, runs/NAME/<run>/{result.json,metrics.jsonl}, runs/NAME/audit/audit.json (audit_stream.py)
Writes  runs/NAME/report/{results.json,curves.json,learning_curves.png,scores.png}; with --freeze NAME.json,
        curves_NAME.json and runs_NAME.sha256 (of code and settings) beside this script
Needs   matplotlib, tabulate; all runs of the study finished and audited. About two seconds

    report.py --study demo [--freeze]

Where frozen evidence exists, what must be the same on every machine (rows, plans, first weights, counts of targets and
bytes) must equal it, exactly; scores depend on the machine's arithmetic and may differ by TOLERANCE bits per byte.
Exit 1 names what does not.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import (
    InputError,
    first_difference,
    freeze_json,
    input_list,
    read_json,
    run_script,
    sha256_file,
    write_json,
)
from research.frozen_arrays import freeze
from research.saved_runs import TOLERANCE, baseline_of, read_metrics, run_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

EXACT = {
    "digests": ("inputs", "plan", "rows", "evaluation_plan", "first_microbatch", "last_microbatch", "initial_weights"),
    "run": ("parameters", "rows", "targets", "updates", "total_flops"),
    "score": ("rows", "targets", "supplied_bytes", "raw_bytes"),
}


def require_own(result, run, protocol_sha256):
    """InputError unless a result is of the run's configuration, and that of this protocol."""
    config = run / "config.json"
    if read_json(config)["protocol_sha256"] != protocol_sha256:
        raise InputError(f"{config}: generated from another protocol; generate the runs anew and train them")
    if not isinstance(result, dict) or result.get("digests", {}).get("config") != sha256_file(config):
        raise InputError(f"{run / 'result.json'}: of another configuration than {config}; delete it and train again")


def read_runs(protocol, directory, protocol_sha256):
    """{run: result} in the protocol's order; InputError names a run that is not finished, or not of this protocol."""
    runs = {}
    for name in run_names(protocol):
        path = directory / name / "result.json"
        if not path.exists():
            raise InputError(f"{path}: missing; run `make run-all STUDY={protocol['study']}` first")
        runs[name] = read_json(path)
        require_own(runs[name], path.parent, protocol_sha256)
    return runs


def collect(protocol, runs, inputs):
    """The evidence of a study: every result, and each bits-per-byte difference from the same-seed baseline."""
    score = {name: result["score"]["bits_per_byte"] for name, result in runs.items()}
    deltas = {name: score[name] - score[baseline_of(name)] for name in runs if name != baseline_of(name) in runs}
    return {"study": protocol["study"], "inputs": inputs, "runs": runs, "bits_per_byte_minus_baseline": deltas}


def exact_facts(evidence):
    """Those parts of the evidence that no machine may change."""
    def facts(result):
        parts = {"digests": result["digests"], "run": result, "score": result["score"]}
        return {name: {key: part[key] for key in EXACT[name]} for name, part in parts.items()}

    return {name: facts(result) for name, result in evidence["runs"].items()}


def compare(evidence, frozen):
    """(findings, largest difference in bits per byte) against the frozen evidence."""
    difference = first_difference(exact_facts(frozen), exact_facts(evidence))
    findings = [f"exact facts differ from the frozen evidence at {difference}"] if difference else []
    pairs = [(frozen["runs"][name]["score"]["bits_per_byte"], result["score"]["bits_per_byte"])
             for name, result in evidence["runs"].items() if name in frozen["runs"]]
    largest = max(abs(new - old) for old, new in pairs)
    if largest > TOLERANCE:
        findings.append(f"bits per byte differ from the frozen evidence by {largest:.6f}, more than {TOLERANCE}")
    return findings, largest


def score_table(evidence):
    """The paper's table of section 5.3 as text."""
    from tabulate import tabulate

    rows = []
    for name, result in evidence["runs"].items():
        score, seconds = result["score"], result["seconds"]
        delta = evidence["bits_per_byte_minus_baseline"].get(name)
        rows.append([result["condition"], result["seed"], f"{score['bits_per_byte']:.6f}",
                     "" if delta is None else f"{delta:+.6f}", f"{score['cross_entropy']:.5f}",
                     f"{score['perplexity']:.4f}", f"{seconds['loop']:.1f}", f"{seconds['run']:.1f}",
                     f"{result['peak_bytes'] / 2**20:.0f}"])
    headers = ["condition", "seed", "bits/byte", "vs baseline", "CE (nats)", "perplexity", "loop s", "total s",
               "peak MiB"]
    return tabulate(rows, headers, disable_numparse=True, colalign=("left",) + ("right",) * 8)


def audit_table(audit):
    """Where the tokens of each condition's stream went, and what never started, as text."""
    from tabulate import tabulate

    rows = []
    for name, record in audit["training"].items():
        tokens, documents, protected = record["tokens"], record["documents"], record["protected"]
        incoming = tokens["arrived"] + tokens["synthetic_bos"]
        rows.append([name, f"{documents['arrived']:,}", f"{documents['unstarted']:,}", f"{documents['cropped']:,}",
                     *(f"{tokens[key] / incoming:.1%}" for key in ("emitted", "discarded", "buffered")),
                     f"{protected['tokens'] / tokens['arrived']:.1%}" if protected["applies"] else "-"])
    headers = ["condition", "documents\narrived", "never\nstarted", "cropped", "tokens\nemitted", "tokens\ndiscarded",
               "tokens\nbuffered", "protected: tokens\nof the B-1 longest"]
    return tabulate(rows, headers, disable_numparse=True, colalign=("left",) + ("right",) * 7)


def read_curves(evidence, directory):
    """{run: {"loss": nats a target, null of an update without any, "seconds": of the loop so far}}, one an update."""
    curves = {}
    for name in evidence["runs"]:
        lines = read_metrics(directory / name)
        curves[name] = {key: [line[key] for line in lines] for key in ("loss", "seconds")}
    return {"study": evidence["study"], "inputs": evidence["inputs"], "runs": curves}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    parser.add_argument("--freeze", action="store_true", help="write the study's evidence beside this script")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="default runs/")
    options = parser.parse_args(argv)
    protocol_path, directory = ROOT / "protocols" / f"{options.study}.json", options.runs / options.study
    protocol = read_json(protocol_path)
    if not (directory / "audit/audit.json").exists():
        raise InputError(f"{directory / 'audit/audit.json'}: missing; run "
                         f"`python research/source_exclusion/audit_stream.py --study {options.study}` first")
    audit = read_json(directory / "audit/audit.json")
    inputs = input_list([protocol_path], ROOT)
    evidence = collect(protocol, read_runs(protocol, directory, inputs[0]["sha256"]), inputs)

    rows = f"{audit['capacity']}-token rows, buffer {audit['buffer_size']}"
    print(f"\nWhere the training stream of each condition went ({rows})\n")
    print(audit_table(audit))
    print(f"\nOfficial score after {next(iter(evidence['runs'].values()))['targets']:,} training targets a run\n")
    print(score_table(evidence), end="\n\n")
    out = directory / "report"
    curves = read_curves(evidence, directory)
    write_json(out / "results.json", evidence)
    write_json(out / "curves.json", curves)
    from research.matched_training.training_figures import draw_curves, draw_scores

    figures = [draw_curves(evidence, curves, out / "learning_curves.png"), draw_scores(evidence, out / "scores.png")]

    frozen, findings = HERE / f"{options.study}.json", []
    if options.freeze:
        freeze(frozen, evidence, {f"runs_{options.study}.sha256": (directory / "runs.sha256").read_bytes()})
        freeze_json(HERE / f"curves_{options.study}.json", curves)
    if frozen.exists():
        findings, largest = compare(evidence, read_json(frozen))
        print(*(f"FALSE {finding}" for finding in findings), sep="\n", end="\n" if findings else "")
        verdict = "differs" if findings else "rows, plans and counts equal"
        print(f"frozen evidence {frozen.relative_to(ROOT)}: {verdict}; bits per byte within {largest:.6f}")
    print(f"results: {out / 'results.json'}, {', '.join(map(str, figures))}; audit: {directory / 'audit'}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(run_script(main))
