"""A tiny prepared corpus and its generated run directories: the real generator, loaders and trainer on a small model.

The text is seeded noise with skewed lengths, some longer than a row; the model trains for seconds.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import evidence
import generate_runs

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY, CONTEXT, UPDATES = 300, 32, 12
SPECIALS = [f"<|reserved_{i}|>" for i in range(4)]


def protocol(**training):
    """The demo's protocol at toy size; keyword arguments replace keys of its `training` section."""
    tiny = evidence.read_json(ROOT / "protocols/demo.json")
    tiny["study"], tiny["seeds"] = "tiny", [43, 44]
    tiny["tokenizer"]["vocabulary"] = VOCABULARY
    tiny["packing"].update(context=CONTEXT, buffer_size=20, refill_batch=8)
    tiny["model"].update(layers=3, width=32, heads=2, gate_channels=8)
    tiny["training"].update(updates=UPDATES, microbatch=2, accumulation=2, checkpoint_every=3, threads=1)
    tiny["training"]["logit_chunk"] = 50
    tiny["training"].update(training)
    tiny["evaluation"] = {"targets": 24 * CONTEXT, "microbatch": 5}
    tiny["audit"]["strata"] = [8, CONTEXT + 1, 100]
    return tiny


def write_corpus(directory, study):
    """data/<study>/ as prepare.py lays it out: skewed lengths, an empty document, specials without bytes."""
    random, data, bos = np.random.default_rng(7), directory / study, VOCABULARY - len(SPECIALS)
    arrays = {}
    for split, documents in {"train": 90, "validation": 60}.items():
        lengths = np.maximum(1, random.lognormal(2.8, 1.0, documents)).astype(np.int64)
        lengths[3] = 1
        arrays[f"{split}/lengths"] = lengths
        arrays[f"{split}/tokens"] = random.integers(0, bos, int(lengths.sum()) - documents).astype(np.uint16)
        arrays[f"{split}/refill"] = np.array([8] * (documents // 8) + [documents % 8], dtype=np.int64)
    supplied = random.integers(1, 9, VOCABULARY).astype(np.int32)
    supplied[bos:] = 0
    arrays["tokenizer/bytes_supplied"] = supplied
    arrays["tokenizer/bytes_raw"] = np.maximum(supplied - 1, 1) * (supplied > 0)
    for name, array in arrays.items():
        path = data / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array)
    pattern = protocol()["tokenizer"]["pattern"]
    specials = {name: bos + i for i, name in enumerate(SPECIALS)}
    evidence.write_json(data / "tokenizer/tokenizer.json",
                        {"vocabulary": VOCABULARY, "pattern": pattern, "specials": specials, "bos": bos})
    (data / "tokenizer/ranks.txt").write_text("AA== 0\n")
    list_prepared(data)


def list_prepared(data, **facts):
    """prepared.json of the files that lie in a study's data directory now."""
    files = {p.relative_to(data).as_posix(): evidence.sha256_file(p) for p in sorted(data.rglob("*"))
             if p.is_file() and p != data / "prepared.json"}
    evidence.write_json(data / "prepared.json", {**facts, "files": files})


def build(root, conditions=None, sections=None, **training):
    """Write corpus and run directories below `root`; return root/runs/tiny.

    conditions: {name: loader}, those of the demo by default; sections: what replaces or adds to the protocol.
    """
    path, tiny = root / "tiny.json", protocol(**training)
    evidence.write_json(path, {**tiny, "conditions": conditions or tiny["conditions"], **(sections or {})})
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
