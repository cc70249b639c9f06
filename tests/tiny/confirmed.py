"""The small study taken to its confirmation: two trained runs, and reserved documents of which some are copies."""

import contextlib
import importlib
import io
import subprocess
import sys

import evidence
from tiny import runs as tiny_runs
from tiny.corpus import CONTEXT, ROOT
from tiny.corpus import protocol as tiny_protocol

STUDY, RESERVED = "tiny", (32, 60)
RUNS = ("baseline_s43", "segmented_s43")


def protocol():
    """The small study with two runs, a small buffer and a short official score, so that documents are left over."""
    tiny = tiny_protocol()
    tiny["seeds"], tiny["conditions"] = [43], {"baseline": "best_fit_crop", "segmented": "segment_first"}
    tiny["packing"]["buffer_size"] = 8
    tiny["evaluation"] = {"targets": 6 * CONTEXT, "microbatch": 4}
    return tiny


def build(root):
    """Train the runs below `root`, with corpus and protocols laid out as in a repository."""
    runs = tiny_runs.build(root, protocol())
    for name in RUNS:
        tiny_runs.train(runs / name)
    evidence.write_json(root / "protocols/evaluation_tiny.json",
                        {"confirmation": {"documents": list(RESERVED), "targets": 6 * CONTEXT}})
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
