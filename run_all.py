"""Do all runs of a study, in order, on the one device the user named.

Reads   runs/<study>/ as generate_runs.py wrote it, after a check against its runs.sha256
Writes  what train.py writes into each run directory; <run>/train.log, the progress lines and errors of its attempts;
        runs/<study>/ledger.jsonl, to which each reservation of a device adds a line at its start and at its end, failed
        attempts included; runs/<study>/.lock
Needs   --device cpu, or --gpu and nvidia-smi. The runs see only the named GPU, and nothing runs unless a probe finds
        exactly its UUID. A GPU that is in use, unknown, or outside the caller's CUDA_VISIBLE_DEVICES is refused.
About   as long as the training; finished runs are skipped, an interrupted one resumes from its checkpoint

    python run_all.py --study NAME (--device cpu [--jobs N] | --gpu <index or UUID>) [--runs DIR]

Exit 0: all runs finished. 1: a run failed, and no run was started after it. 2: refused. 128 + n: stopped by signal n.
"""

import contextlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import evidence
from devices import Stop, add_device_arguments, choose_device, device_environment
from evidence import InputError, read_json, run_script
from files import naming
from manifest import manifest_findings, read_manifest
from reservations import Ledger, lock_study, note_holders, utc_now

ROOT = Path(__file__).resolve().parent

OWN_KEYS = ("condition", "seed", "loader", "edits")  # and loader.py: all that may differ between the runs of a study
WAIT = 0.2  # seconds between two looks at a run's new progress lines


def _shared_part(run_directory, code):
    """Return what all runs of a study must have alike: all code but the loader, all settings but OWN_KEYS."""
    config = read_json(run_directory / "config.json")
    return ({name: digest for name, digest in code.items() if name != "loader.py"},
            {key: value for key, value in config.items() if key not in OWN_KEYS})


def _expected_digests(digests):
    """Return {run: {"config": SHA-256, "code": {file: SHA-256}}} from the list of a study's generated files."""
    runs = {}
    for name, digest in sorted(digests.items()):
        run, _, file = name.partition("/")
        expected = runs.setdefault(run, {"config": None, "code": {}})
        if file == "config.json":
            expected["config"] = digest
        elif file.endswith(".py"):
            expected["code"][file] = digest
    return runs


def study_runs(directory):
    """Return the runs in order, {run: {"config": SHA-256, "code": {file: SHA-256}}}, as a result must repeat them.

    InputError unless every file is as generated and all runs share what they must.
    """
    path = directory / "runs.sha256"
    if not path.is_file():
        raise InputError(f"{path}: missing; run `python generate_runs.py protocols/{directory.name}.json` first")
    digests = read_manifest(path)
    findings = [finding for finding in manifest_findings(digests, directory)
                if not finding.endswith(": extra") or finding.endswith(".py: extra")]  # a module could shadow another
    if findings:
        raise InputError(f"{directory}: not as generated: {'; '.join(findings)}")
    runs = _expected_digests(digests)
    parts = {run: _shared_part(directory / run, expected["code"]) for run, expected in runs.items()}
    unlike = [run for run in runs if parts[run] != parts[min(runs)]]
    if unlike:
        raise InputError(f"{path}: code or settings not those of {min(runs)}: {', '.join(unlike)}")
    return runs


def is_finished(run_directory, expected):
    """Return whether result.json exists; InputError when it is broken or belongs to another config or other code."""
    path = run_directory / "result.json"
    if not path.exists():
        return False
    result = read_json(path)
    found = result.get("digests") if isinstance(result, dict) else None
    wrong = [key for key, value in expected.items() if not isinstance(found, dict) or found.get(key) != value]
    if wrong:
        raise InputError(f"{path}: digests ({' and '.join(sorted(wrong))}): expected those of the generated files, "
                         "found others; delete it to train this run again")
    return True


# -------------------------------------------------------------------------------------------- running


def follow(log, child, name):
    """Print the new lines of a run's log, each with the run's name, until the child ends; return its exit status."""
    rest = ""
    while True:
        ended = child.poll() is not None
        *lines, rest = (rest + log.read()).split("\n")
        if ended and rest:
            lines.append(rest)
        for line in lines:
            print(line if line.startswith(f"{name}:") else f"{name}: {line}", file=sys.stderr, flush=True)
        if ended:
            return child.returncode
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(WAIT)


class Runner:
    """One call of this script: the study's directory, its lock, its ledger, the device, and the running children."""

    def __init__(self, directory, device, lock_file, ledger):
        self.directory, self.device, self.lock, self.ledger = directory, device, lock_file, ledger
        self.stop, self.failed = Stop(), []

    def start(self, run, log):
        """Start a run's trainer and note it as a holder of the lock.

        The child leads a process group of its own, so that Ctrl-C reaches it once, through the runner. It inherits the
        lock, so that a run that outlives a killed runner keeps the next runner out.
        """
        here, kind = self.directory / run, "cuda" if self.device["uuid"] else "cpu"
        command = [sys.executable, here / "train.py", here / "config.json", "--device", kind]
        with self.stop.starting:  # of two runs that start at once, the later note names both
            with naming(sys.executable):
                child = subprocess.Popen(command, cwd=here, env=device_environment(self.device), process_group=0,
                                         pass_fds=[self.lock.fileno()], stderr=log)
            self.stop.add(run, child)
            running = {name: other.pid for name, other in list(self.stop.running.items())}
            note_holders(self.lock, {"the runner": os.getpid(), **running})
        return child

    def run_one(self, run, expected):
        """Make one attempt at one run; return its end entry in the ledger."""
        path, finished, status = self.directory / run / "train.log", False, None
        entry, began = self.ledger.start(run, self.device), time.monotonic()
        try:
            with naming(path), open(path, "ab") as log, open(path, encoding="utf-8", errors="replace") as lines:
                lines.seek(0, os.SEEK_END)
                status = follow(lines, self.start(run, log), run)
            finished = status == 0 and is_finished(self.directory / run, expected)
        finally:
            self.stop.running.pop(run, None)
            outcome = "finished" if finished else "interrupted" if self.stop.number else "failed"
            if outcome == "failed" and status is not None and status < 0:
                outcome = "killed"
            seconds = round(time.monotonic() - began, 3)
            end = self.ledger.append({**entry, "event": "end", "end": utc_now(), "seconds": seconds,
                                      "outcome": outcome, "exit_status": status})
        return end

    def attempt(self, place, run, expected):
        """Make an attempt at a run, unless the runner was stopped or a run failed, and say what came of it."""
        if self.stop.number or self.failed:
            return
        print(f"{run}: starts ({place}) on {self.device['name'] or self.device['kind']}", flush=True)
        try:
            end = self.run_one(run, expected)
        except BaseException:
            self.failed.append(run)
            raise
        print(f"{run}: {end['outcome']} (exit status {end['exit_status']}) after {end['seconds']} s", flush=True)
        if end["outcome"] == "finished" or self.stop.number:
            return
        self.failed.append(run)
        advice = f"mend what {self.directory / run / 'train.log'} names and run again"
        if end["outcome"] == "killed":
            advice = "another process or a lack of memory killed it; run again to resume from its checkpoint"
        print(f"{run}: no result, and runs after it were not started; {advice}", file=sys.stderr)

    def run_pending(self, pending, jobs):
        """Do the `pending` part of study_runs in order, `jobs` at a time; return the exit code."""
        with ThreadPoolExecutor(jobs) as pool:
            done = [pool.submit(self.attempt, f"{number} of {len(pending)}", *item)
                    for number, item in enumerate(pending.items(), 1)]
        for future in done:
            future.result()
        if self.stop.number:
            print(f"stopped by signal {self.stop.number}; run again to resume from the last checkpoint",
                  file=sys.stderr)
            return 128 + self.stop.number
        return 1 if self.failed else 0


def main(argv=None):
    parser = evidence.parser(__doc__)
    parser.add_argument("--study", required=True, metavar="NAME", help="the study whose runs generate_runs.py wrote")
    add_device_arguments(parser)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="CPU runs side by side (default: 1)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where studies are run (default: runs)")
    arguments = parser.parse_args(argv)
    directory = arguments.runs.resolve() / arguments.study
    if arguments.jobs < 1 or (arguments.jobs > 1 and arguments.gpu):
        raise InputError(f"--jobs: expected 1 or more, and 1 on a GPU, found {arguments.jobs}")
    runs = study_runs(directory)
    with lock_study(directory) as lock_file:
        note_holders(lock_file, {"the runner": os.getpid()})
        ledger = Ledger(directory / "ledger.jsonl")
        for lost in ledger.close_lost():
            print(f"{lost['run']}: attempt {lost['attempt']} was lost with its runner; noted in the ledger")
        pending = {run: expected for run, expected in runs.items() if not is_finished(directory / run, expected)}
        device = choose_device(arguments.device, arguments.gpu)
        for run in [run for run in runs if run not in pending]:
            print(f"{run}: finished before, skipped")
        code = Runner(directory, device, lock_file, ledger).run_pending(pending, arguments.jobs)
    if code == 0:
        print(f"all {len(runs)} runs finished: {directory}/*/result.json; reservations in {ledger.path}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
