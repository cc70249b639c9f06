"""The files of one run and the processes that share it: config, checkpoint, journals, result, ranks, progress lines.

train.py imports this module, and every run directory has a copy beside its train.py. The files of a run directory:

config.json             the complete settings, which generate_runs.py writes
metrics.jsonl           one line an update: update, loss (nats a target), rate_scale, targets, seconds since the start
captures.jsonl          where the config asks for captures, one line for each of the first updates
checkpoint.safetensors  weights, moments and progress: the point from which the run resumes, with its own SHA-256
model.safetensors, evaluation_rows.npy, result.json     the final weights, the scored rows, and, last of all, the result
"""

import importlib
import io
import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from tqdm import tqdm

import evidence
import surroundings
from checkpoint import Progress, live_tensors, load_checkpoint, save_checkpoint
from evidence import InputError
from loaders.edits import apply_edits

CONFIG_KEYS = (
    "study", "condition", "seed", "loader", "protocol_sha256", "data", "bos", "vocabulary",
    "packing", "model", "optimizer", "training", "evaluation",
)
OPTIONAL_KEYS = ("captures", "edits")  # absent from the configs of studies that do without them
BUCKET = 64 << 20  # bytes of gradients that ranks sum at once

# ---------------------------------------------------------------------------------- device and ranks


def own_device(kind):
    """Return the torch device of this process: the CPU, or the GPU of its rank, which becomes the current one."""
    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", surroundings.rank().local)
    torch.cuda.set_device(device)
    return device


def device_name(device):
    """Return the name of the device as it is recorded: "cpu", or the GPU's model."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def peak_bytes(device):
    """Return the peak memory: allocated on the GPU, or resident in this process on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts ru_maxrss in KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Ranks:
    """The processes that torchrun started, seen from one of them; a process without torchrun is alone."""

    def __init__(self, device):
        self.count, self.rank, _ = surroundings.rank()
        if self.count > 1 and not dist.is_initialized():
            # Torch imports this module lazily. A function in it would keep the group alive after close(), and gloo's
            # threads would then outlive the group and abort the process when Python ends.
            importlib.import_module("torch.distributed.nn")
            if device.type == "cuda":
                dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
            else:
                dist.init_process_group("gloo")

    def sum(self, tensor):
        """Sum a tensor over ranks in place and return it."""
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def sum_gradients(self, weights):
        """Sum the gradients of `weights` over ranks in place, many tensors at a time."""
        if self.count == 1:
            return
        for bucket in _buckets([weight.grad for weight in weights]):
            flat = self.sum(_flatten_dense_tensors(bucket))
            torch._foreach_copy_(bucket, list(_unflatten_dense_tensors(flat, bucket)))

    def deal(self, items):
        """Return this rank's share of a list: every count-th item."""
        return items[self.rank :: self.count]

    def collect(self, share):
        """Return the whole list in its first order from the shares of all ranks."""
        if self.count == 1:
            return share
        shares = [None] * self.count
        dist.all_gather_object(shares, share)
        return [shares[i % self.count][i // self.count] for i in range(sum(map(len, shares)))]

    def close(self):
        """End the group and its threads."""
        if self.count > 1:
            dist.destroy_process_group()


def _buckets(tensors):
    """Yield lists of consecutive tensors of one type that hold at most BUCKET bytes, or one larger tensor."""
    bucket, size = [], 0
    for tensor in tensors:
        if bucket and (tensor.dtype != bucket[0].dtype or size + tensor.nbytes > BUCKET):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.nbytes
    yield bucket


# ----------------------------------------------------------------------------------------- progress


def bar(items, label, total):
    """Yield `items`; show their progress as a bar on a terminal and as about ten plain lines elsewhere."""
    if sys.stderr.isatty():
        yield from tqdm(items, label, total, leave=False)
        return
    began = time.perf_counter()
    for done, item in enumerate(items, 1):
        yield item
        if done * 10 // total > (done - 1) * 10 // total:
            left = (time.perf_counter() - began) / done * (total - done)
            print(f"{label}: {done} of {total}, {left // 60:.0f}:{left % 60:02.0f} left", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------- the directory


def code_digests():
    """Return {file: SHA-256} of the trainer and all that it imports from its own folder."""
    here = Path(__file__).resolve().parent
    files = sorted([*here.glob("*.py"), *here.glob("loaders/*.py")])
    return {file.relative_to(here).as_posix(): evidence.sha256_file(file) for file in files}


def _cut_journal(path, update, checkpoint):
    """Drop the lines of updates after `update`, which will be made again; InputError names an earlier one without."""
    lines = path.read_bytes().splitlines(True)[:update] if path.exists() else []
    found = [evidence.parse_json(line, path).get("update") for line in lines]
    if found != list(range(1, update + 1)):
        missing = min(set(range(1, update + 1)) - set(found), default=update)
        raise InputError(f"{path}: expected a line for each update from 1 to {update}, the state of {checkpoint.name}, "
                         f"found none for update {missing}; delete both files to start again")
    evidence.write_atomic(path, b"".join(lines))


def _append(path, line):
    with evidence.naming(path), open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, allow_nan=False) + "\n")


class RunDirectory:
    """One run directory: its config, the files that it writes, and what must not change between its processes."""

    def __init__(self, config_path, device, ranks):
        self.path, self.directory = Path(config_path), Path(config_path).resolve().parent
        self.config = evidence.read_json(config_path)
        optional = [key for key in OPTIONAL_KEYS if key in self.config]
        evidence.require_keys(self.config, [*CONFIG_KEYS, *optional], config_path)
        self.label = f"{self.config['condition']}_s{self.config['seed']}"
        self.data = self.directory / self.config["data"]["directory"]
        for name, digest in sorted(self.config["data"]["files"].items()):
            evidence.require_digest(self.data / name, digest)
        self.identity = {"config": self.config, "code": code_digests(), "device": device_name(device),
                         "torch": str(torch.__version__), "ranks": ranks.count}
        self.device, self.writes = device, ranks.rank == 0
        self.checkpoint, self.metrics, self.captures = (
            self.directory / name for name in ("checkpoint.safetensors", "metrics.jsonl", "captures.jsonl"))
        self.writer, self.writing = ThreadPoolExecutor(1), None
        self.earlier, self.started = 0.0, time.perf_counter()

    def seconds(self):
        """Return the seconds that this process and the interrupted ones before it have spent on the run."""
        return self.earlier + time.perf_counter() - self.started

    def edit(self, plan, lengths):
        """Return (plan, accounts) with the edits that the config asks for: `loaders.edits.apply_edits`."""
        training, wanted, tables = self.config["training"], self.config.get("edits", []), {}
        for edit in wanted:
            if edit["kind"] == "substitute":
                path = self.directory / edit["table"]
                evidence.require_digest(path, edit["sha256"])
                tables[edit["table"]] = evidence.read_json(path)
                evidence.require_keys(tables[edit["table"]], ("rows", "documents"), path)
        return apply_edits(plan, wanted, lengths=lengths, capacity=self.config["packing"]["context"] + 1, tables=tables,
                           update_rows=training["accumulation"] * training["microbatch"])

    def resume(self, model, optimizer):
        """Return the Progress of the checkpoint, or that of a new run, and drop what later updates had written."""
        progress, updates = Progress(), self.config["training"]["updates"]
        if self.checkpoint.exists():
            progress = load_checkpoint(self.checkpoint, model, optimizer, self.identity, updates)
            print(f"{self.label}: resumed after update {progress.update} of {updates}", file=sys.stderr)
        if self.writes:
            _cut_journal(self.metrics, progress.update, self.checkpoint)
            if "captures" in self.config:
                _cut_journal(self.captures, min(progress.update, self.config["captures"]), self.checkpoint)
        progress.attempts += 1
        self.earlier = progress.run_seconds
        return progress

    def record(self, model, optimizer, progress, line, capture):
        """After an update, write its line of metrics, its capture if there is one, and a checkpoint when one is due."""
        progress.run_seconds = self.seconds()
        if not self.writes:
            return
        _append(self.metrics, {"update": progress.update, **line, "seconds": progress.loop_seconds})
        if capture:
            _append(self.captures, {"update": progress.update, **capture})
        settings = self.config["training"]
        if progress.update % settings["checkpoint_every"] == 0 or progress.update == settings["updates"]:
            self.finish_writing()
            copies = {name: tensor.detach().to("cpu", copy=True).contiguous()
                      for name, tensor in live_tensors(model, optimizer).items()}
            self.writing = self.writer.submit(save_checkpoint, self.checkpoint, copies, asdict(progress), self.identity)

    def finish_writing(self):
        """Wait for the checkpoint that is being written, and raise what its thread met."""
        if self.writing:
            self.writing.result()

    def finish(self, model, statistics, result):
        """Write weights and row statistics, and result.json last: its presence means that the run is complete."""
        weights = {name: weight.contiguous() for name, weight in model.state_dict().items()}
        array = io.BytesIO()
        np.save(array, statistics)
        files = {"model.safetensors": safetensors.torch.save(weights), "evaluation_rows.npy": array.getvalue()}
        for name, data in files.items():
            evidence.write_atomic(self.directory / name, data)
            result["digests"][name] = evidence.sha256_bytes(data)
        evidence.write_json(self.directory / "result.json", result)
