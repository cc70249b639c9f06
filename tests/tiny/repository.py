"""A repository in miniature, in a folder of the test's own: real generator and runner, a stub trainer and loaders.

A test file that wants the runs generated imports the fixtures `repository` and `template`.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evidence import canonical_json, sha256_file, write_json

ROOT = Path(__file__).resolve().parents[2]
RUNS = ["baseline_s1", "random_crop_s1", "segmented_s1"]  # of the fixture `repository`
SCRIPTS = ("generate_runs.py", "run_all.py", "reservations.py", "devices.py", "evidence.py", "files.py", "manifest.py",
           "surroundings.py", "protocols/schema.py", "protocols/shapes.py", "protocols/run_files.py",
           "corpora/prepared.py")

LOADERS = {
    "accounting": "ROW = 0\n",
    "rows": "def build_rows():\n    return []\n",
    "best_fit_crop": "from loaders.accounting import ROW\n\nLOADER = 'crop', ROW\n",
    "random_span": "from loaders.best_fit_crop import LOADER as crop\n\nLOADER = 'span', crop\n",
    "segment_first": "from loaders import accounting, best_fit_crop\n\nLOADER = best_fit_crop.LOADER, accounting.ROW\n",
    "lossless": "LOADER = 'lossless'\n",
}

# Does what behaviour.json beside the run directory says of this run, and notes each attempt.
TRAINER = '''
import hashlib, json, os, sys, time
from pathlib import Path
import evidence, loaders.rows
here = Path(__file__).resolve().parent
script = here.parent / "behaviour.json"
behaviour = json.loads(script.read_text()).get(here.name) if script.exists() else None
note = {"arguments": sys.argv[1:], "visible": os.environ["CUDA_VISIBLE_DEVICES"], "cwd": os.getcwd(),
        "resumed": (here / "checkpoint").exists(),
        "ranks": [name for name in ("WORLD_SIZE", "RANK") if name in os.environ]}
with open(here / "attempts.jsonl", "a") as file:
    file.write(json.dumps(note) + "\\n")
(here / "checkpoint").write_text("saved")
if behaviour == "fail":
    sys.exit(3)
if behaviour == "talk":
    for number in range(50):
        print("line", number, file=sys.stderr, flush=True)
    print("an end without a newline", end="", file=sys.stderr)
if behaviour == "wait":
    (here / "waiting").write_text(str(os.getpid()))
    deadline = time.monotonic() + 60
    while not (here / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
code = {path.relative_to(here).as_posix(): digest(path) for path in here.rglob("*.py")}
config = "0" * 64 if behaviour == "other config" else digest(Path(sys.argv[1]))
if behaviour != "no result":
    (here / "result.json").write_text(json.dumps({"score": 1.0, "digests": {"config": config, "code": code}}))
'''


def prepare(root, protocol):
    """A data directory as prepare.py writes it, with empty arrays."""
    data = root / "data" / protocol["study"]
    names = protocol["tokenizer"]["specials"]
    first = protocol["tokenizer"]["vocabulary"] - len(names)
    write_json(data / "tokenizer/tokenizer.json", {
        "vocabulary": protocol["tokenizer"]["vocabulary"], "pattern": protocol["tokenizer"]["pattern"],
        "specials": {name: first + i for i, name in enumerate(names)}, "bos": first,
    })
    files = ["corpus/shard_00000.parquet",
             *(f"tokenizer/{name}" for name in ("ranks.txt", "bytes_supplied.npy", "bytes_raw.npy")),
             *(f"{split}/{name}.npy" for split in ("train", "validation") for name in ("tokens", "lengths", "refill"))]
    for name in files:
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(name.encode())
    digests = {name: sha256_file(data / name) for name in [*files, "tokenizer/tokenizer.json"]}
    write_json(data / "prepared.json", {"files": digests})


def copy_scripts(root):
    """Copy the real scripts below `root`, and the modules that they import."""
    for name in SCRIPTS:
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)


def build(root, **changes):
    """A prepared miniature repository; `changes` replace keys of the demo protocol. Returns the protocol."""
    copy_scripts(root)
    (root / "train.py").write_text(TRAINER)
    (root / "loaders").mkdir()
    for name, text in LOADERS.items():
        (root / "loaders" / f"{name}.py").write_text(text)
    protocol = json.loads((ROOT / "protocols/demo.json").read_bytes()) | changes
    (root / "protocols/demo.json").write_bytes(canonical_json(protocol))
    prepare(root, protocol)
    return protocol


def command(root, script, *arguments):
    return [sys.executable, str(root / script), *map(str, arguments)]


def run(root, script, *arguments, env=None):
    """The finished process of a script of the miniature repository; `env` is added to the environment."""
    clean = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(command(root, script, *arguments), capture_output=True, text=True, timeout=60,
                          env=clean | (env or {}))


def generate(root):
    return run(root, "generate_runs.py", root / "protocols/demo.json")


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("template")
    build(root, seeds=[1])
    done = generate(root)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def repository(template, tmp_path):
    """A miniature repository with three generated runs, none of them started."""
    return shutil.copytree(template, tmp_path / "repository")


def run_all(root, *arguments, env=None):
    return run(root, "run_all.py", "--study", "demo", *arguments, env=env)


def _lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def attempts(root, run):
    """The stub trainer's notes of its attempts at a run."""
    return _lines(root / "runs/demo" / run / "attempts.jsonl")


def ledger(root):
    return _lines(root / "runs/demo/ledger.jsonl")


def nothing_ran(root):
    return not ledger(root) and not list(root.glob("runs/demo/*/attempts.jsonl"))


def tree(directory):
    """{relative path: bytes} of all files."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def wait_for(path):
    """The text of a file that another process is about to write."""
    deadline = time.monotonic() + 60
    while not (path.is_file() and path.read_text()):
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.01)
    return path.read_text()
