"""A run resumes from a checkpoint that is whole and its own, beside journals that are whole; all else is refused."""

import json

import pytest
import safetensors
import safetensors.torch
import torch

import checkpoint
import run_directory
import train
from checkpoint import Progress
from evidence import InputError
from tiny.models import TINY, busy_model

IDENTITY = {"config": {"seed": 43}, "device": "cpu", "torch": "2"}


@pytest.fixture
def saved(tmp_path):
    """(path of a checkpoint after 3 updates, a model and an optimizer that it fits)."""
    model = busy_model()
    optimizer = train.Optimizer(model, TINY["optimizer"], "float32")
    progress = vars(Progress(update=3, attempts=1, rows="a", first_microbatch="b", last_microbatch="c"))
    path = tmp_path / "checkpoint.safetensors"
    tensors = {name: tensor.clone() for name, tensor in checkpoint.live_tensors(model, optimizer).items()}
    checkpoint.save_checkpoint(path, tensors, progress, IDENTITY)
    return path, model, optimizer


def load(saved, identity=IDENTITY, updates=12):
    path, model, optimizer = saved
    return checkpoint.load_checkpoint(path, model, optimizer, identity, updates)


def test_weights_moments_and_progress_come_back(saved):
    path, model, optimizer = saved
    before = {name: tensor.clone() for name, tensor in checkpoint.live_tensors(model, optimizer).items()}
    for tensor in checkpoint.live_tensors(model, optimizer).values():
        tensor.data.add_(1)
    progress = load(saved)
    assert progress == Progress(update=3, attempts=1, rows="a", first_microbatch="b", last_microbatch="c")
    assert all(torch.equal(tensor, before[name]) for name, tensor in checkpoint.live_tensors(model, optimizer).items())


@pytest.mark.parametrize("place", [0.3, 0.6, 0.99])
def test_one_flipped_bit_anywhere_in_the_tensors_is_refused(saved, place):
    path = saved[0]
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"checkpoint.safetensors: SHA-256 .*delete it to start again"):
        load(saved)


def rewritten(saved, change):
    """Save the checkpoint again, its own SHA-256 right, after `change(tensors, progress)`."""
    path = saved[0]
    with safetensors.safe_open(path, "pt") as file:
        state, names = json.loads(file.metadata()["state"]), list(file.keys())
        tensors = {name: file.get_tensor(name) for name in names}
    change(tensors, state["progress"])
    checkpoint.save_checkpoint(path, tensors, state["progress"], state["identity"])


@pytest.mark.parametrize("change, named", [
    (lambda tensors, progress: tensors.pop("model/head.weight"), "missing key model/head.weight"),
    (lambda tensors, progress: tensors.update(surplus=torch.zeros(1)), "unknown key surplus"),
    (lambda tensors, progress: tensors.update({"model/head.weight": torch.zeros(2, 2)}), "model/head.weight: expected"),
    (lambda tensors, progress: progress.update(update=13), "progress.update: expected at most 12, found 13"),
    (lambda tensors, progress: progress.update(update=-1), "progress.update"),
    (lambda tensors, progress: progress.update(update="3"), "progress.update"),
    (lambda tensors, progress: progress.update(rows=None), "progress.rows"),
    (lambda tensors, progress: progress.pop("attempts"), "missing key attempts"),
])
def test_a_crafted_checkpoint_is_refused_by_key(saved, change, named):
    rewritten(saved, change)
    with pytest.raises(InputError, match=named):
        load(saved)


@pytest.mark.parametrize("key, value", [("torch", "3"), ("device", "Example Card"), ("config", {"seed": 44})])
def test_a_checkpoint_of_another_version_device_or_config_is_refused_by_key(saved, key, value):
    with pytest.raises(InputError, match=key):
        load(saved, identity={**IDENTITY, key: value})


@pytest.mark.parametrize("data", [b"", b"half", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_a_file_that_is_no_checkpoint_is_refused(saved, data):
    saved[0].write_bytes(data)
    with pytest.raises(InputError, match="not a checkpoint of this trainer"):
        load(saved)


# ------------------------------------------------------------------------------------------ journals


def journal(path, updates):
    path.write_text("".join(json.dumps({"update": update}) + "\n" for update in updates))
    return path


def test_lines_of_updates_that_are_made_again_are_dropped(tmp_path):
    path = journal(tmp_path / "metrics.jsonl", range(1, 8))
    run_directory._cut_journal(path, 5, tmp_path / "checkpoint.safetensors")
    assert [json.loads(line)["update"] for line in path.read_text().splitlines()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("updates, missing", [([1, 2, 4, 5], 3), ([1, 2, 3], 4), ([], 1), ([2, 1, 3, 4, 5], 5)])
def test_a_journal_that_lacks_an_update_before_the_checkpoint_is_refused_by_number(tmp_path, updates, missing):
    path = journal(tmp_path / "metrics.jsonl", updates)
    with pytest.raises(InputError, match=f"metrics.jsonl: .* found none for update {missing}"):
        run_directory._cut_journal(path, 5, tmp_path / "checkpoint.safetensors")
