"""Small models of train.py on one CPU thread, for checks that need real gradients but no trained model."""

import torch

import train


def small_forward(settings, vocabulary, context, precision="float32", chunk=512):
    """Return a seeded train.DeviceModel whose weights are moved away from their initial values.

    With the initial values many weights get no gradient, and every prediction is uniform.
    """
    torch.set_num_threads(1)
    model = train.build_model(settings, vocabulary, context)
    train.initialise(model, 19)
    generator = torch.Generator().manual_seed(19)
    for weight in model.parameters():
        weight.data += 0.05 * torch.randn(weight.shape, generator=generator)
    ready = {"logit_chunk": chunk, "precision": "float32", "compile": False}
    return train.DeviceModel(model.to(getattr(torch, precision)), ready, torch.device("cpu"))
