"""The model, its loss, its optimizer and its score do what the recipe's facts say, by references written apart."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import evidence
import scoring
import train
from checkpoint import weights_digest
from tiny import corpus as tiny_corpus
from tiny.models import CPU, TINY, busy_model, random_ids, tiny_model

# ---------------------------------------------------------------------------------------- the recipe


def test_the_papers_run_has_the_size_and_cost_the_recipe_pins():
    protocol = evidence.read_json(tiny_corpus.ROOT / "protocols/climbmix.json")
    assert train.describe(protocol, 8192) == {
        "parameters": 50332176, "flops_per_token": 239078400, "updates": 953, "rows": 243968, "targets": 499646464,
        "total_flops": 239078400 * 499646464,
    }


def test_describe_prints_one_json_object(capsys):
    assert train.main(["--describe", str(tiny_corpus.ROOT / "protocols/climbmix.json")]) == 0
    assert evidence.parse_json(capsys.readouterr().out.encode(), "stdout")["parameters"] == 50332176


@pytest.mark.parametrize("change", [
    lambda p: p.pop("training"), lambda p: p["model"].pop("width"), lambda p: p["model"].update(width="wide"),
    lambda p: p["model"].update(heads=0), lambda p: p.update(tokenizer=None),
])
def test_a_broken_protocol_is_refused_by_file(tmp_path, change):
    protocol = tiny_corpus.protocol()
    change(protocol)
    evidence.write_json(tmp_path / "broken.json", protocol)
    with pytest.raises(evidence.InputError, match="broken.json: not a whole protocol"):
        train.main(["--describe", str(tmp_path / "broken.json")])


def test_weights_start_as_the_recipe_says():
    model = train.build_model({**TINY["model"], "width": 64}, tiny_corpus.VOCABULARY, tiny_corpus.CONTEXT)
    train.initialise(model, 43)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    bound = math.sqrt(3 / 64)
    for name, weight in weights.items():
        if name.endswith(("output.weight", "gate.weight")):
            assert not weight.any()
        elif name.endswith(("query.weight", "key.weight", "value.weight", "input.weight")) or "value_emb" in name:
            assert 0.95 * bound < weight.abs().max() <= bound and abs(weight.std() - bound / 3**0.5) < 0.1 * bound
    assert abs(weights["token_embedding.weight"].std() - 1) < 0.02 and abs(weights["head.weight"].std() - 1e-3) < 2e-5
    assert (weights["residual_scales"] == 1).all() and (weights["embedding_scales"] == 0.1).all()
    assert set(model.value_embeddings) == {"0", "2"} and model.windows == [16, 16, 32]


def test_the_seed_alone_decides_the_first_weights():
    assert weights_digest(tiny_model(43)) == weights_digest(tiny_model(43))
    assert weights_digest(tiny_model(43)) != weights_digest(tiny_model(44))


def test_an_untrained_model_is_as_unsure_as_the_vocabulary_is_large():
    forward = train.DeviceModel(tiny_model(), TINY["training"], CPU)
    inputs, targets = random_ids(4, 32), random_ids(4, 32, seed=1)
    assert forward.loss(inputs, targets).item() / 128 == pytest.approx(math.log(tiny_corpus.VOCABULARY), abs=0.01)


# ----------------------------------------------------------------------------------------- attention


def slow_attention(q, k, v, window):
    """One query at a time, float64."""
    out = torch.zeros_like(v, dtype=torch.float64)
    for query in range(q.size(2)):
        keys = slice(max(0, query - window), query + 1)
        scores = (k[:, :, keys].double() @ q[:, :, query, :, None].double()).squeeze(-1) / q.size(-1) ** 0.5
        out[:, :, query] = (scores.softmax(-1)[..., None] * v[:, :, keys].double()).sum(2)
    return out


@pytest.mark.parametrize("make", [train.dense_attention, train.block_attention])
@pytest.mark.parametrize("window", [1, 5, 16])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_every_kernel_reads_its_window_and_nothing_else(make, window):
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 2, 16, 16, generator=generator) for _ in range(3))
    found = make(16, window, CPU)(q, k, v)
    assert torch.allclose(found.double(), slow_attention(q, k, v, window), atol=1e-5)


def test_no_position_reads_a_later_one():
    model, ids = busy_model(), random_ids(1, 32)
    kernels = train.attention_kernels(model, CPU)
    changed = ids.clone()
    changed[0, 20] = (ids[0, 20] + 1) % tiny_corpus.VOCABULARY
    before, after = model(ids, kernels), model(changed, kernels)
    assert torch.equal(before[:, :20], after[:, :20]) and not torch.equal(before[:, 20:], after[:, 20:])


def test_rotary_scores_depend_on_distance_alone():
    model, generator = tiny_model(), torch.Generator().manual_seed(4)
    q, k = (torch.randn(16, generator=generator).expand(1, 1, 32, 16) for _ in range(2))
    scores = train.rotate(q, model.cos, model.sin)[0, 0] @ train.rotate(k, model.cos, model.sin)[0, 0].T
    for distance in (0, 3, 11):
        diagonal = scores.diagonal(-distance)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), atol=1e-4)


# ---------------------------------------------------------------------------------------------- loss


@settings(max_examples=20)
@given(count=st.integers(1, 40), chunk=st.integers(1, 50), seed=st.integers(0, 99))
def test_the_chunked_loss_is_the_plain_loss(count, chunk, seed):
    """Value and both gradients, in float64, whatever the chunk, with repeated targets."""
    generator = torch.Generator().manual_seed(seed)
    features = (3 * torch.randn(count, 6, generator=generator, dtype=torch.float64)).requires_grad_()
    weight = (3 * torch.randn(9, 6, generator=generator, dtype=torch.float64)).requires_grad_()
    targets = torch.randint(0, 9, (count,), generator=generator)
    logits = 15 * torch.tanh(features @ weight.T / 15)
    plain = -(logits.log_softmax(-1)[torch.arange(count), targets]).sum()
    chunked = train.ChunkedLoss.apply(features, weight, targets, 15.0, chunk)
    assert chunked.item() == pytest.approx(plain.item(), rel=1e-12)
    gradients = [torch.autograd.grad(2 * loss, [features, weight]) for loss in (plain, chunked)]
    assert all(torch.allclose(one, two, rtol=1e-10, atol=1e-12) for one, two in zip(*gradients))


def test_the_split_of_an_update_into_microbatches_does_not_change_its_gradients():
    model, inputs, targets = busy_model(), random_ids(4, 32), random_ids(4, 32, seed=1)
    forward, ranks, seen = train.DeviceModel(model, TINY["training"], CPU), train.Ranks(CPU), []
    for size in (4, 2, 1):
        parts = [(np.zeros((1, 1), np.uint16), *part) for part in zip(inputs.split(size), targets.split(size))]
        loss, digests = train.run_update(forward, parts, inputs.numel(), ranks)
        loss = loss.item()
        assert len(digests) == 4 // size
        seen.append((loss, [weight.grad.clone() for weight in model.parameters()]))
    for loss, gradients in seen[1:]:
        assert loss == pytest.approx(seen[0][0], rel=1e-6)
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(gradients, seen[0][1]))


# ----------------------------------------------------------------------------------------- optimizer


@pytest.mark.parametrize("shape", [(24, 24), (64, 16), (16, 64)])
def test_polar_steps_bring_every_singular_value_near_one(shape):
    matrices = torch.randn(2, *shape, generator=torch.Generator().manual_seed(5))
    found = train.polar(matrices, torch.float32)
    singular = torch.linalg.svdvals(found)
    assert singular.min() > 0.6 and singular.max() < 1.3
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    assert torch.cosine_similarity(found.flatten(1), (u @ v).flatten(1)).min() > 0.98


def slow_muon(weight, gradient, momentum_buffer, second, settings, rate_scale, momentum, decay):
    """One matrix, one step, written from the recipe's facts in numpy float64."""
    momentum_buffer = momentum * momentum_buffer + (1 - momentum) * gradient
    x = (1 - momentum) * gradient + momentum * momentum_buffer
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (1.02 * np.linalg.norm(x) + 1e-6)
    for a, b, c in train.POLAR_EXPRESS:
        x = a * x + b * (x @ x.T @ x) + c * (x @ x.T @ x @ x.T @ x)
    x = x.T if tall else x
    axis = 1 if x.shape[0] >= x.shape[1] else 0
    square = (x**2).mean(axis, keepdims=True)
    second = settings["second_moment_beta"] * second + (1 - settings["second_moment_beta"]) * square
    scaled = x / np.sqrt(second)
    scaled *= np.linalg.norm(x) / np.linalg.norm(scaled)
    rate = rate_scale * settings["rate"] * math.sqrt(max(1, x.shape[0] / x.shape[1]))
    return weight - rate * scaled - rate * decay * weight * (scaled * weight >= 0), momentum_buffer, second


def test_muon_steps_are_the_recipes():
    """Three steps over matrices of three shapes, two of them stacked, against one matrix at a time."""
    random = np.random.default_rng(6)
    weights = {f"m{i}": random.normal(size=shape) for i, shape in enumerate([(8, 8), (8, 8), (12, 4), (4, 12)])}
    live = {name: torch.nn.Parameter(torch.tensor(weight, dtype=torch.float32)) for name, weight in weights.items()}
    constants = TINY["optimizer"]["muon"]
    muon = train.Muon(live, constants, torch.float32)
    slow = {name: (w, np.zeros_like(w), np.zeros((w.shape[0], 1) if w.shape[0] >= w.shape[1] else (1, w.shape[1])))
            for name, w in weights.items()}
    for _ in range(3):
        for name, weight in live.items():
            gradient = random.normal(size=weight.shape)
            weight.grad = torch.tensor(gradient, dtype=torch.float32)
            slow[name] = slow_muon(slow[name][0], gradient, *slow[name][1:], constants, 0.5, 0.9, 0.2)
        muon.step(0.5, 0.9, 0.2)
    for name, weight in live.items():
        assert np.allclose(weight.detach().numpy(), slow[name][0], atol=2e-4)


def test_every_weight_belongs_to_one_optimizer_with_the_recipes_rate():
    model = tiny_model()
    optimizer = train.Optimizer(model, TINY["optimizer"], "float32")
    adam = [weight for group in optimizer.adam.param_groups for weight in group["params"]]
    muon = [weight for group in optimizer.muon.groups for weight in group["matrices"]]
    assert {id(w) for w in adam}.isdisjoint(id(w) for w in muon)
    assert {id(w) for w in adam + muon} == {id(w) for w in model.parameters()}
    assert all(weight.ndim == 2 for weight in muon)
    scale = (32 / 768) ** -0.5
    rates = dict(zip(optimizer.others, [group["lr"] for group in optimizer.adam.param_groups], strict=True))
    assert rates["head.weight"] == 0.004 * scale and rates["token_embedding.weight"] == 0.6 * scale
    assert rates["value_embeddings.0.weight"] == 0.6 * scale
    assert (rates["residual_scales"], rates["embedding_scales"]) == (0.005, 0.5)


def with_parameter(parent, shape):
    """The tiny model with one more weight, `extra`, in a part of it."""
    model = tiny_model()
    model.get_submodule(parent).register_parameter("extra", torch.nn.Parameter(torch.zeros(shape)))
    return model


@pytest.mark.parametrize("parent, name", [("", "extra"), ("blocks.1.feedforward", "blocks.1.feedforward.extra")])
def test_a_weight_without_a_rule_that_fills_it_is_named(parent, name):
    with pytest.raises(evidence.InputError, match=f"initialise: {name}: expected one rule"):
        train.initialise(with_parameter(parent, (3, 3)), 43)


@pytest.mark.parametrize("parent, shape, name", [
    ("", (3, 3), "extra"), ("", (3,), "extra"), ("blocks.1.attention", (3,), "blocks.1.attention.extra"),
    ("blocks.1.attention", (3, 3, 3), "blocks.1.attention.extra")])
def test_a_weight_that_no_optimizer_takes_is_named(parent, shape, name):
    with pytest.raises(evidence.InputError, match=f"{name}: "):
        train.Optimizer(with_parameter(parent, shape), TINY["optimizer"], "float32")


def test_a_matrix_of_a_new_part_of_a_block_goes_to_muon():
    model = with_parameter("blocks.1.attention", (5, 3))
    optimizer = train.Optimizer(model, TINY["optimizer"], "float32")
    assert any(matrix is model.blocks[1].attention.extra for group in optimizer.muon.groups
               for matrix in group["matrices"])


def test_rates_are_constant_then_fall_to_zero_and_decay_falls_all_along(monkeypatch):
    model = tiny_model()
    optimizer = train.Optimizer(model, TINY["optimizer"], "float32")
    seen = []
    monkeypatch.setattr(optimizer.adam, "step", lambda: None)
    monkeypatch.setattr(optimizer.muon, "step", lambda *arguments: seen.append(arguments))
    assert [optimizer.step(update, 400) for update in (0, 200, 300, 399)] == [1.0, 1.0, 0.5, pytest.approx(2 / 400)]
    assert [momentum for _, momentum, _ in seen] == pytest.approx([0.85, 0.85 + 0.1 * 2 / 3, 0.95, 0.95])
    assert [decay for _, _, decay in seen] == pytest.approx([0.2, 0.1, 0.05, 0.2 / 400])


# --------------------------------------------------------------------------------------------- score


class NatsOf:
    """A stand-in for DeviceModel whose nats depend on the target alone."""

    device = CPU

    def nats(self, inputs, targets):
        return targets.float() / 8


def statistics(microbatch, row_count=11, context=7):
    """Row statistics of seeded rows by `scoring.score`, with the targets they were made from."""
    supplied, raw = np.array([3, 1, 0, 4, 2], np.int32), np.array([1, 1, 0, 4, 2], np.int32)
    ids = np.random.default_rng(8).integers(0, 5, (row_count, context + 1)).astype(np.uint16)

    class Reader:
        count = row_count

        def rows(self, first, last):
            return ids[first:last]

    return scoring.score(NatsOf(), Reader(), microbatch, (supplied, raw), train.Ranks(CPU)), ids[:, 1:]


def test_nats_and_bytes_are_summed_over_the_same_targets():
    found, targets = statistics(4)
    for row, line in zip(found, targets.tolist()):
        counted = [target for target in line if target != 2]
        assert row.tolist() == [sum(t / 8 for t in counted), sum([3, 1, 0, 4, 2][t] for t in counted),
                                sum([1, 1, 0, 4, 2][t] for t in counted), len(counted)]


def test_the_score_does_not_depend_on_the_scoring_batch():
    assert all(np.array_equal(statistics(size)[0], statistics(1)[0]) for size in (2, 3, 11, 50))


def test_a_trained_models_score_does_not_depend_on_the_scoring_batch():
    forward = train.DeviceModel(busy_model(), TINY["training"], CPU)
    inputs, targets = random_ids(6, 32), random_ids(6, 32, seed=1)
    whole = forward.nats(inputs, targets)
    parts = torch.cat([forward.nats(*part) for part in zip(inputs.split(1), targets.split(1))])
    assert torch.allclose(whole, parts, atol=1e-5)
    assert whole.double().sum().item() == pytest.approx(forward.loss(inputs, targets).item(), rel=1e-6)


def test_bits_per_byte_is_base_two():
    """693.147... nats over 1,000 bytes are one bit a byte; and 2 ** bpb = exp(nats / bytes)."""
    found = scoring.summarise(np.array([[693.1471805599453, 1000, 500, 300]]))
    assert found["bits_per_byte"] == pytest.approx(1.0, abs=1e-15) and found["raw_bits_per_byte"] == pytest.approx(2.0)
    assert found["cross_entropy"] == 693.1471805599453 / 300
    assert found["perplexity"] == pytest.approx(math.exp(693.1471805599453 / 300))
    assert 2 ** found["bits_per_byte"] == pytest.approx(math.exp(0.6931471805599453))


def test_a_special_target_counts_in_neither_half():
    """"the" (3 bytes, 2 nats), then an end marker (0 bytes, 5 nats): 0.9618, not the mixed 3.3663."""
    class Given:
        device = CPU

        def nats(self, inputs, targets):
            return torch.tensor([[2.0, 5.0]])

    class Reader:
        count = 1

        def rows(self, first, last):
            return np.array([[0, 1, 2]], dtype=np.uint16)

    table = np.array([0, 3, 0], np.int32)
    found = scoring.summarise(scoring.score(Given(), Reader(), 1, (table, table), train.Ranks(CPU)))
    assert found["bits_per_byte"] == pytest.approx(0.96180, abs=1e-5) and found["targets"] == 1


def test_a_stream_of_specials_has_no_score():
    with pytest.raises(evidence.InputError, match="no target"):
        scoring.summarise(np.zeros((2, 4)))
