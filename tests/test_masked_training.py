"""Training on independent and padded documents: masks in every kernel, ignored targets, one weight for every target."""

import functools
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter

import evidence
import train
from checkpoint import Progress, live_tensors
from loaders import accounting, best_fit_crop, document_masked, padded, rows
from loaders.batches import IGNORED
from tiny import corpus as tiny_corpus
from tiny import runs as tiny_runs
from tiny.models import CPU, TINY, busy_model, random_ids

pytestmark = pytest.mark.slow
CONDITIONS = {"masked": "document_masked", "padded": "padded", "stream": "concatenated"}
LENGTHS = [9, 30, 1, 14, 20, 6, 50, 2]
SEGMENTS = torch.tensor([[0] * 5 + [1] * 4 + [2] + [-1] * 6, [0] * 16, [-1] * 16])


# ----------------------------------------------------------------------------------------- the model


def slow_attention(q, k, v, window, segments):
    """One query at a time, float64."""
    out = torch.zeros_like(v, dtype=torch.float64)
    for row, query in np.ndindex(*segments.shape):
        keys = [j for j in range(max(0, query - window), query + 1) if segments[row, j] == segments[row, query]]
        scores = (k[row, :, keys].double() @ q[row, :, query, :, None].double()).squeeze(-1) / q.size(-1) ** 0.5
        out[row, :, query] = (scores.softmax(-1)[..., None] * v[row, :, keys].double()).sum(1)
    return out


def leave_the_mask_uncompiled(monkeypatch):
    """To compile it takes half a minute; what is compiled with options stays compiled."""
    whole = torch.compile
    monkeypatch.setattr(torch, "compile", lambda made, **options: whole(made, **options) if options else made)


@pytest.mark.parametrize("make", [train.dense_attention, train.block_attention])
@pytest.mark.parametrize("window", [1, 5, 16])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_every_kernel_reads_its_own_document_in_its_window(make, window, monkeypatch):
    leave_the_mask_uncompiled(monkeypatch)
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(3, 2, 16, 16, generator=generator) for _ in range(3))
    found = make(16, window, CPU, SEGMENTS)(q, k, v)
    assert torch.allclose(found.double(), slow_attention(q, k, v, window, SEGMENTS), atol=1e-5)


@pytest.mark.parametrize("make", [train.dense_attention, train.block_attention])
def test_compiled_code_is_made_once_for_batches_of_different_documents(make, monkeypatch):
    leave_the_mask_uncompiled(monkeypatch)
    monkeypatch.setattr(train, "dense_attention", make)
    counter, model, ids = CompileCounter(), busy_model(), random_ids(3, 16)
    compiled = torch.compile(model, backend=counter, dynamic=False)
    for shift in range(4):
        segments = SEGMENTS.roll(shift, 1)
        kernels = train.attention_kernels(model, CPU, segments)
        with torch.no_grad():
            found, plain = (forward(ids, kernels, segments.clamp(min=0)) for forward in (compiled, model))
        assert torch.allclose(found, plain, atol=1e-4)
    assert counter.frame_count == 1


def test_a_batch_of_one_document_a_row_without_padding_is_the_unmasked_forward_pass():
    forward, ids = train.DeviceModel(busy_model(), TINY["training"], CPU), random_ids(2, 32)
    positions = torch.arange(32).expand(2, 32)
    masked = forward.flat_features(ids, positions, torch.zeros_like(ids))
    assert torch.allclose(masked, forward.flat_features(ids), atol=1e-5)


def reader_of(loader, lengths, rows_, capacity=33):
    text = np.random.default_rng(2).integers(0, 250, sum(lengths) - len(lengths)).astype(np.uint16)
    plan = loader.plan(lengths, capacity=capacity, rows=rows_, buffer_size=3, refill=[len(lengths)])
    return rows.RowReader(plan, text, lengths, tiny_corpus.BOS, capacity)


@pytest.mark.parametrize("loader", [document_masked, padded])
def test_the_loss_of_a_batch_is_the_sum_of_its_documents_alone(loader):
    """In nats and by every gradient; the nats of ignored targets are 0."""
    reader, forward = reader_of(loader, LENGTHS, 8), train.DeviceModel(busy_model(), TINY["training"], CPU)
    collate = functools.partial(rows.document_rows, independent=True, width=None)
    [(_, *batch)] = rows.stream(reader, [(0, 8)], "cpu", collate)
    together = forward.loss(*batch)
    alone = []
    for plan in reader.plan:
        ids, _ = rows.RowReader(np.array([[0, *plan[1:]]]), reader.tokens, LENGTHS, tiny_corpus.BOS, 33).segments(0, 1)
        ids = torch.from_numpy(ids.astype(np.int64))[None]
        if ids.size(1) > 1:
            short = train.DeviceModel(forward.model, TINY["training"], CPU)
            short.kernels = [train.dense_attention(ids.size(1) - 1, window, CPU) for window in forward.model.windows]
            alone.append(short.loss(ids[:, :-1], ids[:, 1:]))
    assert together.item() == pytest.approx(sum(alone).item(), rel=1e-6)
    weights = list(forward.model.parameters())
    for one, two in zip(torch.autograd.grad(together, weights), torch.autograd.grad(sum(alone), weights)):
        assert torch.allclose(one, two, rtol=1e-4, atol=1e-5 * two.abs().max().item() + 1e-6)
    nats = forward.nats(*batch)
    assert (nats[batch[1] == IGNORED] == 0).all() and (nats[batch[1] != IGNORED] > 0).all()
    assert nats.double().sum().item() == pytest.approx(together.item(), rel=1e-6)


# ------------------------------------------------------------------------------------------- updates


class NatsOf:
    """A stand-in for DeviceModel: a microbatch is its nats, which also are the gradient of the one weight."""

    def __init__(self):
        self.model, self.device = torch.nn.Linear(1, 1, bias=False), CPU

    def loss(self, nats):
        return nats * self.model.weight.sum() / self.model.weight.sum().detach()


def update_of(nats, targets):
    """(loss, gradient in units of the weight's own) of an update whose microbatches have these nats."""
    forward = NatsOf()
    parts = [(np.zeros(1, np.uint16), torch.tensor(float(part))) for part in nats]
    loss, _ = train.run_update(forward, parts, targets, train.Ranks(CPU))
    return loss.item(), (forward.model.weight.grad * forward.model.weight).item()


@pytest.mark.parametrize(("nats", "targets", "expected"), [
    ([6, 9], 12, 1.25),  # case 19: 3 and 9 targets; the mean of means is 1.5
    ([15], 12, 1.25), ([6, 4, 3, 2], 12, 1.25),
    ([0, 9], 6, 1.5),  # case 22A: the first has no target
    ([2, 24], 10, 2.6),  # the note: means 1 and 3 over 2 and 8 targets; 2 by equal weight
])
def test_every_target_of_an_update_weighs_the_same(nats, targets, expected):
    assert update_of(nats, targets) == (pytest.approx(expected), pytest.approx(expected))


def trained_on(reader, planned, updates):
    """Train over a reader's rows, 2 microbatches of 2 an update; (progress, lines, state before and after each)."""
    model = busy_model()
    forward = train.DeviceModel(model, TINY["training"], CPU)
    optimizer = train.Optimizer(model, TINY["optimizer"], "float32")
    collate = functools.partial(rows.document_rows, independent=True, width=None)
    split, progress, lines = SimpleNamespace(reader=reader, targets=planned, collate=collate), Progress(), []

    def state():
        return {name: tensor.clone() for name, tensor in live_tensors(model, optimizer).items()}

    states = [state()]
    settings = {**TINY["training"], "updates": updates, "microbatch": 2, "accumulation": 2}
    config = {"condition": "padded", "seed": 43, "training": settings}
    train.train(config, forward, optimizer, split, progress, train.Ranks(CPU),
                lambda line, capture: (lines.append(line), states.append(state())))
    return progress, lines, states


def test_case_22b_an_update_without_a_target_is_not_made_and_is_counted():
    """Four documents of a BOS alone, then four with text, then four of a BOS alone: weights and moments stay."""
    reader = reader_of(padded, [1] * 4 + [9] * 4 + [1] * 4, 12)
    planned = accounting.row_targets(reader.plan, independent=True)
    progress, lines, states = trained_on(reader, planned, 3)
    assert [line["targets"] for line in lines] == [0, 32, 0]
    assert [line["loss"] is None and line["rate_scale"] is None for line in lines] == [True, False, True]
    assert (progress.effective_targets, progress.empty_updates, progress.update) == (32, 2, 3)
    unchanged = [all(torch.equal(one[name], two[name]) for name in one) for one, two in zip(states, states[1:])]
    assert unchanged == [True, False, True]
    _, *batch = rows.document_rows(reader, 4, 8, independent=True, width=None)
    whole = train.DeviceModel(busy_model(), TINY["training"], CPU).loss(*map(torch.from_numpy, map(np.array, batch)))
    assert lines[1]["loss"] == pytest.approx(whole.item() / 32, rel=1e-5)


def test_case_22c_a_microbatch_that_is_not_finite_stops_the_run_before_anything_is_recorded(monkeypatch):
    reader, spoiled, loss = reader_of(padded, [9] * 4, 4), iter([math.nan, 1.0]), train.DeviceModel.loss
    monkeypatch.setattr(train.DeviceModel, "loss", lambda *batch: next(spoiled) * loss(*batch))
    monkeypatch.setattr(Progress, "advance", lambda *arguments: pytest.fail("the update was counted"))
    with pytest.raises(train.Diverged, match="update 0: loss nan is not finite"):
        trained_on(reader, accounting.row_targets(reader.plan, independent=True), 1)


def test_case_19_the_split_into_microbatches_changes_neither_loss_nor_gradients():
    """In float64, rows of 8, 29, 0, 13, ... targets as 1, 2, 4 or 8 microbatches; one alone holds no target."""
    reader = reader_of(padded, LENGTHS, 8)
    planned = int(accounting.row_targets(reader.plan, independent=True).sum())
    collate, seen = functools.partial(rows.document_rows, independent=True, width=None), []
    for size in (8, 4, 2, 1):
        forward = train.DeviceModel(busy_model().double(), TINY["training"], CPU)
        ranges = [(first, first + size) for first in range(0, 8, size)]
        loss, _ = train.run_update(forward, rows.stream(reader, ranges, "cpu", collate), planned, train.Ranks(CPU))
        seen.append((loss.item(), torch.cat([weight.grad.flatten() for weight in forward.model.parameters()])))
    for loss, gradient in seen[1:]:
        assert loss == pytest.approx(seen[0][0], rel=1e-12)
        assert (gradient - seen[0][1]).abs().max() <= 1e-12 * seen[0][1].abs().max()


# ------------------------------------------------------------------------------------ run directories


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs of every condition of one seed, and two copies not begun."""
    study = tiny_runs.build(tmp_path_factory.mktemp("masked"), tiny_corpus.protocol() | {"conditions": CONDITIONS})
    for condition, new in (("masked", "ranks"), ("padded", "resumed")):
        shutil.copytree(study / f"{condition}_s43", study / new)
    for condition in CONDITIONS:
        tiny_runs.train(study / f"{condition}_s43")
    return study


def test_a_run_states_the_targets_it_scored(runs):
    data = runs.parents[1] / "data/tiny/train"
    lengths, refill = (np.load(data / f"{name}.npy") for name in ("lengths", "refill"))
    for condition in CONDITIONS:
        result = tiny_runs.result(runs / f"{condition}_s43")
        lines = [evidence.parse_json(line, "metrics") for line in
                 (runs / f"{condition}_s43/metrics.jsonl").read_bytes().splitlines()]
        assert sum(line["targets"] for line in lines) == result["effective_targets"] == result["targets"]
        assert result["total_flops"] == result["flops_per_token"] * result["positions"]
        if condition == "stream":
            assert result["targets"] == result["positions"]
        else:
            loader = {"masked": best_fit_crop, "padded": padded}[condition]
            plan = loader.plan(lengths, capacity=33, rows=result["rows"], buffer_size=20, refill=refill)
            assert result["digests"]["plan"] == accounting.plan_sha256(plan)
            assert result["effective_targets"] == plan[:, [accounting.BOS, accounting.COUNT]].sum() - len(plan)
            assert result["targets"] < result["positions"] <= result["rows"] * 32


def test_conditions_start_from_the_same_weights_and_are_scored_on_the_same_rows(runs):
    results = {condition: tiny_runs.result(runs / f"{condition}_s43") for condition in CONDITIONS}
    digests = {condition: result["digests"] for condition, result in results.items()}
    for key in ("initial_weights", "evaluation_plan"):
        assert len({digest[key] for digest in digests.values()}) == 1
    assert len({digest["weights"] for digest in digests.values()}) == len(CONDITIONS)
    assert len({result["score"]["targets"] for result in results.values()}) == 1


def test_two_ranks_divide_by_the_targets_of_both(runs):
    alone, run = runs / "masked_s43", runs / "ranks"
    tiny_runs.train(run, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    one, two = tiny_runs.result(alone), tiny_runs.result(run)
    assert two["environment"]["ranks"] == 2 and one["effective_targets"] == two["effective_targets"]
    assert one["digests"]["rows"] == two["digests"]["rows"]
    assert np.allclose(tiny_runs.losses(run), tiny_runs.losses(alone), rtol=1e-5)


def test_a_padded_run_goes_on_from_its_checkpoint_to_the_same_bytes(runs):
    run, unbroken = runs / "resumed", runs / "padded_s43"
    tiny_runs.kill_after(run, 5)
    assert "resumed after update" in tiny_runs.train(run).stderr
    assert (run / "model.safetensors").read_bytes() == (unbroken / "model.safetensors").read_bytes()
    assert tiny_runs.result(run)["effective_targets"] == tiny_runs.result(unbroken)["effective_targets"]
