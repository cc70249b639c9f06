"""All further scores of a study's trained models, in their order: each script below in a process of its own.

    evaluate.py --study NAME (--device cpu | --gpu INDEX_OR_UUID)

confirmation/exclude_duplicates.py, confirmation/freeze_protocol.py, matched_training/audit_checkpoints.py,
confirmation/score_confirmation.py; source_windows/{select,score,analyse}_windows.py for each population;
prefix_ranking/rank_prefixes.py. The order matters: reserved documents are scored only after their protocol is frozen
and the checkpoints are checked. What the study's evaluation protocol has as null is left out, and said to be.

Reads   protocols/evaluation_NAME.json, to know what the study goes without; else what the scripts read
Writes  what the scripts write, without --freeze: below runs/NAME/, and in research/confirmation/ the exclusions and the
        protocol of a study with a confirmation, which are frozen once
Needs   the study prepared and its runs finished, on the device that scored them; torch
About   11 minutes of one CPU core for `demo`, an hour for `wheels`; a minute for `demo` when all was scored before

Exit 0: all hold. The first step that fails ends it, with that step's exit code; 128 + n: a step, or this script with
its step, was ended by signal n. Run it again to go on: what was scored is kept.
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from devices import Stop, add_device_arguments, choose_device
from evidence import run_script
from protocols.schema import read_evaluation

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

POPULATIONS = ("development", "confirmation")


def list_steps(evaluation, device):
    """([(script, its own arguments)], [what is left out, in words]) that an evaluation protocol asks for.

    device: the arguments that name the device, passed to the scripts that run a model. InputError names a wrong key.
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
    """Run the steps one by one, each with the `common` arguments too; the exit code.

    A child leads a process group of its own, so that Ctrl-C reaches it once, through this process, which waits for it.
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
            print(f"{where}: exit {code}; no step after it was started. Mend it and run again", file=sys.stderr)
            return code
    return 0


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    add_device_arguments(parser)
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    options = parser.parse_args(argv)
    device = choose_device(options.device, options.gpu)["uuid"]
    root = options.root.resolve()
    evaluation = root / f"protocols/evaluation_{options.study}.json"
    steps, left_out = list_steps(evaluation, ["--gpu", device] if device else ["--device", "cpu"])
    for what in left_out:
        print(f"left out: {what}", flush=True)
    code = run_steps(steps, ["--study", options.study, "--root", str(root)])
    if code == 0:
        runs = root / "runs" / options.study
        print(f"\nall {len(steps)} steps done; results: {runs / 'report'}, {runs / 'windows'}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
