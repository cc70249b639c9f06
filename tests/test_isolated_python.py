"""Scripts find the modules beside them where Python is told not to look there: -I, or PYTHONSAFEPATH=1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from surroundings import child_environment

ROOT = Path(__file__).resolve().parents[1]
# train.py is as the frozen runs have it, and is started by scripts that see to this.
SCRIPTS = [path for path in sorted(ROOT.glob("*.py")) if "__main__" in path.read_text() and path.name != "train.py"]
WAYS = [("-I", {}), ("-B", {"PYTHONSAFEPATH": "1"})]


def run(way, script, *arguments):
    """The finished process of a script, run from elsewhere."""
    option, settings = way
    command = [sys.executable, option, "-B", script, *arguments]
    return subprocess.run(command, env=os.environ | settings, cwd="/", capture_output=True, text=True)


def test_there_are_scripts_to_try():
    assert {"verify_all.py", "check_manifests.py", "fetch_supplement.py"} < {path.name for path in SCRIPTS}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_at_the_top_starts(way, script):
    done = run(way, script, "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: ") and done.stderr == ""


@pytest.mark.parametrize("way", WAYS)
def test_a_check_of_the_frozen_files_runs_to_its_end(way):
    done = run(way, ROOT / "check_manifests.py")
    assert done.returncode == 0 and done.stdout.endswith(" checks, 0 failed\n")


def test_a_run_finds_the_modules_beside_its_trainer(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    (tmp_path / "beside.py").write_text("word = 'found'\n")
    (tmp_path / "train.py").write_text("import beside; print(beside.word)\n")
    environment = child_environment()
    done = subprocess.run([sys.executable, tmp_path / "train.py"], env=environment, capture_output=True, text=True)
    assert done.stdout == "found\n", done.stderr
