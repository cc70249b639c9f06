"""The small study's run directories: the real generator, loaders and trainer, and a model that trains in seconds."""

import json
import os
import signal
import subprocess
import sys
import time

import evidence
import generate_runs
from tiny.corpus import protocol, write_corpus


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
