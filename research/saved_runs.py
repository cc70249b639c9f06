"""The finished runs of a study: their files, and their models, each scored by the trainer of its own run directory."""

import importlib
import sys

from evidence import InputError, parse_json, read_json, require, sha256_file
from protocols.schema import protocol_runs

TOLERANCE = 0.02  # bits per byte by which scores of the same run may differ, because machines round sums differently
TRAINER = ("train", "run_directory", "checkpoint", "captures", "scoring", "loaders")  # a run directory has its own
FILES = ("config.json", "result.json", "evaluation_rows.npy", "model.safetensors")


def run_names(protocol):
    """Return the names of a protocol's runs, in its order."""
    return list(protocol_runs(protocol))


def read_metrics(run):
    """Return the lines of a run's metrics.jsonl; InputError unless line i is the record of update i."""
    path = run / "metrics.jsonl"
    require(path.exists(), path, f"missing; finish the run with: python run_all.py --study {run.parent.name}")
    lines = [parse_json(line, f"{path}:{number}") for number, line in enumerate(path.read_bytes().splitlines(), 1)]
    for number, line in enumerate(lines, 1):
        found = line.get("update") if isinstance(line, dict) else line
        require(found == number, f"{path}:{number}: update", f"expected {number}, found {found!r}; train the run again")
    return lines


def file_digests(run):
    """Return {file: SHA-256} of the files that a finished run keeps; InputError names the first that is missing."""
    missing = [run / name for name in FILES if not (run / name).exists()]
    if missing:
        raise InputError(f"{missing[0]}: missing; finish the run with: python run_all.py --study {run.parent.name}")
    return {name: sha256_file(run / name) for name in FILES}


def changes(run):
    """Return a line for each file of a finished run whose SHA-256 is not the one in its result.

    Code that the result does not name is such a file too. Nothing of the run is imported.
    """
    run, files = run.resolve(), file_digests(run)
    digests = read_json(run / "result.json")["digests"]
    code = {path.relative_to(run).as_posix(): sha256_file(path) for path in run.rglob("*.py")}
    pairs = {"config.json": (digests["config"], files["config.json"])}
    pairs |= {name: (digests[name], files[name]) for name in ("model.safetensors", "evaluation_rows.npy")}
    pairs |= {name: (digests["code"].get(name), code.get(name)) for name in {*digests["code"], *code}}
    return [f"{name}: SHA-256 {expected} in result.json, found {found}"
            for name, (expected, found) in sorted(pairs.items()) if expected != found]


def require_unchanged(run):
    """InputError when a file of a finished run is not the one that its result names."""
    for change in changes(run):
        raise InputError(f"{run}: changed since it was trained: {change}")


def own_trainer(run):
    """Import and return train.py of a run directory with what lies beside it, in place of any imported before.

    The modules stay in sys.modules, where torch.compile looks functions up, so a process scores one run at a time.
    """
    for name in [name for name in sys.modules if name.split(".")[0] in TRAINER]:
        del sys.modules[name]
    sys.path.insert(0, str(run))
    try:
        return importlib.import_module("train")
    finally:
        sys.path.remove(str(run))


def device_facts(device):
    """Return the facts on which the arithmetic of a score depends."""
    import numpy as np
    import torch

    name = torch.cuda.get_device_name(device) if device == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__, "numpy": np.__version__}


class SavedRun:
    """A finished run: its result, its config and data, checked by SHA-256, its trainer and, on demand, its model."""

    def __init__(self, run, device):
        import torch

        run = run.resolve()
        self.files = file_digests(run)
        self.name, self.path, self.device = run.name, run, torch.device(device)
        self.result = read_json(run / "result.json")
        self.train = own_trainer(run)
        self.ranks = self.train.Ranks(self.device)
        self.scoring = sys.modules["scoring"]  # the run's own, which its train.py imports
        self.directory = self.train.RunDirectory(run / "config.json", self.device, self.ranks)
        self.config, self.data = self.directory.config, self.directory.data

    def forward(self):
        """Return the saved model, made ready as the trainer made it ready to score."""
        import torch
        from safetensors.torch import load_file

        torch.set_num_threads(self.config["training"]["threads"])
        torch.use_deterministic_algorithms(self.device.type == "cpu")
        model, _ = self.train.prepare_model(self.config, self.device)
        model.load_state_dict(load_file(self.path / "model.safetensors"))
        return self.train.DeviceModel(model, self.config["training"], self.device)

    def score(self, forward, reader):
        """Return row statistics float64 (rows, 4) of `forward` over a RowReader, by the trainer's official score."""
        import numpy as np

        tables = [np.load(self.data / f"tokenizer/bytes_{name}.npy") for name in ("supplied", "raw")]
        microbatch, label = self.config["evaluation"]["microbatch"], f"{self.name}: scoring"
        return self.scoring.score(forward, reader, microbatch, tables, self.ranks, label)
