"""The runner brings each run to its end once, runs only what was generated, survives kills of its children and of
itself, keeps a second runner out, and leaves a trace of every reservation. Real child processes, real kills."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime

import pytest

import surroundings
from evidence import InputError, sha256_file
from manifest import format_manifest, read_manifest
from tiny import repository as tiny_study
from tiny.repository import RUNS, attempts, ledger, nothing_ran

pytestmark = pytest.mark.slow


def study(repository):
    return repository / "runs/demo"


def behave(repository, **behaviour):
    (study(repository) / "behaviour.json").write_text(json.dumps(behaviour))


def run_all(repository):
    return tiny_study.run_all(repository, "--device", "cpu")


def start(repository, *options):
    """The runner as a process in the background."""
    command = tiny_study.command(repository, "run_all.py", "--study", "demo", "--device", "cpu", *options)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_until_unlocked(repository):
    """The runner's first process that is not kept out: a killed child holds the lock until the system has reaped it."""
    for _ in range(50):
        done = run_all(repository)
        if "locked by" not in done.stderr:
            break
    return done


def wait_until_noted(repository, children):
    """Until the lock's note names every one of {run: pid}; a child may be at work before its runner has noted it."""
    wanted, note, deadline = [f'"{run}": {pid}' for run, pid in children.items()], "", time.monotonic() + 60
    while not all(part in note for part in wanted):
        assert time.monotonic() < deadline, f"expected {wanted}, found {note!r}"
        time.sleep(0.01)
        note = (study(repository) / ".lock").read_text()


def outcomes(repository):
    ends = [entry for entry in ledger(repository) if entry["event"] == "end"]
    return [(entry["run"], entry["attempt"], entry["outcome"], entry["exit_status"]) for entry in ends]


def finished(run, attempt=1):
    return run, attempt, "finished", 0


# ----------------------------------------------------------------------------------- the plain course


def test_all_runs_are_done_in_order_with_no_gpu_visible(repository):
    done = run_all(repository)
    assert done.returncode == 0, done.stderr
    assert outcomes(repository) == [finished(run) for run in RUNS]
    for run in RUNS:
        here = study(repository) / run
        assert attempts(repository, run) == [{"arguments": [str(here / "config.json"), "--device", "cpu"],
                                              "cwd": str(here), "resumed": False, "visible": "", "ranks": []}]
    assert done.stdout.splitlines()[-1].startswith(f"all 3 runs finished: {study(repository)}")


def test_the_ledger_pairs_starts_and_ends_with_times_and_device(repository):
    run_all(repository)
    entries = ledger(repository)
    assert [entry["event"] for entry in entries] == ["start", "end"] * 3
    for begin, end in zip(entries[::2], entries[1::2]):
        assert begin["end"] is begin["outcome"] is begin["seconds"] is begin["exit_status"] is None
        assert {**end, "event": "start", "end": None, "outcome": None, "seconds": None, "exit_status": None} == begin
        assert end["device"] == {"kind": "cpu", "index": None, "uuid": None, "name": None}
        elapsed = datetime.fromisoformat(end["end"]) - datetime.fromisoformat(end["start"])
        assert 0 < end["seconds"] < 60 and abs(elapsed.total_seconds() - end["seconds"]) < 5
    assert os.uname().nodename not in (study(repository) / "ledger.jsonl").read_text()


def test_finished_runs_are_skipped_and_said_so(repository):
    run_all(repository)
    before = (study(repository) / "ledger.jsonl").read_bytes()
    done = run_all(repository)
    assert done.returncode == 0
    assert all(f"{run}: finished before, skipped" in done.stdout for run in RUNS)
    assert (study(repository) / "ledger.jsonl").read_bytes() == before
    assert [len(attempts(repository, run)) for run in RUNS] == [1, 1, 1]


# ----------------------------------------------------------------------------------- failing and kills


def test_the_first_failure_stops_and_is_named_then_mended_and_continued(repository):
    behave(repository, random_crop_s1="fail")
    done = run_all(repository)
    assert done.returncode == 1 and "random_crop_s1" in done.stderr
    assert outcomes(repository) == [finished("baseline_s1"), ("random_crop_s1", 1, "failed", 3)]
    first_lines = (study(repository) / "ledger.jsonl").read_bytes()
    behave(repository)
    assert run_all(repository).returncode == 0
    assert outcomes(repository)[2:] == [finished("random_crop_s1", 2), finished("segmented_s1")]
    assert (study(repository) / "ledger.jsonl").read_bytes().startswith(first_lines)
    assert [len(attempts(repository, run)) for run in RUNS] == [1, 2, 1]


@pytest.mark.parametrize("behaviour, code", [("no result", 1), ("other config", 2)])
def test_exit_zero_without_a_fitting_result_is_a_failure(repository, behaviour, code):
    behave(repository, baseline_s1=behaviour)
    done = run_all(repository)
    assert done.returncode == code and "baseline_s1" in done.stderr
    assert outcomes(repository) == [("baseline_s1", 1, "failed", 0)]


def test_a_killed_run_is_recorded_and_resumed(repository):
    behave(repository, baseline_s1="wait")
    runner = start(repository)
    os.kill(int(tiny_study.wait_for(study(repository) / "baseline_s1/waiting")), signal.SIGKILL)
    _, errors = runner.communicate(timeout=60)
    assert runner.returncode == 1 and "baseline_s1" in errors
    assert outcomes(repository) == [("baseline_s1", 1, "killed", -9)]
    behave(repository)
    assert run_all(repository).returncode == 0
    assert [note["resumed"] for note in attempts(repository, "baseline_s1")] == [False, True]


def test_a_run_that_outlives_its_killed_runner_keeps_the_next_runner_out(repository):
    behave(repository, baseline_s1="wait")
    runner = start(repository)
    child = int(tiny_study.wait_for(study(repository) / "baseline_s1/waiting"))
    wait_until_noted(repository, {"baseline_s1": child})
    runner.kill()
    runner.wait(timeout=60)
    refused = run_all(repository)
    assert refused.returncode == 2 and f".lock: locked by baseline_s1 (process {child});" in refused.stderr
    assert len(attempts(repository, "baseline_s1")) == 1
    os.kill(child, signal.SIGKILL)
    runner.communicate(timeout=60)
    behave(repository)
    done = run_until_unlocked(repository)
    assert done.returncode == 0 and "attempt 1 was lost" in done.stdout
    assert outcomes(repository)[:2] == [("baseline_s1", 1, "lost", None), finished("baseline_s1", 2)]
    assert ledger(repository)[1]["end"] is ledger(repository)[1]["seconds"] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_run_and_stops_the_series(repository, number):
    behave(repository, baseline_s1="wait")
    runner = start(repository)
    child = int(tiny_study.wait_for(study(repository) / "baseline_s1/waiting"))
    runner.send_signal(number)
    _, errors = runner.communicate(timeout=60)
    assert runner.returncode == 128 + number and f"signal {int(number)}" in errors
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    (run, attempt, outcome, status), = outcomes(repository)
    assert (run, attempt, outcome) == ("baseline_s1", 1, "interrupted") and status != 0
    assert not attempts(repository, "random_crop_s1")


def test_a_signal_during_the_start_of_a_run_is_passed_on_once_it_has_started():
    code = (f"import os, signal, subprocess, sys; sys.path.insert(0, {str(tiny_study.ROOT)!r}); import devices\n"
            "stop = devices.Stop(); os.kill(os.getpid(), signal.SIGTERM)\n"
            "stop.add('a run', subprocess.Popen(['sleep', '20'])); print(stop.wait('a run'))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "-15\n", done.stderr


def test_two_jobs_run_side_by_side_and_a_signal_reaches_both(repository):
    behave(repository, baseline_s1="wait", random_crop_s1="wait")
    runner = start(repository, "--jobs", "2")
    children = [int(tiny_study.wait_for(study(repository) / run / "waiting")) for run in RUNS[:2]]
    assert not attempts(repository, RUNS[2])
    wait_until_noted(repository, dict(zip(RUNS, children)))
    runner.send_signal(signal.SIGTERM)
    runner.communicate(timeout=60)
    assert runner.returncode == 128 + signal.SIGTERM and not attempts(repository, RUNS[2])
    assert sorted((run, outcome) for run, _, outcome, _ in outcomes(repository)) == [
        (run, "interrupted") for run in RUNS[:2]]


def test_after_a_failure_among_jobs_nothing_new_starts(repository):
    behave(repository, baseline_s1="fail", random_crop_s1="wait")
    runner = start(repository, "--jobs", "2")
    tiny_study.wait_for(study(repository) / "random_crop_s1/waiting")
    while not any(run == "baseline_s1" for run, *_ in outcomes(repository)):
        time.sleep(0.01)
    (study(repository) / "random_crop_s1/go").write_text("")
    _, errors = runner.communicate(timeout=60)
    assert runner.returncode == 1 and "baseline_s1: no result" in errors
    assert not attempts(repository, "segmented_s1")
    assert {run: outcome for run, _, outcome, _ in outcomes(repository)} == {
        "baseline_s1": "failed", "random_crop_s1": "finished"}


@pytest.mark.parametrize("options", [["--device", "cpu", "--jobs", "0"], ["--gpu", "0", "--jobs", "2"]])
def test_jobs_are_for_the_cpu_and_at_least_one(repository, options):
    done = tiny_study.run_all(repository, *options)
    assert done.returncode == 2 and "--jobs" in done.stderr and nothing_ran(repository)


def test_of_two_runners_the_second_is_kept_out_with_the_holders_pid(repository):
    behave(repository, baseline_s1="wait")
    runner = start(repository)
    tiny_study.wait_for(study(repository) / "baseline_s1/waiting")
    second = run_all(repository)
    assert second.returncode == 2 and f"the runner (process {runner.pid})" in second.stderr
    (study(repository) / "baseline_s1/go").touch()
    _, errors = runner.communicate(timeout=60)
    assert runner.returncode == 0, errors
    assert outcomes(repository) == [finished(run) for run in RUNS]


# ----------------------------------------------------------------------------- what is run is as generated


def edit(path):
    path.write_text(path.read_text() + "\n")


@pytest.mark.parametrize("change, named", [
    (lambda s: edit(s / "segmented_s1/config.json"), "segmented_s1/config.json: changed"),
    (lambda s: edit(s / "baseline_s1/loaders/accounting.py"), "baseline_s1/loaders/accounting.py: changed"),
    (lambda s: (s / "random_crop_s1/loader.py").unlink(), "random_crop_s1/loader.py: missing"),
    (lambda s: (s / "baseline_s1/numpy.py").write_text(""), "baseline_s1/numpy.py: extra"),
    (lambda s: (s / "runs.sha256").unlink(), "generate_runs.py"),
    (lambda s: (s / "runs.sha256").write_text(""), "empty list"),
    (lambda s: (s / "segmented_s1/result.json").write_text("{"), "segmented_s1/result.json: not strict JSON"),
    (lambda s: (s / "segmented_s1/result.json").write_text("[]"), "s1/result.json: digests (code and config)"),
    (lambda s: (s / "segmented_s1/result.json").write_text('{"digests": 1}'), "segmented_s1/result.json: digests"),
])
def test_anything_not_as_generated_is_named_before_anything_runs(repository, change, named):
    change(study(repository))
    done = run_all(repository)
    assert done.returncode == 2 and named in done.stderr
    assert nothing_ran(repository)


@pytest.mark.parametrize("key, other", [("config", "0" * 64), ("code", {}), ("code", {"train.py": "0" * 64})])
def test_a_result_of_another_config_or_of_other_code_is_refused(repository, key, other):
    run_all(repository)
    path = study(repository) / "random_crop_s1/result.json"
    result = json.loads(path.read_text())
    result["digests"][key] = other
    path.write_text(json.dumps(result))
    done = run_all(repository)
    assert done.returncode == 2 and f"random_crop_s1/result.json: digests ({key})" in done.stderr
    assert len(ledger(repository)) == 6


@pytest.mark.parametrize("name, old, new", [("train.py", "sys.exit(3)", "sys.exit(4)"),
                                            ("config.json", '"width": 128', '"width": 256')])
def test_code_and_settings_are_one_for_all_runs_even_when_the_list_agrees(repository, name, old, new):
    path = study(repository) / "random_crop_s1" / name
    path.write_text(path.read_text().replace(old, new))
    digests = read_manifest(study(repository) / "runs.sha256")
    digests[f"random_crop_s1/{name}"] = sha256_file(path)
    (study(repository) / "runs.sha256").write_bytes(format_manifest(digests))
    done = run_all(repository)
    assert done.returncode == 2 and "not those of baseline_s1: random_crop_s1" in done.stderr
    assert nothing_ran(repository)


def test_a_ledger_line_without_its_keys_is_refused_by_line(repository):
    run_all(repository)
    path = study(repository) / "ledger.jsonl"
    damaged = path.read_bytes().replace(b"attempt", b"try")
    path.write_bytes(damaged)
    done = run_all(repository)
    assert done.returncode == 2 and "ledger.jsonl:1: missing key attempt" in done.stderr
    assert path.read_bytes() == damaged


def test_an_incomplete_last_line_of_the_ledger_is_removed_and_its_run_counts_as_lost(repository):
    run_all(repository)
    path = study(repository) / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    done = run_all(repository)
    assert done.returncode == 0 and "ledger.jsonl:6: removed an incomplete line" in done.stderr
    assert ledger(repository)[-1]["outcome"] == "lost" and len(ledger(repository)) == 6


# ----------------------------------------------------------------------------------- the surroundings


def test_a_ledger_on_a_full_disk_names_its_file_and_keeps_whole_lines(tmp_path):
    """The limit of file sizes is a real one; /dev/full refuses every byte."""
    code = ("import pathlib, resource, signal, sys, reservations\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "ledger = reservations.Ledger(pathlib.Path(sys.argv[1]))\n"
            "ledger.start('baseline_s1', None)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
            "ledger.start('baseline_s2', None)")
    path = tmp_path / "ledger.jsonl"
    done = subprocess.run([sys.executable, "-c", code, path], cwd=tiny_study.ROOT, capture_output=True, text=True)
    assert f"InputError: {path}: File too large; make room" in done.stderr
    assert len(path.read_text().splitlines()) == 1 and path.read_bytes().endswith(b"\n")


def test_a_file_system_without_locks_is_named_with_a_way_on(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(InputError, match=r"\.lock: this file system cannot lock files .*--runs"):
        surroundings.lock(tmp_path / ".lock")


def test_a_pods_rank_variables_do_not_reach_the_runs(repository):
    done = tiny_study.run_all(repository, "--device", "cpu", env={"WORLD_SIZE": "2", "RANK": "0"})
    assert done.returncode == 0, done.stderr
    assert [attempts(repository, run)[0]["ranks"] for run in RUNS] == [[], [], []]


def test_the_lines_of_runs_side_by_side_stay_whole_and_name_their_run(repository):
    behave(repository, **dict.fromkeys(RUNS, "talk"))
    done = tiny_study.run_all(repository, "--device", "cpu", "--jobs", "3")
    assert done.returncode == 0, done.stderr
    for run in RUNS:
        expected = [f"{run}: line {number}" for number in range(50)] + [f"{run}: an end without a newline"]
        assert [line for line in done.stderr.splitlines() if line.startswith(f"{run}:")] == expected
        assert (study(repository) / run / "train.log").read_text().count("line") == 51
