"""What a GPU would do: types of activations on fake CUDA tensors, what is compiled, how ranks meet. No GPU is used."""

import contextlib
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import run_directory
import surroundings
import train
from checkpoint import Progress
from tiny.models import CPU, TINY, busy_model, random_ids

CONFIG = {"model": TINY["model"], "vocabulary": 300, "packing": {"context": 32}, "seed": 43,
          "training": {**TINY["training"], "precision": "bfloat16"}}


@contextlib.contextmanager
def fake_cuda_autocast(monkeypatch):
    """Autocast of CUDA tensors on a machine without CUDA, where torch would switch it off."""
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *arguments, **options: True)
    with torch.autocast("cuda", torch.bfloat16):
        yield


def indexed(tensor, key):
    """tensor[i], tensor[:n] or tensor[..., :n] by operations that torch without CUDA has for fake tensors."""
    if isinstance(key, int):
        return tensor.select(0, key)
    dimension, part = (-1, key[1]) if isinstance(key, tuple) else (0, key)
    return tensor.narrow(dimension, 0, part.stop)


def fake_model():
    """The tiny model as a bfloat16 run has it, of fake tensors on a GPU; its activations by module and place."""
    with torch.device("cuda"):
        model = train.build_model(CONFIG["model"], CONFIG["vocabulary"], CONFIG["packing"]["context"])
    for table in (model.token_embedding, *model.value_embeddings.values()):
        table.weight = torch.nn.Parameter(torch.empty_like(table.weight, dtype=torch.bfloat16))
    model.cos, model.sin = (torch.empty_like(table, dtype=torch.bfloat16) for table in (model.cos, model.sin))
    return model.requires_grad_(False)


def test_every_activation_of_a_bfloat16_run_on_a_gpu_is_bfloat16(monkeypatch):
    """Autocast would widen the norms, and with them the residual stream, to float32."""
    seen = []

    def attend(q, k, v):
        seen.extend(("attention", tensor.dtype) for tensor in (q, k, v))
        return v

    for kind in (torch.nn.Linear, torch.nn.Embedding):  # random values need a real generator of the device
        monkeypatch.setattr(kind, "reset_parameters", lambda part: None)
    monkeypatch.setattr(FakeTensor, "__getitem__", indexed)
    honest = train.norm
    monkeypatch.setattr(train, "norm", lambda x: seen.append(("norm", honest(x).dtype)) or honest(x))
    with FakeTensorMode(), torch.no_grad(), fake_cuda_autocast(monkeypatch):
        model = fake_model()
        for name, part in model.named_modules():
            part.register_forward_hook(lambda part, inputs, output, name=name: seen.append((name, output.dtype)))
        ids = torch.zeros(2, 32, dtype=torch.int64, device="cuda")
        features = model(ids, [attend] * len(model.blocks))
        widened = torch.nn.functional.rms_norm(features, (32,)).dtype
    assert features.device.type == "cuda" and len(seen) > 40
    assert {dtype for _, dtype in seen} == {torch.bfloat16}, [place for place, dtype in seen if dtype != torch.bfloat16]
    assert widened == torch.float32  # without the norm's own rule


def test_the_score_multiplies_by_the_head_in_float32_in_every_precision():
    model, ids = busy_model(), random_ids(2, 32)
    reduced = train.DeviceModel(model, CONFIG["training"], CPU)
    features = reduced.flat_features(ids).bfloat16()
    found = reduced._chunk_nats(features, ids.flatten())
    logits = train.softcap(features.double() @ model.head.weight.double().T, model.softcap)
    exact = torch.nn.functional.cross_entropy(logits, ids.flatten(), reduction="none")
    assert (found.double() - exact).abs().max() < 1e-5


def test_the_model_compiles_once_over_updates_layers_and_both_kinds_of_rows():
    counter, model = CompileCounter(), busy_model()
    compiled = torch.compile(model, backend=counter, dynamic=False, fullgraph=True)
    ids, segments = random_ids(3, 32), torch.arange(32).expand(3, 32) // 7
    for _ in range(3):
        compiled(ids, train.attention_kernels(model, CPU))
    assert counter.frame_count == 1
    for shift in range(3):
        kernels = train.attention_kernels(model, CPU, segments.roll(shift, 1))
        compiled(ids, kernels, segments)
    assert counter.frame_count == 2  # one more, for rows of documents


def test_nothing_is_compiled_for_changing_shapes(monkeypatch):
    """A second attention window would make the closure's integer symbolic, at which the compiler of flex breaks."""
    seen = []
    monkeypatch.setattr(torch, "compile", lambda made, **options: seen.append(options) or made)
    train.DeviceModel(busy_model(), {**TINY["training"], "compile": True}, CPU)
    train.block_attention(32, 16, CPU, torch.zeros(2, 32, dtype=torch.int64))
    assert len(seen) == 3 and all(options == {"dynamic": False} for options in seen)


# --------------------------------------------------------------------------------------------- ranks


def test_ranks_on_gpus_meet_over_nccl_and_exchange_digests_over_gloo(monkeypatch):
    calls = []
    monkeypatch.setattr(surroundings, "rank", lambda: surroundings.Rank(2, 1, 1))
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(("set_device", device.index)))
    monkeypatch.setattr(run_directory.dist, "is_initialized", lambda: False)
    monkeypatch.setattr(run_directory.dist, "init_process_group",
                        lambda backend, device_id=None: calls.append((backend, device_id.index)))
    ranks = run_directory.Ranks(run_directory.own_device("cuda"))
    assert calls == [("set_device", 1), ("cpu:gloo,cuda:nccl", 1)] and (ranks.count, ranks.rank) == (2, 1)


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_gradients_are_summed_in_buckets_of_one_type(monkeypatch, size):
    monkeypatch.setattr(run_directory, "BUCKET", size)
    shapes = [(3, 2), (5,), (4, 4), (1,), (2, 3)]
    types = [torch.float32, torch.float32, torch.bfloat16, torch.float32, torch.float32]
    weights = [SimpleNamespace(grad=torch.randn(shape).to(kind)) for shape, kind in zip(shapes, types, strict=True)]
    before, sums = [weight.grad.clone() for weight in weights], []
    ranks = run_directory.Ranks(CPU)
    ranks.count = 2
    monkeypatch.setattr(ranks, "sum", lambda tensor: sums.append(tensor.numel()) or tensor.mul_(2))
    ranks.sum_gradients(weights)
    assert all(torch.equal(weight.grad, 2 * old) for weight, old in zip(weights, before, strict=True))
    assert sum(sums) == 34 and len(sums) == {1: 5, 100: 3, 1 << 20: 3}[size]


def test_an_update_reads_the_loss_once_after_the_step(monkeypatch):
    """Until then nothing waits for the device."""
    calls = []

    class Loss:
        def item(self):
            calls.append("read")
            return 1.0

    monkeypatch.setattr(train, "run_update", lambda *arguments: (Loss(), ["digest"]))
    optimizer = SimpleNamespace(step=lambda *arguments: calls.append("step") or 1.0)
    split = SimpleNamespace(reader=None, collate=None, targets=torch.ones(4).long().numpy())
    monkeypatch.setattr(train.rows, "stream", lambda *arguments: iter(()))
    settings = {"microbatch": 1, "accumulation": 2, "updates": 2, "loss_limit": 5, "timer_skip": 0}
    config = {"condition": "baseline", "seed": 43, "training": settings}
    train.train(config, SimpleNamespace(model=None, device=CPU), optimizer, split, Progress(),
                SimpleNamespace(count=1, deal=list), lambda line, capture: calls.append("record"))
    assert calls == ["step", "read", "record"] * 2
