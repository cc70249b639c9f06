"""The acceptance test holds for this project's batches; each planted fault is caught by the check named after it."""

import numpy as np
import pytest
import torch

import evidence
import train
from loaders.batches import IGNORED
from research.batch_boundaries import audit_boundaries
from research.batch_boundaries import boundary_probe as acceptance
from research.batch_boundaries.layouts import effective_targets, pack_documents, pad_documents

CONTEXT_LEAKS = {"alone_equals_packed", "others_unchanged", "gradient_isolated", "repeated_document"}


@pytest.fixture(scope="module")
def probe():
    torch.set_num_threads(1)
    return audit_boundaries.probe_here()


def failed(probe, capsys, pipeline=None, semantics="independent"):
    """Names of the checks with a failure."""
    capsys.readouterr()
    audit_boundaries.audit(acceptance.Record(), probe, semantics, pipeline)
    return {line.split()[1].rstrip(":") for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")}


def after(make, change):
    """`make` followed by a change of its Batch."""
    return lambda *arguments, **options: change(make(*arguments, **options))


def mask_missing(batch):
    *rest, segments = acceptance.fed(batch)
    return [*rest, torch.zeros_like(segments)]


def positions_running_on(batch):
    return batch._replace(positions=np.arange(batch.inputs.size).reshape(batch.inputs.shape) % batch.inputs.shape[1])


def boundary_target_kept(batch):
    first = (batch.labels == IGNORED) & (batch.positions == 0) & (batch.segment_ids > 0)
    return batch._replace(labels=np.where(first, batch.inputs, batch.labels))


def shifted_once_already(batch):
    return batch._replace(labels=np.pad(batch.labels[:, 1:], [(0, 0), (0, 1)], constant_values=IGNORED))


def padding_scored(batch):
    return batch._replace(labels=np.where(batch.segment_ids < 0, batch.inputs, batch.labels))


def pad_masked_by_id(documents, *, pad, width=None):
    batch = pad_documents(documents, pad=pad, width=width)
    return batch._replace(labels=np.where(batch.inputs == pad, IGNORED, batch.labels))


def mean_of_means(forward, microbatches):
    forward.model.zero_grad()
    parts = [batch for batch in microbatches if effective_targets(batch)]
    losses = [forward.loss(*acceptance.fed(batch)) / effective_targets(batch) / len(parts) for batch in parts]
    sum(losses).backward()
    return sum(losses).item()


# fault: (what it replaces, the checks that must catch it, those that may see it as well)
FAULTS = {
    "mask missing": ({"fed": mask_missing}, CONTEXT_LEAKS, {"positions_restart"}),
    "positions running on": (
        {"pack": after(pack_documents, positions_running_on)}, {"positions_restart", "alone_equals_packed"}, set()),
    "boundary target kept": ({"pack": after(pack_documents, boundary_target_kept)}, {"boundary_target_ignored"}, set()),
    "double shift": ({"pack": after(pack_documents, shifted_once_already)}, {"single_shift"},
                     {"boundary_target_ignored", "alone_equals_packed", "repeated_document"}),
    "pad masked by id": ({"pad": pad_masked_by_id}, {"pad_is_not_eos", "batch_size_invariant"}, set()),
    "padding in a row scored": ({"pack": after(pack_documents, padding_scored)}, {"padding_finite"}, set()),
    "padding of a batch scored": (
        {"pad": after(pad_documents, padding_scored)}, {"pad_is_not_eos", "batch_size_invariant"}, set()),
    "mean of means": ({"update": mean_of_means}, {"targets_weighted_equally"}, set()),
}


def test_the_projects_own_batches_pass_under_both_semantics(probe, capsys):
    assert failed(probe, capsys) == set()
    assert failed(probe, capsys, semantics="continuous") == set()


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_is_caught_by_the_check_named_after_it(probe, capsys, fault):
    change, caught, also = FAULTS[fault]
    assert caught <= failed(probe, capsys, acceptance.Pipeline(**change)) <= caught | also


def test_a_mask_that_lets_padding_read_nothing_and_spread_nan_is_caught(probe, capsys, monkeypatch):
    make = train.DeviceModel.flat_features

    def spreading(forward, inputs, positions, segments):
        return torch.where((segments < 0).flatten()[:, None], torch.nan, make(forward, inputs, positions, segments))

    monkeypatch.setattr(train.DeviceModel, "flat_features", spreading)
    assert "padding_finite" in failed(probe, capsys)


def test_a_stream_is_not_condemned_by_the_independence_of_its_documents(probe, capsys):
    """Held to it, it would fail every one of those checks; declared for what it is, it fails none."""
    held = failed(probe, capsys, acceptance.STREAM)
    assert held == {*CONTEXT_LEAKS, "boundary_target_ignored", "positions_restart"}
    record = acceptance.Record()
    left_out = audit_boundaries.audit(record, probe, "continuous")
    assert set(left_out) == held and record.failed == 0


def test_a_stream_whose_documents_are_masked_is_no_stream(probe, capsys):
    assert failed(probe, capsys, acceptance.Pipeline(), "continuous") == {"stream_targets", "stream_context"}


@pytest.mark.slow
def test_the_frozen_evidence_is_what_is_found_here(capsys):
    before = audit_boundaries.FROZEN.read_bytes()
    assert audit_boundaries.main(["--freeze"]) == 0
    assert audit_boundaries.FROZEN.read_bytes() == before
    assert "not applied" in capsys.readouterr().out


def test_frozen_facts_and_bounds_may_not_change_but_measured_values_within_bounds_may(tmp_path):
    path = tmp_path / "boundaries.json"
    found = {"exact": {"targets": 5}, "bounded": {"difference": {"value": 1e-7, "at_most": 1e-5}}}
    audit_boundaries.freeze(path, found)
    first = path.read_bytes()
    audit_boundaries.freeze(path, {**found, "bounded": {"difference": {"value": 2e-7, "at_most": 1e-5}}})
    assert path.read_bytes() == first
    for change in ({"exact": {"targets": 6}}, {"bounded": {"difference": {"value": 1e-7, "at_most": 1e-3}}}):
        with pytest.raises(evidence.InputError, match="frozen, and the new content differs at"):
            audit_boundaries.freeze(path, {**found, **change})


def test_a_run_without_weights_is_refused_by_name(tmp_path):
    evidence.write_json(tmp_path / "config.json", {})
    with pytest.raises(evidence.InputError, match="model.safetensors: missing"):
        audit_boundaries.main(["--run", str(tmp_path)])
