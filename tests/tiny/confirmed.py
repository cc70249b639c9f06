"""A tiny study taken to its confirmation: trained runs, shards with planted duplicates, reserved documents.

Tokens and texts are seeded apart: duplicates are sought in the texts, scores are of the tokens.
"""

import contextlib
import importlib
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import evidence
from tiny import runs as tiny_runs

ROOT = Path(__file__).resolve().parents[2]

STUDY, CONTEXT = "tiny", tiny_runs.CONTEXT
TRAIN, VALIDATION, RESERVED = 90, 60, (32, 60)
COPIED = {33: ("train", 70), 48: ("validation", 5), 51: ("train", 2)}  # reserved document: what it is a copy of
RUNS = ("baseline_s43", "segmented_s43")


def protocol(**training):
    """The tiny protocol with two runs, a small buffer and a short official score, so that documents are left over."""
    tiny = PROTOCOL(**training)
    tiny["seeds"] = [43]
    tiny["packing"]["buffer_size"] = 8
    tiny["evaluation"] = {"targets": 6 * CONTEXT, "microbatch": 4}
    return tiny


PROTOCOL = tiny_runs.protocol


def write_shards(data, settings):
    """Parquet shards of unique texts but for COPIED; the last reserved document repeats the one before it."""
    texts = {split: [f"{split} {number} é" for number in range(count)]
             for split, count in (("train", TRAIN), ("validation", VALIDATION))}
    for document, (split, source) in COPIED.items():
        texts["validation"][document] = texts[split][source]
    texts["validation"][59] = texts["validation"][58]
    texts["train"][71] = texts["train"][70]
    shards = np.array_split(np.arange(TRAIN), len(settings["train_shards"]))
    parts = {name: [("train", number) for number in numbers.tolist()]
             for name, numbers in zip(settings["train_shards"], shards, strict=True)}
    parts[settings["validation_shard"]] = [("validation", number) for number in range(VALIDATION)]
    for name, documents in parts.items():
        table = pa.table({"text": [texts[split][number] for split, number in documents],
                          "name": [f"{split}/{number}.txt" for split, number in documents]})
        (data / "corpus").mkdir(exist_ok=True)
        pq.write_table(table, data / "corpus" / name, row_group_size=13)


def build(root, monkeypatch):
    """Runs of `tiny` trained below `root`, and its corpus and protocols laid out as in a repository."""
    monkeypatch.setattr(tiny_runs, "protocol", protocol)
    runs = tiny_runs.build(root, {"baseline": "best_fit_crop", "segmented": "segment_first"})
    for name in RUNS:
        tiny_runs.train(runs / name)
    (root / "protocols").mkdir()
    (root / "tiny.json").rename(root / "protocols/tiny.json")
    evidence.write_json(root / "protocols/evaluation_tiny.json",
                        {"confirmation": {"documents": list(RESERVED), "targets": 6 * CONTEXT}})
    data = root / "data/tiny"
    corpus = evidence.read_json(root / "protocols/tiny.json")["corpus"]
    write_shards(data, corpus)
    tiny_runs.list_prepared(data, corpus=corpus)
    return root


def script(root, name, *arguments):
    """(exit code, stdout, stderr) of a scoring script in a process of its own: it imports the runs' trainers."""
    folder = "matched_training" if name == "audit_checkpoints" else "confirmation"
    path = ROOT / "research" / folder / f"{name}.py"
    command = [sys.executable, str(path), *options(root), "--device", "cpu", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def options(root):
    return ["--study", STUDY, "--root", str(root)]


def confirm(root):
    """The whole way, in its order; what every script printed."""
    printed = {}
    for name, *arguments in (("exclude_duplicates",), ("freeze_protocol",), ("audit_checkpoints", "--freeze"),
                             ("score_confirmation", "--freeze"), ("verify_confirmation",)):
        if name in ("audit_checkpoints", "score_confirmation"):
            code, printed[name], errors = script(root, name, *arguments)
            assert code == 0, (name, printed[name], errors)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            module = importlib.import_module(f"research.confirmation.{name}")
            assert module.main(options(root)) == 0, (name, stream.getvalue())
        printed[name] = stream.getvalue()
    return printed
