"""Do all runs of a study, in order, on the one device the user named.

Reads   runs/<study>/ as generate_runs.py wrote it (checked against its runs.sha256 first)
Writes  what train.py writes into each run directory; runs/<study>/ledger.jsonl (append-only: one line when a device
        is reserved for a run, one when it is released, failed attempts too); runs/<study>/.lock
Needs   --device cpu, or --gpu and nvidia-smi. Only the named GPU is made visible to the runs, and a probe must find
        exactly that UUID behind it before anything runs. A GPU that is in use, unknown, or outside the caller's
        CUDA_VISIBLE_DEVICES is refused.
Takes   as long as the training; finished runs are skipped, an interrupted one goes on from its checkpoint

    python run_all.py --study NAME (--device cpu [--jobs N] | --gpu <index or UUID>) [--runs DIR]

Exit 0: all runs finished. 1: a run failed, and none was started after it. 2: refused. 128 + n: stopped by signal n.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python leaves it out under -I or PYTHONSAFEPATH

import evidence
from devices import Stop, add_device_arguments, child_environment, choose_device
from evidence import InputError, parse_json, read_json, require_keys, run_script
from manifest import manifest_findings, read_manifest

ROOT = Path(__file__).resolve().parent

OWN_KEYS = ("condition", "seed", "loader")  # and loader.py: all that may differ between the runs of a study


def _shared_part(run_directory, code):
    """What must not differ between the runs of a study: all code but the loader, all settings but OWN_KEYS."""
    config = read_json(run_directory / "config.json")
    return ({name: digest for name, digest in code.items() if name != "loader.py"},
            {key: value for key, value in config.items() if key not in OWN_KEYS})


def study_runs(directory):
    """The runs in order, {run: {"config": SHA-256, "code": {file: SHA-256}}}: what `digests` of a result must repeat.

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
    runs = {}
    for name, digest in sorted(digests.items()):
        run, _, file = name.partition("/")
        runs.setdefault(run, {"code": {}})["code"][file] = digest
    for expected in runs.values():
        expected["config"] = expected["code"].pop("config.json", None)
    parts = {run: _shared_part(directory / run, expected["code"]) for run, expected in runs.items()}
    unlike = [run for run in runs if parts[run] != parts[min(runs)]]
    if unlike:
        raise InputError(f"{path}: code or settings not those of {min(runs)}: {', '.join(unlike)}")
    return runs


def is_finished(run_directory, expected):
    """Whether result.json is there; InputError when it is broken or belongs to another config or other code."""
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


def lock_study(directory):
    """An open, locked file; InputError naming the holder when a runner, or a run that outlived its runner, has it."""
    file = open(directory / ".lock", "a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip()
        raise InputError(f"{file.name}: held by {holder or 'a starting runner'}; wait for it or stop it") from None
    return file


def note_holder(lock, text):
    lock.truncate(0)
    lock.write(text)
    lock.flush()


def utc_now():
    """Like 2026-01-31T12:00:00.000Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Ledger:
    """Append-only reservations: one canonical JSON object a line, `event` "start" or "end", all with the same keys.

    `attempt` counts a run's reservations from 1; times are UTC; `exit_status` is negative for a signal. A start without
    an end is a runner that was killed: its end is written later, as "lost" and without a time.
    """

    KEYS = ("event", "run", "attempt", "device", "start", "end", "seconds", "outcome", "exit_status")

    def __init__(self, path):
        self.path = path
        data = path.read_bytes() if path.exists() else b""
        *lines, tail = data.split(b"\n")
        if tail:
            raise InputError(f"{path}:{len(lines) + 1}: the line is torn; mend it before running")
        self.entries = [parse_json(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]
        for number, entry in enumerate(self.entries, 1):
            require_keys(entry, self.KEYS, f"{path}:{number}")

    def append(self, entry):
        """Add one line; it is on the disk when this returns."""
        line = json.dumps(entry, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        with open(self.path, "ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.entries.append(entry)
        return entry

    def start(self, run, device):
        attempt = 1 + sum(entry["run"] == run and entry["event"] == "start" for entry in self.entries)
        return self.append({**dict.fromkeys(self.KEYS), "event": "start", "run": run, "attempt": attempt,
                            "device": device, "start": utc_now()})

    def close_lost(self):
        """Write the missing ends, and return them."""
        ended = {(entry["run"], entry["attempt"]) for entry in self.entries if entry["event"] == "end"}
        return [self.append({**entry, "event": "end", "outcome": "lost"}) for entry in list(self.entries)
                if entry["event"] == "start" and (entry["run"], entry["attempt"]) not in ended]


def run_one(directory, run, expected, device, lock, ledger, stop, messages):
    """The ledger's end entry of one attempt at one run.

    The child leads a process group of its own, so that Ctrl-C reaches it once, through the runner. It inherits the
    lock, so that a run that outlives a killed runner keeps the next runner out.
    """
    here = directory / run
    command = [sys.executable, here / "train.py", here / "config.json", "--device", "cuda" if device["uuid"] else "cpu"]
    entry, began, finished = ledger.start(run, device), time.monotonic(), False
    with stop.starting:  # of two runs that start at once, the later note names both
        stop.add(run, subprocess.Popen(command, cwd=here, env=child_environment(device), process_group=0,
                                       pass_fds=[lock.fileno()], stderr=messages))
        held = ", ".join(f"{name} in pid {child.pid}" for name, child in list(stop.running.items()))
        note_holder(lock, f"pid {os.getpid()}, which runs {held}")
    status = stop.wait(run)
    try:
        finished = status == 0 and is_finished(here, expected)
    finally:
        outcome = "finished" if finished else "interrupted" if stop.number else "killed" if status < 0 else "failed"
        seconds = round(time.monotonic() - began, 3)
        end = ledger.append({**entry, "event": "end", "end": utc_now(), "seconds": seconds, "outcome": outcome,
                             "exit_status": status})
    return end


def run_pending(directory, pending, device, lock, ledger, jobs):
    """Do the `pending` part of study_runs in order, `jobs` at a time; return the exit code."""
    stop, failed = Stop(), []
    # Runs side by side write through cat: with no terminal before them they print lines, not bars over each other.
    pipe = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=sys.stderr, process_group=0) if jobs > 1 else None
    messages = pipe and pipe.stdin

    def attempt(number, run, expected):
        if stop.number or failed:
            return
        print(f"{run}: starts ({number} of {len(pending)}) on {device['name'] or device['kind']}", flush=True)
        try:
            end = run_one(directory, run, expected, device, lock, ledger, stop, messages)
        except BaseException:
            failed.append(run)
            raise
        print(f"{run}: {end['outcome']} (exit status {end['exit_status']}) after {end['seconds']} s", flush=True)
        if end["outcome"] != "finished" and not stop.number:
            failed.append(run)
            print(f"{run}: no result; runs after it were not started. Mend it and run again", file=sys.stderr)

    with ThreadPoolExecutor(jobs) as pool:
        done = [pool.submit(attempt, number, *item) for number, item in enumerate(pending.items(), 1)]
    if pipe:
        pipe.communicate()
    for future in done:
        future.result()
    if stop.number:
        print(f"stopped by signal {stop.number}; run again to go on from the last checkpoint", file=sys.stderr)
        return 128 + stop.number
    return 1 if failed else 0


def main(argv=None):
    parser = evidence.parser(__doc__)
    parser.add_argument("--study", required=True)
    add_device_arguments(parser)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="CPU runs side by side (default: 1)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where studies are run (default: runs)")
    arguments = parser.parse_args(argv)
    directory = arguments.runs.resolve() / arguments.study
    if arguments.jobs < 1 or (arguments.jobs > 1 and arguments.gpu):
        raise InputError(f"--jobs: expected 1 or more, and 1 on a GPU, found {arguments.jobs}")
    runs = study_runs(directory)
    with lock_study(directory) as lock:
        note_holder(lock, f"pid {os.getpid()}")
        ledger = Ledger(directory / "ledger.jsonl")
        for lost in ledger.close_lost():
            print(f"{lost['run']}: attempt {lost['attempt']} was lost with its runner; noted in the ledger")
        pending = {run: expected for run, expected in runs.items() if not is_finished(directory / run, expected)}
        device = choose_device(arguments.device, arguments.gpu)
        for run in [run for run in runs if run not in pending]:
            print(f"{run}: finished before, skipped")
        code = run_pending(directory, pending, device, lock, ledger, arguments.jobs)
    if code == 0:
        print(f"all {len(runs)} runs finished: {directory}/*/result.json; reservations in {ledger.path}")
    return code


if __name__ == "__main__":
    sys.exit(run_script(main))
