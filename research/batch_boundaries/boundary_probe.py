"""What the checks of a batch's boundaries are made of: a subject, a way under test, measurements and a record.

What is under test is a `Way`: how documents become a batch, a batch becomes model input, and microbatches an update.
Where a document lies in its row is known here from the documents alone, never from the batch.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

import train
from evidence import Checks
from loaders.batches import shifted
from research.batch_boundaries.layouts import effective_targets, pack_documents, pad_documents

TOLERANCE = 1e-5
ROUNDING = 1e-12
VISIBLE = 1e-3
CPU = torch.device("cpu")


class Subject(NamedTuple):
    """What the checks are made with: a trained and a random model of one shape, as `train.Forward`, and documents.

    documents: int64 id arrays, each a BOS, text below `bos`, and an end marker `eos`; they fit one row together.
    """

    trained: train.Forward
    random: train.Forward
    documents: list
    bos: int
    eos: int


class Record(Checks):
    """Checks by name that keep what was found: exact facts, and measured numbers with the bound that they must keep."""

    def __init__(self):
        super().__init__()
        self.exact, self.bounded = {}, {}

    def take(self):
        """What was found since the last time, as evidence."""
        taken, self.exact, self.bounded = {"exact": self.exact, "bounded": self.bounded}, {}, {}
        return taken

    def equal(self, name, what, found, expected):
        self.exact[f"{name}: {what}"] = found
        self.expect(found == expected, f"{name}: {what}: {found}" + f", expected {expected}" * (found != expected))

    def at_most(self, name, what, value, bound=TOLERANCE):
        self.bounded[f"{name}: {what}"] = {"value": value, "at_most": bound}
        self.expect(value <= bound, f"{name}: {what}: {value:.3g}, at most {bound:g}")

    def at_least(self, name, what, value, bound=VISIBLE):
        """A contrast: where the fault is made on purpose, the difference must be one that the check would see."""
        self.bounded[f"{name}: {what}"] = {"value": value, "at_least": bound}
        self.expect(value >= bound, f"{name}: {what}: {value:.3g}, at least {bound:g}")


# ----------------------------------------------------------------------------------- what is under test


def fed(batch):
    """Model input of independent documents: (inputs, targets, positions, segments), int64 tensors."""
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in shifted(batch)]


def fed_as_stream(batch):
    """The same for a continuous row: every position reads all before it, padding aside."""
    *rest, segments = fed(batch)
    return [*rest, segments.clamp(max=0)]


def update(forward, microbatches):
    """Gradients of one update, left in the model; its loss in nats a target. The trainer's own."""
    parts = [(batch.inputs, *fed(batch)) for batch in microbatches]
    return train.run_update(forward, parts, sum(map(effective_targets, microbatches)), train.Ranks(CPU))[0]


class Way(NamedTuple):
    """The functions under test; the tests of this file plant a fault in one of them at a time."""

    pack: Callable = pack_documents
    pad: Callable = pad_documents
    fed: Callable = fed
    update: Callable = update


STREAM = Way(pack=lambda *args, **kwargs: pack_documents(*args, **kwargs, independent=False), fed=fed_as_stream)


# -------------------------------------------------------------------------------------- measurements


def spans(documents):
    """The slice of a packed row that each document fills."""
    ends = np.cumsum([len(document) for document in documents]).tolist()
    return [slice(end - len(document), end) for document, end in zip(documents, ends)]


def packed(way, documents, spare=0):
    """The documents in one row, with `spare` positions of padding."""
    return way.pack(documents, sum(map(len, documents)) + spare, pad=0)


@torch.no_grad()
def logits(forward, way, batch):
    """(rows, width - 1, vocabulary) after the softcap."""
    inputs, _, *documents = way.fed(batch)
    features = forward.flat_features(inputs, *documents)
    return train.softcap(F.linear(features, forward.model.head.weight), forward.model.softcap).view(*inputs.shape, -1)


def largest(difference):
    """Largest absolute value, as float; NaN where there is one."""
    return difference.abs().max().item()


def others_logits(forward, way, documents):
    """Packed logits that predict a token of any document but the first."""
    found = logits(forward, way, packed(way, documents))[0]
    return torch.cat([found[span.start : span.stop - 1] for span in spans(documents)[1:]])


def replaced_first(subject):
    """The documents with every token of the first another one."""
    first, *others = subject.documents
    return [(first + 1) % subject.bos, *others]


def without_segments(way):
    """The same way, every position reading all before it: the mask is missing, nothing else."""
    return way._replace(fed=lambda batch: [*way.fed(batch)[:3], torch.zeros_like(way.fed(batch)[0])])


def gradients(model):
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def relative(found, expected):
    return largest(found - expected) / largest(expected)
