"""Which batch, context and width make the most of a fixed time of training on this machine?

Reads   protocols/candidates_<study>.json (the candidates, and the seconds of training that each gets), the protocol of
        its `base` study for everything else, and data/<base>
Writes  runs/sweep_<study>/<candidate>/{calibration,run}/ and runs/sweep_<study>/sweep.json; with --freeze
        sweep_<study>.json beside this script. The numbers are measured, so another machine finds other budgets.
Needs   torch; the study prepared; a machine with nothing else to do
About   candidates x (seconds + 40 s) / jobs: eight candidates of 110 s, two at a time, take eleven minutes

    python research/matched_training/sweep.py --study wheels --jobs 2 [--freeze]

A few updates calibrate each candidate. It then gets the number of updates that fills the seconds, and is trained with
the whole schedule of learning rates within that budget. Candidates are so compared at equal time, each by its own
official score. Contexts score different rows, so scores of unequal contexts are over unequal documents.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import (
    InputError,
    canonical_json,
    first_difference,
    freeze_json,
    input_list,
    parser,
    read_json,
    run_script,
    write_json,
)
from protocols.run_files import generated_files, write_missing
from protocols.schema import candidate_name, candidate_protocol, find_protocol, read_sweep
from research.saved_runs import read_metrics

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def train_candidate(protocol, directory, data):
    """Generate the one run of a protocol in `directory` and train it, unless that was done; return its path."""
    path = directory / "protocol.json"
    condition, seed = next(iter(protocol["conditions"])), protocol["seeds"][0]
    run = directory / f"{condition}_s{seed}"
    if path.exists() and path.read_bytes() != canonical_json(protocol):
        difference = first_difference(read_json(path), protocol)
        raise InputError(f"{path}: the protocol of another sweep: {difference}; move {directory} aside")
    if (run / "result.json").exists():
        return run
    write_json(path, protocol)
    write_missing(generated_files(protocol, path, ROOT, data, directory), directory)
    command = [sys.executable, run / "train.py", run / "config.json", "--device", "cpu"]
    finished = subprocess.run(command, cwd=run, capture_output=True, text=True)
    if finished.returncode:
        raise InputError(f"{run}: training failed: {' '.join(finished.stderr.strip().splitlines()[-1:])}")
    return run


def seconds_per_update(run):
    """Return the mean seconds of the second half of a run's updates, from its metrics."""
    lines = read_metrics(run)
    half = len(lines) // 2
    return (lines[-1]["seconds"] - lines[half - 1]["seconds"]) / (len(lines) - half)


def measure(base, sweep, candidate, directory, data):
    """Calibrate and train one candidate; return its measured record."""
    name = candidate_name(candidate)
    short = candidate_protocol(base, sweep, candidate, sweep["calibration_updates"], candidate["context"])
    calibrated = seconds_per_update(train_candidate(short, directory / name / "calibration", data))
    updates = max(1, round(sweep["seconds"] / calibrated))
    print(f"{name}: {calibrated:.3f} s an update, so {updates} updates", flush=True)
    protocol = candidate_protocol(base, sweep, candidate, updates, sweep["evaluation_targets"])
    result = read_json(train_candidate(protocol, directory / name / "run", data) / "result.json")
    print(f"{name}: {result['score']['bits_per_byte']:.4f} bits per byte", flush=True)
    loop = result["seconds"]["loop"]
    return {**candidate, "updates": updates, "targets": result["targets"], "parameters": result["parameters"],
            "loop_seconds": loop, "targets_per_second": result["targets"] / loop,
            "flops_per_second": result["total_flops"] / loop, "peak_bytes": result["peak_bytes"],
            "bits_per_byte": result["score"]["bits_per_byte"]}


def sweep_table(records):
    """Return the candidates with their measured numbers, as text."""
    from tabulate import tabulate

    rows = [[record["context"], record["width"], record["microbatch"], record["updates"], f"{record['targets']:,}",
             f"{record['targets_per_second']:,.0f}", f"{record['bits_per_byte']:.4f}"] for record in records]
    return tabulate(rows, ["context", "width", "rows an update", "updates", "targets", "targets/s", "bits/byte"])


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="protocols/candidates_NAME.json")
    arguments.add_argument("--jobs", type=int, default=1, metavar="N", help="candidates side by side (default: 1)")
    arguments.add_argument("--freeze", action="store_true", help="write the evidence beside this script")
    options = arguments.parse_args(argv)
    if options.jobs < 1:
        raise InputError(f"--jobs: expected 1 or more, found {options.jobs}")
    path = ROOT / "protocols" / f"candidates_{options.study}.json"
    sweep = read_sweep(path)
    base, base_path = find_protocol(sweep["base"], ROOT / "protocols")
    directory, data = ROOT / "runs" / f"sweep_{options.study}", ROOT / "data" / base.get("prepared", sweep["base"])
    with ThreadPoolExecutor(options.jobs) as pool:
        records = list(pool.map(lambda item: measure(base, sweep, item, directory, data), sweep["candidates"]))
    evidence = {"study": options.study, "jobs": options.jobs, "seconds": sweep["seconds"], "candidates": records,
                "inputs": input_list([path, base_path], ROOT)}
    print(sweep_table(records))
    write_json(directory / "sweep.json", evidence)
    if options.freeze:
        freeze_json(HERE / f"sweep_{options.study}.json", evidence)
    print(f"sweep: {directory / 'sweep.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
