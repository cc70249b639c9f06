"""Small models of train.py on one CPU thread, for checks that need real gradients."""

import torch

import train

CPU = torch.device("cpu")


def initial_model(settings, vocabulary, context, *, seed, training):
    """Return a train.DeviceModel in float32 on the CPU, with the initial weights of the recipe."""
    torch.set_num_threads(1)
    model = train.build_model(settings, vocabulary, context)
    train.initialise(model, seed)
    return train.DeviceModel(model, {**training, "precision": "float32", "compile": False}, CPU)


def busy_model(settings, vocabulary, context, *, precision="float32", chunk=512, seed=19):
    """Return a seeded train.DeviceModel whose weights are moved away from their initial values.

    With the initial values many weights get no gradient, and every prediction is uniform.
    """
    found = initial_model(settings, vocabulary, context, seed=seed, training={"logit_chunk": chunk})
    generator = torch.Generator().manual_seed(seed)
    for weight in found.model.parameters():
        weight.data += 0.05 * torch.randn(weight.shape, generator=generator)
    found.model.to(getattr(torch, precision))
    return found


def random_model(settings, vocabulary, context, *, training):
    """Return a train.DeviceModel of random weights: the recipe's zeros would hide what attention reads."""
    found = initial_model(settings, vocabulary, context, seed=1, training=training)
    generator = torch.Generator().manual_seed(1)
    for weight in found.model.parameters():
        torch.nn.init.normal_(weight, 0.0, 0.3, generator=generator)
    return found
