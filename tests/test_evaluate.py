"""The further scores run in their order in processes of their own; a line says what is left out; the first failure ends
them with its code; a signal reaches the step and leaves none behind. The processes are real; the steps are stubs that
record how they were called, except in one test with the real scripts on the tiny study."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from evidence import read_json, write_json
from research import evaluate
from research.saved_runs import run_names
from tiny import repository as tiny_study
from tiny.repository import ROOT, wait_for

SCORING = ("audit_checkpoints", "score_confirmation", "score_windows")
FROZEN, CHECKED, CONFIRMED = ["exclude_duplicates", "freeze_protocol"], ["audit_checkpoints"], ["score_confirmation"]
WINDOWS, RANKED = ["select_windows", "score_windows", "analyse_windows"], ["rank_prefixes"]
ALL = FROZEN + CHECKED + CONFIRMED + WINDOWS + WINDOWS + RANKED
NOTHING_CONFIRMED = "left out: this study reserves no documents for confirmation"

# Notes its call in calls.jsonl of --root, then does what behaviour.json there says of it.
STEP = '''
import json, os, signal, sys, time
from pathlib import Path
here, root = Path(__file__), Path(sys.argv[sys.argv.index("--root") + 1])
with open(root / "calls.jsonl", "a") as file:
    file.write(json.dumps([here.stem, sys.argv[1:], sys.executable]) + "\\n")
print(f"{here.stem} at work", flush=True)
behaviour = json.loads((root / "behaviour.json").read_text()).get(here.stem, 0)
if behaviour == "wait":
    def note(number, frame):
        print(f"got {number}", flush=True)
        time.sleep(0.3)
        os._exit(5)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, note)
    (root / "waiting").write_text(str(os.getpid()))
    time.sleep(60)
elif behaviour == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(behaviour)
'''


@pytest.fixture
def repository(tmp_path):
    """evaluate.py and what it imports, stubs in place of its steps, and finished runs of `demo` and `wheels`."""
    for name in ("devices", "evidence", "files", "manifest", "surroundings"):
        shutil.copy(ROOT / f"{name}.py", tmp_path)
    shutil.copytree(ROOT / "protocols", tmp_path / "protocols")
    for script, _ in evaluate.list_steps(ROOT / "protocols/evaluation_wheels.json", [])[0]:
        (tmp_path / "research" / script).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "research" / script).write_text(STEP)
    for name in ("evaluate.py", "saved_runs.py"):
        shutil.copy(ROOT / "research" / name, tmp_path / "research")
    finish_runs(tmp_path)
    behave(tmp_path)
    return tmp_path


def finish_runs(root):
    """The files by which a prepared and trained study is known."""
    for study in ("demo", "wheels"):
        names = [f"{name}/result.json" for name in run_names(read_json(ROOT / f"protocols/{study}.json"))]
        for path in (f"data/{study}/prepared.json", *(f"runs/{study}/{name}" for name in ("runs.sha256", *names))):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()


def behave(repository, **behaviour):
    write_json(repository / "behaviour.json", behaviour)


def run(repository, *arguments):
    """The finished evaluate.py; its output is buffered, as it is by default into a pipe."""
    return tiny_study.run(repository, "research/evaluate.py", *arguments, env={"PYTHONUNBUFFERED": ""})


def start(repository, *launcher):
    command = tiny_study.command(repository, "research/evaluate.py", "--study", "wheels", "--device", "cpu")
    return subprocess.Popen([*launcher, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def calls(repository):
    """[[step, its arguments, its interpreter]] in the order in which the steps ran."""
    path = repository / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def names(repository):
    return [name for name, _, _ in calls(repository)]


def test_every_step_runs_once_in_order_under_the_same_interpreter_with_its_arguments(repository):
    done = run(repository, "--study", "wheels", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert names(repository) == ALL
    populations = iter(["development"] * 3 + ["confirmation"] * 3)
    for name, arguments, interpreter in calls(repository):
        expected = ["--study", "wheels", "--root", str(repository)]
        expected += ["--population", next(populations)] if name in WINDOWS else []
        assert arguments == expected + (["--device", "cpu"] if name in SCORING else [])
        assert interpreter == sys.executable
    assert "left out" not in done.stdout


def test_every_step_is_printed_before_it_starts_and_the_last_line_says_where_results_are(repository):
    lines = list(filter(None, run(repository, "--study", "wheels", "--device", "cpu").stdout.splitlines()))
    assert lines[1:-1:2] == [f"{name} at work" for name in ALL]
    assert all(f"/{name}.py --study wheels" in line and line.startswith(f"step {number} of {len(ALL)}: ")
               for number, (line, name) in enumerate(zip(lines[:-1:2], ALL), 1))
    assert lines[-1].endswith(f"{repository}/runs/wheels/report, {repository}/runs/wheels/windows")


def test_another_root_has_its_own_protocols_and_gets_the_results(repository, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(repository / "protocols", other / "protocols")
    finish_runs(other)
    behave(other)
    assert run(repository, "--study", "demo", "--device", "cpu", "--root", other).returncode == 0
    assert names(other) == CHECKED + WINDOWS + RANKED and not calls(repository)


def test_a_study_without_a_confirmation_has_the_rest_scored_and_it_is_said(repository):
    done = run(repository, "--study", "demo", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert names(repository) == CHECKED + WINDOWS + RANKED
    assert done.stdout.splitlines()[:2] == [
        NOTHING_CONFIRMED, "left out: this study has no source windows of its confirmation documents"]


@pytest.mark.parametrize("population", ["development", "confirmation"])
def test_a_population_that_is_null_has_no_windows_and_the_other_has(repository, population):
    path = repository / "protocols/evaluation_wheels.json"
    protocol = read_json(path)
    protocol["source_windows"]["populations"][population] = None
    write_json(path, protocol)
    done = run(repository, "--study", "wheels", "--device", "cpu")
    assert done.returncode == 0 and names(repository) == FROZEN + CHECKED + CONFIRMED + WINDOWS + RANKED
    scored, = {arguments[arguments.index("--population") + 1] for _, arguments, _ in calls(repository)
               if "--population" in arguments}
    assert scored != population and f"windows of its {population} documents" in done.stdout


@pytest.mark.parametrize("behaviour, code", [(1, 1), (2, 2), (7, 7), ("die", 128 + signal.SIGKILL)])
@pytest.mark.parametrize("step", ["exclude_duplicates", "score_confirmation", "rank_prefixes"])
def test_the_first_failure_ends_it_with_its_code_and_its_name(repository, step, behaviour, code):
    behave(repository, **{step: behaviour})
    done = run(repository, "--study", "wheels", "--device", "cpu")
    assert done.returncode == code and names(repository) == ALL[: ALL.index(step) + 1]
    assert f"/{step}.py: exit {code}" in done.stderr and "results:" not in done.stdout


@pytest.mark.parametrize("arguments, reason", [
    (("--study", "wheels"), "name one device"),
    (("--study", "wheels", "--gpu", ""), "name one device"),
    (("--study", "wheels", "--gpu", "0", "--device", "cpu"), "name one device"),
    (("--study", "absent", "--device", "cpu"), "protocols/absent.json"),
    (("--study", "climbmix", "--device", "cpu"), "data/climbmix/prepared.json"),
])
def test_nothing_starts_without_a_device_and_a_protocol(repository, arguments, reason):
    done = run(repository, *arguments)
    assert done.returncode == 2 and reason in done.stderr and not calls(repository)


def test_every_missing_file_is_named_with_the_way_to_make_it(repository):
    missing = ["protocols/evaluation_demo.json", "data/demo/prepared.json", "runs/demo/segmented_s44/result.json"]
    for name in missing:
        (repository / name).unlink()
    done = run(repository, "--study", "demo", "--device", "cpu")
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and not calls(repository) and len(lines) == 1 + len(missing)
    for name, how in zip(missing, ("evaluation_demo.json", "make prepare", "make run-all"), strict=True):
        assert any(f"{repository / name}: missing" in line and how in line for line in lines)


@pytest.mark.parametrize("section", ["confirmation", "source_windows"])
def test_a_protocol_that_lacks_a_section_is_refused_before_anything_starts(repository, section):
    path = repository / "protocols/evaluation_wheels.json"
    write_json(path, {key: value for key, value in read_json(path).items() if key != section})
    done = run(repository, "--study", "wheels", "--device", "cpu")
    assert done.returncode == 2 and f"missing key {section}" in done.stderr and not calls(repository)


def test_the_named_gpu_goes_to_the_scoring_steps_alone():
    steps, _ = evaluate.list_steps(ROOT / "protocols/evaluation_climbmix.json", ["--gpu", "GPU-1"])
    assert len(steps) == len(ALL)
    for script, arguments in steps:
        scoring = script.split("/")[1].removesuffix(".py") in SCORING
        assert (arguments[-2:] == ["--gpu", "GPU-1"]) == scoring and ("--gpu" in arguments) == scoring


# ------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["to it alone", "to its group, as Ctrl-C"])
def test_a_signal_reaches_the_step_once_and_is_waited_for(repository, number, send):
    behave(repository, audit_checkpoints="wait")
    runner = start(repository)
    step = int(wait_for(repository / "waiting"))
    assert os.getpgid(step) != os.getpgid(runner.pid)  # two signals at once may be seen as one
    send(runner.pid, number)
    printed, errors = runner.communicate(timeout=60)
    assert runner.returncode == 128 + number and f"audit_checkpoints.py: stopped by signal {int(number)}" in errors
    assert printed.count("got ") == printed.count(f"got {int(number)}\n") == 1
    with pytest.raises(ProcessLookupError):
        os.kill(step, 0)
    assert names(repository)[-1] == "audit_checkpoints"


def test_under_nohup_it_outlives_its_terminal(repository):
    behave(repository, audit_checkpoints="wait")
    runner = start(repository, "nohup")
    wait_for(repository / "waiting")
    runner.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        runner.wait(timeout=0.5)
    runner.send_signal(signal.SIGTERM)
    runner.communicate(timeout=60)
    assert runner.returncode == 128 + signal.SIGTERM


# --------------------------------------------------------------------------------------- real scripts


@pytest.mark.slow
def test_the_real_scripts_score_a_study_without_confirmation_and_a_second_time_say_the_same(trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "protocols/evaluation_tiny.json"
    protocol = read_json(path) | {"confirmation": None}
    protocol["source_windows"]["populations"]["confirmation"] = None
    write_json(path, protocol)
    command = tiny_study.command(ROOT, "research/evaluate.py", "--study", "tiny", "--device", "cpu", "--root", tmp_path)
    done = [subprocess.run(command, capture_output=True, text=True, timeout=300) for _ in range(2)]
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    assert NOTHING_CONFIRMED in done[0].stdout and "6 checks, 0 failed" in done[0].stdout
    assert [one.stdout.count("scored before") for one in done] == [0, 6]
    made = {file.relative_to(tmp_path / "runs/tiny").as_posix() for file in tmp_path.rglob("runs/tiny/*/**/*.json")}
    assert {"report/checkpoints.json", "report/rankings.json", "windows/development/windows.json"} <= made
