"""Every target of an update weighs the same however it is split; a trainer that weighs otherwise is caught by name."""

import numpy as np
import pytest
import torch

import train
from evidence import read_json
from loaders import rows
from research.batch_boundaries import measure_accumulation
from research.batch_boundaries.measure_accumulation import LENGTHS, batch, difference, gradient, make_forward


@pytest.mark.slow
def test_the_trainers_splits_and_ranks_all_teach_the_same(tmp_path, capsys):
    """The whole script, two processes included."""
    assert measure_accumulation.main(["--json", str(tmp_path / "accumulation.json")]) == 0
    printed = capsys.readouterr().out
    assert "18 checks, 0 failed" in printed and "float64: 2 ranks with [0, 51] targets" in printed
    assert read_json(tmp_path / "accumulation.json")["cases"]["note"]["by_target"] == 2.6


def mean_of_means(forward, batches, targets_per_update, ranks):
    """The fault in the trainer: each microbatch's mean over its own targets, averaged over microbatches."""
    forward.model.zero_grad(set_to_none=True)
    batches, nats = list(batches), 0.0
    for _, *arrays in batches:
        counted = (arrays[1] >= 0).sum().item() if len(arrays) > 1 else targets_per_update / 2
        loss = forward.loss(*arrays) / (max(counted, 1) * len(batches))
        loss.backward()
        nats += loss.item()
    return nats, []


def unweighted(forward, batches, targets_per_update, ranks):
    """The fault: the sum is divided by the positions of full rows, padding included."""
    return TRAINER(forward, batches, 2 * targets_per_update, ranks)


TRAINER = train.run_update


FAULTS = [(mean_of_means, "FAIL float64: 39 splits differ"), (unweighted, "FAIL note")]


@pytest.mark.slow
@pytest.mark.parametrize("fault, caught", FAULTS)
def test_a_planted_fault_in_the_trainer_fails_the_check(monkeypatch, capsys, tmp_path, fault, caught):
    monkeypatch.setattr(train, "run_update", fault)
    monkeypatch.setattr(measure_accumulation, "gradients_of_ranks", lambda precision: [])
    assert measure_accumulation.main(["--json", str(tmp_path / "accumulation.json")]) == 1
    assert caught in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_the_gradient_is_that_of_the_mean_over_all_targets_by_plain_autograd():
    """Without `run_update`: the documents' summed cross-entropy, from the logits, over their 51 targets."""
    forward = make_forward("float64")
    found = gradient(forward, [[5, 0], [3, 1, 2], [4]])
    forward.model.zero_grad()
    total = 0.0
    for ids in measure_accumulation.documents():
        if len(ids) > 1:
            inputs = torch.from_numpy(ids[None, :-1])
            kernels = train.attention_kernels(forward.model, forward.device, torch.zeros_like(inputs))
            features = forward.model(inputs, kernels)
            logits = train.softcap(features[0] @ forward.model.head.weight.T, forward.model.softcap)
            total = total + torch.nn.functional.cross_entropy(logits, torch.from_numpy(ids[1:]), reduction="sum")
    (total / (sum(LENGTHS) - len(LENGTHS))).backward()
    assert difference(found, measure_accumulation.flat(forward)) < 1e-12


def test_the_splits_are_all_consecutive_ones_and_every_row_once():
    found = measure_accumulation.splits()
    consecutive = [split for split in found if sum(split, []) == list(range(len(LENGTHS)))]
    assert len(consecutive) >= 2 ** (len(LENGTHS) - 1) - 1
    for split in found + measure_accumulation.rank_splits():
        assert sorted(sum(split, [])) == list(range(len(LENGTHS)))


def test_a_microbatch_without_targets_has_a_finite_loss_of_zero():
    empty = LENGTHS.index(1)
    consumed, *arrays = batch([empty])
    forward = make_forward("float32")
    assert forward.loss(*arrays).item() == 0.0 and rows.digest(consumed)
    assert np.isfinite(gradient(forward, [[empty], [0, 1, 3, 4, 5]])).all()


def test_the_mean_of_means_is_the_wrong_number_of_each_worked_case():
    cases = ([2, 8], [2, 24]), ([3, 9], [6, 9]), ([0, 6], [0, 9])
    assert [measure_accumulation.mean_of_means(*case) for case in cases] == [2.0, 1.5, None]
