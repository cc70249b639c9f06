"""Models of the tiny protocol on the CPU: with the recipe's first weights, or busy, so that every weight matters."""

import torch

import train
from tiny import corpus as tiny_corpus

CPU = torch.device("cpu")
TINY = tiny_corpus.protocol()


def tiny_model(seed=43):
    model = train.build_model(TINY["model"], tiny_corpus.VOCABULARY, tiny_corpus.CONTEXT)
    train.initialise(model, seed)
    return model


def busy_model(seed=1):
    """A model in which every weight matters: none of the recipe's zeros."""
    model, generator = tiny_model(), torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 0.0, 0.3, generator=generator)
    return model


def random_ids(*shape, seed=0):
    return torch.randint(0, tiny_corpus.VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))
