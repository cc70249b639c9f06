"""What do the trained models of a study score beside the official score? This script makes all further scores in order.

Reads   protocols/evaluation_NAME.json, which says what the study goes without; further what the scripts below read
Writes  what the scripts write without --freeze: files below runs/NAME/, and in research/confirmation/ the exclusions
        and the protocol of a study with a confirmation, which are frozen once
Needs   torch; the study prepared and its runs finished, on the device that scored them
About   11 minutes of one CPU core for `demo`, an hour for `wheels`; a minute for `demo` when everything was scored
        before

    python research/evaluate.py --study NAME (--device cpu | --gpu INDEX_OR_UUID)

The steps are confirmation/exclude_duplicates.py, confirmation/freeze_protocol.py, matched_training/audit_checkpoints.py
and confirmation/score_confirmation.py; source_windows/{select,score,analyse}_windows.py for each population; and
prefix_ranking/rank_prefixes.py. The order matters: reserved documents are scored only after their protocol is frozen
and the checkpoints are checked. A section that is null in the evaluation protocol is left out, and a line says so.
research/matched_training/README.md describes the evaluation protocol.

Exit 0: every step held. The first step that fails ends the script with its exit code. 128 + n: signal n ended a step or
this script. Run the script again to go on, because what was scored is kept.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from devices import Stop, add_device_arguments, choose_device
from evidence import InputError, parser, run_script
from protocols.schema import find_protocol, read_evaluation
from research.saved_runs import run_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

POPULATIONS = ("development", "confirmation")


def list_steps(evaluation, device):
    """Return ([(script, its own arguments)], [a line for each part that is left out]) for an evaluation protocol.

    device: the arguments that name the device, for the scripts that run a model. InputError names a wrong key.
    """
    confirmed = read_evaluation(evaluation, "confirmation")
    populations = read_evaluation(evaluation, "source_windows")["populations"]
    steps, left_out = [("matched_training/audit_checkpoints.py", device)], []
    if confirmed:
        frozen_before = ["confirmation/exclude_duplicates.py", "confirmation/freeze_protocol.py"]
        steps = [*((script, []) for script in frozen_before), *steps, ("confirmation/score_confirmation.py", device)]
    else:
        left_out.append("this study reserves no documents for confirmation")
    for population in POPULATIONS:
        if populations[population] is None:
            left_out.append(f"this study has no source windows of its {population} documents")
            continue
        chosen = ["--population", population]
        steps += [("source_windows/select_windows.py", chosen), ("source_windows/score_windows.py", chosen + device),
                  ("source_windows/analyse_windows.py", chosen)]
    return [*steps, ("prefix_ranking/rank_prefixes.py", [])], left_out


def run_steps(steps, common):
    """Run the steps one by one, each with the `common` arguments as well; return the exit code.

    A step leads a process group of its own, so that Ctrl-C reaches it once, through this process, which waits for it.
    """
    stop = Stop()
    for number, (script, arguments) in enumerate(steps, 1):
        print(f"\nstep {number} of {len(steps)}: {' '.join([script, *common, *arguments])}", flush=True)
        stop.add(script, subprocess.Popen([sys.executable, HERE / script, *common, *arguments], process_group=0))
        status = stop.wait(script)
        where = f"step {number}, {script}"
        if stop.number:
            print(f"{where}: stopped by signal {stop.number}; run again to go on", file=sys.stderr)
            return 128 + stop.number
        if status:
            code = status if status > 0 else 128 - status
            print(f"{where}: exit {code}; no later step was started. Mend the cause and run again", file=sys.stderr)
            return code
    return 0


def require_files(root, study):
    """InputError naming every file that the steps need and that is missing, each with the way to make it."""
    needed = {root / f"protocols/evaluation_{study}.json": "copy protocols/evaluation_demo.json and change its numbers "
              "as research/matched_training/README.md explains"}
    protocol, _ = find_protocol(study, root / "protocols")
    prepared = root / "data" / protocol.get("prepared", study) / "prepared.json"
    needed[prepared] = f"prepare the study: make prepare STUDY={study}, or prepare.py --input for your own text"
    runs = root / "runs" / study
    needed[runs / "runs.sha256"] = f"generate the runs: make runs STUDY={study}"
    for name in run_names(protocol):
        needed[runs / name / "result.json"] = f"train the runs: make run-all STUDY={study}"
    missing = [f"{path}: missing; {how}" for path, how in needed.items() if not path.exists()]
    if missing:
        raise InputError("\n".join(["these files are needed first:", *missing]))


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    add_device_arguments(arguments)
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    device = choose_device(options.device, options.gpu)["uuid"]
    root = options.root.resolve()
    require_files(root, options.study)
    evaluation = root / f"protocols/evaluation_{options.study}.json"
    steps, left_out = list_steps(evaluation, ["--gpu", device] if device else ["--device", "cpu"])
    for line in left_out:
        print(f"left out: {line}", flush=True)
    code = run_steps(steps, ["--study", options.study, "--root", str(root)])
    if code == 0:
        runs = root / "runs" / options.study
        print(f"\nall {len(steps)} steps done; results: {runs / 'report'}, {runs / 'windows'}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
