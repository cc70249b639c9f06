"""The small study's run directories: the real generator, loaders and trainer, and a model that trains in seconds."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import evidence
import generate_runs
from tiny.corpus import ROOT, protocol, write_corpus
from tiny.windows import EVALUATION


def build(root, settings=None):
    """Lay out protocols/, data/tiny and runs/tiny below `root`, of other settings if given; return root/runs/tiny."""
    path = root / "protocols/tiny.json"
    evidence.write_json(path, settings or protocol())
    write_corpus(root / "data", "tiny")
    assert generate_runs.main([str(path), "--runs", str(root / "runs"), "--data", str(root / "data")]) == 0
    return root / "runs/tiny"


def command(run, *launcher):
    """The command line that trains a run directory, under a launcher such as torchrun if one is given."""
    return [sys.executable, *launcher, str(run / "train.py"), str(run / "config.json"), "--device", "cpu"]


def train(run, *launcher, check=True):
    """The finished trainer process of a run directory."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command(run, *launcher), capture_output=True, text=True, timeout=900, env=environment)
    assert not check or done.returncode == 0, done.stderr
    return done


# Imports torch once for all runs, each of which brings the trainer's code of its own.
TRAIN_ALL = """
import sys
from pathlib import Path
import torch
from research.saved_runs import own_trainer

for run in map(Path, sys.argv[1:]):
    trainer = own_trainer(run)
    sys.path.insert(0, str(run))
    sys.modules.pop("loader", None)
    trainer.run(run / "config.json", torch.device("cpu"))
    sys.path.remove(str(run))
"""


def build_trained(root):
    """Lay out the small study below `root` with all six runs trained; return `root`."""
    runs = sorted(path.parent for path in build(root).glob("*/config.json"))
    evidence.write_json(root / "protocols/evaluation_tiny.json", EVALUATION)
    done = subprocess.run([sys.executable, "-c", TRAIN_ALL, *map(str, runs)], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="session")
def trained(tmp_path_factory, request):
    """The small study with its six runs trained once for all tests and processes; tests change only copies of it."""
    shared = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        shared = shared.parent
    with open(shared / "trained.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "trained/done").exists():
            build_trained(shared / "trained")
            (shared / "trained/done").touch()
    return shared / "trained"


def result(run):
    return evidence.read_json(run / "result.json")


def losses(run):
    """The loss of every update in metrics.jsonl, which must number them 1, 2, 3, ..."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == list(range(1, len(lines) + 1))
    return [line["loss"] for line in lines]


def kill_after(run, lines):
    """Start training, SIGKILL it once metrics.jsonl has that many lines (0: before the first update); its status."""
    process = subprocess.Popen(command(run), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    metrics, deadline = run / "metrics.jsonl", time.monotonic() + 600
    while (metrics.read_bytes().count(b"\n") if metrics.exists() else -1) < lines and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    return process.wait()
