"""The parts of the boundary checks: probe, pipeline under test, measurements, and record.

A `Pipeline` says how documents become a batch, a batch becomes model input, and microbatches become an update. Where a
document is in its row follows from the documents alone, never from the batch.
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


class Probe(NamedTuple):
    """The models and documents of the checks: a trained and a random train.DeviceModel of one shape.

    documents: int64 id arrays of a BOS, text ids below `bos`, and an end marker `eos`. Together they fit one row.
    """

    trained: train.DeviceModel
    random: train.DeviceModel
    documents: list
    bos: int
    eos: int


class Record(Checks):
    """Named checks that keep what they found: exact facts, and measured numbers with their bounds."""

    def __init__(self):
        super().__init__()
        self.exact, self.bounded = {}, {}

    def take(self):
        """Return what was found since the last call, as evidence."""
        taken = {"exact": self.exact, "bounded": self.bounded}
        self.exact, self.bounded = {}, {}
        return taken

    def equal(self, name, what, found, expected):
        self.exact[f"{name}: {what}"] = found
        holds = found == expected
        self.expect(holds, f"{name}: {what}: {found}" if holds else f"{name}: {what}: {found}, expected {expected}")

    def at_most(self, name, what, value, bound=TOLERANCE):
        self.bounded[f"{name}: {what}"] = {"value": value, "at_most": bound}
        self.expect(value <= bound, f"{name}: {what}: {value:.3g}, at most {bound:g}")

    def at_least(self, name, what, value, bound=VISIBLE):
        """Check a contrast: a fault that is made on purpose must cause a difference that the check would notice."""
        self.bounded[f"{name}: {what}"] = {"value": value, "at_least": bound}
        self.expect(value >= bound, f"{name}: {what}: {value:.3g}, at least {bound:g}")


# ----------------------------------------------------------------------------------- what is under test


def fed(batch):
    """Return the model input of independent documents: int64 tensors inputs, targets, positions, segments."""
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in shifted(batch)]


def fed_as_stream(batch):
    """Return the model input of a continuous row, in which every position reads everything before it but padding."""
    *rest, segments = fed(batch)
    return [*rest, segments.clamp(max=0)]


def update(forward, microbatches):
    """Make one update with the trainer; its gradients stay in the model. Return the loss in nats a target."""
    parts = [(batch.inputs, *fed(batch)) for batch in microbatches]
    return train.run_update(forward, parts, sum(map(effective_targets, microbatches)), train.Ranks(CPU))[0].item()


class Pipeline(NamedTuple):
    """The functions under test. Tests plant a fault in one of them at a time."""

    pack: Callable = pack_documents
    pad: Callable = pad_documents
    fed: Callable = fed
    update: Callable = update


STREAM = Pipeline(pack=lambda *args, **kwargs: pack_documents(*args, **kwargs, independent=False), fed=fed_as_stream)


# -------------------------------------------------------------------------------------- measurements


def spans(documents):
    """Return the slice of a packed row that each document fills."""
    ends = np.cumsum([len(document) for document in documents]).tolist()
    return [slice(end - len(document), end) for document, end in zip(documents, ends)]


def packed(pipeline, documents, spare=0):
    """Return the documents in one row, with `spare` positions of padding."""
    return pipeline.pack(documents, sum(map(len, documents)) + spare, pad=0)


@torch.no_grad()
def logits(forward, pipeline, batch):
    """Return the logits after the softcap, (rows, width - 1, vocabulary)."""
    inputs, _, *documents = pipeline.fed(batch)
    features = forward.flat_features(inputs, *documents)
    return train.softcap(F.linear(features, forward.model.head.weight), forward.model.softcap).view(*inputs.shape, -1)


def largest(difference):
    """Return the largest absolute value as a float; NaN if any value is NaN."""
    return difference.abs().max().item()


def others_logits(forward, pipeline, documents):
    """Return the packed logits that predict a token of any document but the first."""
    found = logits(forward, pipeline, packed(pipeline, documents))[0]
    return torch.cat([found[span.start : span.stop - 1] for span in spans(documents)[1:]])


def replaced_first(probe):
    """Return the documents with every token of the first one replaced."""
    first, *others = probe.documents
    return [(first + 1) % probe.bos, *others]


def without_segments(pipeline):
    """Return the pipeline without its document mask: every position reads everything before it."""
    return pipeline._replace(fed=lambda batch: [*pipeline.fed(batch)[:3], torch.zeros_like(pipeline.fed(batch)[0])])


def gradients(model):
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def relative(found, expected):
    return largest(found - expected) / largest(expected)
