"""The point from which a run resumes: its progress, weights and moments, in one file that knows its own SHA-256."""

import hashlib
import json
from dataclasses import dataclass, fields

import safetensors
import safetensors.torch
import torch

import evidence
from evidence import InputError
from loaders.rows import chain


@dataclass
class Progress:
    """A run after its last update: counters, seconds, and the digests of the rows that it consumed."""

    update: int = 0
    attempts: int = 0
    loop_seconds: float = 0.0
    timed_seconds: float = 0.0
    run_seconds: float = 0.0
    first_microbatch: str = ""
    last_microbatch: str = ""
    rows: str = ""
    effective_targets: int = 0
    empty_updates: int = 0

    def advance(self, targets, digests, seconds, timed):
        """Count one more update: targets, digests of its microbatches, seconds since the last one, seconds timed."""
        self.update += 1
        self.loop_seconds += seconds
        self.timed_seconds += timed
        self.first_microbatch = self.first_microbatch or digests[0]
        self.last_microbatch = digests[-1]
        self.rows = chain(self.rows, digests)
        self.effective_targets += targets
        self.empty_updates += not targets


def _read_progress(saved, updates, path):
    """Return the Progress that a checkpoint saved; InputError names the first value that cannot be."""
    evidence.require_keys(saved, [field.name for field in fields(Progress)], f"{path}: progress")
    for field in fields(Progress):
        value = saved[field.name]
        sound = type(value) is field.type and (field.type is str or value >= 0)
        evidence.require(sound, f"{path}: progress.{field.name}", f"expected {field.type.__name__}, found {value!r}")
    evidence.require(saved["update"] <= updates, f"{path}: progress.update",
                     f"expected at most {updates}, found {saved['update']}")
    return Progress(**saved)


def _digest(tensors, *parts):
    """Return the SHA-256 over every tensor's name and bytes, in name order, and over the bytes of `parts`."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode() + tensor.contiguous().cpu().flatten().view(torch.uint8).numpy().tobytes())
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def weights_digest(model):
    """Return the SHA-256 over every weight's name and bytes, in name order."""
    return _digest(model.state_dict())


def live_tensors(model, optimizer):
    """Return {name: tensor} of all weights and moments, which are the live tensors themselves."""
    return {f"model/{name}": weight for name, weight in model.state_dict().items()} | optimizer.state()


def save_checkpoint(path, tensors, progress, identity):
    """Write everything that the next update depends on, with its SHA-256, in one file that is renamed into place."""
    state = json.dumps({"progress": progress, "identity": identity}, sort_keys=True)
    metadata = {"state": state, "sha256": _digest(tensors, state.encode())}
    evidence.write_atomic(path, safetensors.torch.save(tensors, metadata))


def _read_checkpoint(path):
    """Return (tensors, state) of a checkpoint; InputError when it is not one or differs from its own SHA-256."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            metadata, names = file.metadata(), file.keys()
            tensors = {name: file.get_tensor(name) for name in names}
        state, stated = json.loads(metadata["state"]), metadata["sha256"]
    except (safetensors.SafetensorError, OSError, TypeError, KeyError, ValueError) as error:
        raise InputError(f"{path}: not a checkpoint of this trainer ({error}); delete it to start again") from None
    found = _digest(tensors, metadata["state"].encode())
    if found != stated:
        raise InputError(f"{path}: SHA-256 of its content: expected {stated}, found {found}; delete it to start again")
    return tensors, state


def load_checkpoint(path, model, optimizer, identity, updates):
    """Restore weights and moments in place and return the saved Progress.

    InputError names what differs when another config, code, device or version of torch saved the checkpoint.
    """
    tensors, state = _read_checkpoint(path)
    difference = evidence.first_difference(state["identity"], identity)
    if difference:
        raise InputError(f"{path}: saved by another run: {difference}; delete it to start again")
    live = live_tensors(model, optimizer)
    evidence.require_keys(tensors, live, f"{path}: tensors")
    for name, tensor in live.items():
        evidence.require(tensor.shape == tensors[name].shape, f"{path}: {name}",
                         f"expected shape {tuple(tensor.shape)}, found {tuple(tensors[name].shape)}")
        tensor.copy_(tensors[name])
    return _read_progress(state["progress"], updates, path)
