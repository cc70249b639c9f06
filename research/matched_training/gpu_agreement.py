"""Does a device compute the losses and gradients that the CPU computes? A module of gpu_check.py.

A small seeded model of train.py has the same weights and tokens everywhere. It reads continuous rows, and rows of
independent documents with padding. The reference is the CPU in float32 with dense attention. The device computes as it
does in training: compiled, and with flex attention on a GPU. The attention kernels are also compared alone.
"""

import math

import numpy as np
import torch

import train
from loaders.batches import IGNORED, shifted
from research.batch_boundaries.layouts import pack_documents

SMALL = {"layers": 2, "width": 128, "heads": 2, "gate_channels": 32}
VOCABULARY, CONTEXT, ROWS, SEED = 512, 256, 8, 19
# The largest allowed differences relative to the reference, of the loss and of the norm of each gradient. On the CPU,
# bfloat16 changes the loss by up to 4e-5 and a gradient by up to 0.06; unmasked documents change them by 1e-4 and 0.8.
TOLERANCE = {"float32": {"loss": 1e-5, "gradient": 1e-3}, "bfloat16": {"loss": 5e-4, "gradient": 0.2}}
KERNEL_TOLERANCE = 1e-4


def small_config(protocol, precision, compiled):
    """Return the settings that train.py needs for the small model."""
    training = {**protocol["training"], "precision": precision, "compile": compiled, "logit_chunk": 512}
    return {"model": {**protocol["model"], **SMALL}, "vocabulary": VOCABULARY, "packing": {"context": CONTEXT},
            "seed": SEED, "training": training}


def busy_model(config):
    """Return the seeded model on the CPU, moved from its first weights, which predict nearly uniformly."""
    model, _ = train.prepare_model(config, torch.device("cpu"))
    generator = torch.Generator().manual_seed(SEED)
    for weight in model.parameters():
        weight.data += 0.05 * torch.randn(weight.shape, generator=generator).type_as(weight)
    return model


def synthetic_batches():
    """Return {name: tensors of a batch}: (inputs, targets), for documents also (positions, segments)."""
    random = np.random.default_rng(SEED)
    ids = random.integers(0, VOCABULARY, (ROWS, CONTEXT + 1))
    sizes = np.clip(random.lognormal(4.0, 1.0, 20 * ROWS), 2, CONTEXT + 1).astype(int)
    packed = pack_documents([random.integers(0, VOCABULARY, size) for size in sizes], CONTEXT + 1, pad=0)
    found = {"continuous": (ids[:, :-1], ids[:, 1:]), "documents": [array[:ROWS] for array in shifted(packed)]}
    return {name: [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
            for name, arrays in found.items()}


def loss_and_gradients(config, device, batch):
    """Return (nats a target, {weight: gradient float32 on the CPU}) of the small model on a device."""
    model = busy_model(config).to(device)
    loss = train.DeviceModel(model, config["training"], device).loss(*(tensor.to(device) for tensor in batch))
    loss = loss / int((batch[1] != IGNORED).sum())
    loss.backward()
    return loss.item(), {name: weight.grad.float().cpu() for name, weight in model.named_parameters()}


def check(name, difference, tolerance):
    """Return one entry of the report; a difference that is no number becomes None, and does not hold."""
    difference = difference if math.isfinite(difference) else None
    holds = difference is not None and difference <= tolerance
    return {"check": name, "difference": difference, "tolerance": tolerance, "holds": holds}


def model_checks(protocol, device):
    """Yield the checks of losses and gradients for each precision and kind of rows."""
    for rows, batch in synthetic_batches().items():
        reference, expected = loss_and_gradients(small_config(protocol, "float32", False), torch.device("cpu"), batch)
        for precision, tolerance in TOLERANCE.items():
            loss, gradients = loss_and_gradients(small_config(protocol, precision, True), device, batch)
            yield check(f"loss, {rows} rows, {precision}", abs(loss - reference) / reference, tolerance["loss"])
            norms = [(gradients[name] - found).norm() / found.norm() for name, found in expected.items()]
            yield check(f"gradients, {rows} rows, {precision}", float(torch.stack(norms).max()), tolerance["gradient"])


def kernel_checks(device):
    """Yield the checks of flex attention against dense attention in float32, for each window and masking."""
    generator = torch.Generator().manual_seed(SEED)
    query, key, value = (torch.randn(ROWS, 2, CONTEXT, 64, generator=generator).to(device) for _ in range(3))
    segments = synthetic_batches()["documents"][3].to(device)
    for window in (CONTEXT // 2, CONTEXT):
        for name, ids in (("continuous", None), ("documents", segments)):
            flex = torch.compile(train.block_attention(CONTEXT, window, device, ids))(query, key, value)
            dense = train.dense_attention(CONTEXT, window, device, ids)(query, key, value)
            difference = float((flex - dense).abs().max() / dense.abs().max())
            yield check(f"flex against dense attention, {name} rows, window {window}", difference, KERNEL_TOLERANCE)
