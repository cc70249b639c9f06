"""Does every saved model reproduce the official score of its run, exactly?

Reads   protocols/NAME.json, runs/NAME/<run>/ (its own train.py and loaders/, config.json, model.safetensors,
        evaluation_rows.npy, result.json) and the prepared data that its config names
Writes  runs/NAME/report/checkpoints.json, sealed with the time; with --freeze, a copy of it as checkpoints_NAME.json
        beside this script
Needs   torch; every run of the study finished; the device that scored the runs, because other arithmetic gives another
        score
About   10 seconds a run of `demo` on two CPU cores

    python research/matched_training/audit_checkpoints.py --study demo (--device cpu | --gpu INDEX_OR_UUID) [--freeze]

For each run, the code, the settings, the weights and the row statistics must be those that its result names. Then the
run directory's own unchanged train.py scores the saved model again: that must give evaluation_rows.npy byte for byte,
and the score of result.json. Exit 1: a run does not. The findings are written also then, and the gate of the
confirmation stays closed (research/confirmation).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from devices import add_device_arguments, reserve_device
from evidence import (
    Checks,
    first_difference,
    freeze_json,
    input_list,
    parser,
    read_json,
    run_script,
    sha256_bytes,
)
from research.saved_runs import (
    SavedRun,
    changes,
    device_facts,
    file_digests,
    run_names,
)
from research.sealed import write_sealed

ROOT = Path(__file__).resolve().parents[2]


def rescore(saved):
    """Score the saved model of an unchanged run again; return (findings, facts for the evidence)."""
    from research.frozen_arrays import npy_bytes

    forward, config = saved.forward(), saved.config
    rows = config["evaluation"]["targets"] // config["packing"]["context"]
    statistics, plan = saved.scoring.score_run(saved.directory, forward, saved.ranks)
    score, rows_sha256 = saved.scoring.summarise(statistics), sha256_bytes(npy_bytes(statistics))
    found = {"evaluation_rows.npy": rows_sha256, "evaluation_plan": saved.train.plan_sha256(plan),
             "weights": saved.train.weights_digest(forward.model), "score": score}
    expected = {**saved.result["digests"], "score": saved.result["score"]}
    differences = [first_difference(expected[name], found[name], name) for name in found]
    facts = {"rescored_rows_sha256": rows_sha256, "rescored": score,
             "forward_positions": rows * config["packing"]["context"]}
    return list(filter(None, differences)), facts


def check_run(checks, path, device):
    """Check one run directory and print each finding; return its entry in the evidence."""
    files, findings, facts = file_digests(path), changes(path), {}
    score = read_json(path / "result.json")["score"]
    if not findings:
        findings, facts = rescore(SavedRun(path, device))
    verdict = "not reproduced" if findings else "reproduced, row by row"
    checks.expect(not findings, f"{path.name}: {score['bits_per_byte']:.8f} bits per byte {verdict}")
    for finding in findings:
        print(f"     {finding}")
    return {"files": files, "findings": findings, "score": score, **facts}


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    add_device_arguments(arguments)
    arguments.add_argument("--freeze", action="store_true", help="copy the evidence to research/matched_training/")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    device, root, study, checks = reserve_device(options), options.root.resolve(), options.study, Checks()
    protocol_path = root / f"protocols/{study}.json"
    protocol = read_json(protocol_path)
    runs = {name: check_run(checks, root / "runs" / study / name, device) for name in run_names(protocol)}
    content = {"study": study, "inputs": input_list([protocol_path], root), "environment": device_facts(device),
               "runs": runs}
    path = root / f"runs/{study}/report/checkpoints.json"
    record = write_sealed(path, content, "audit_checkpoints.py", replace=True)
    if options.freeze:
        freeze_json(root / f"research/matched_training/checkpoints_{study}.json", record)
    print(f"checkpoint evidence of {record['sealed_at']}: {path}")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
