"""From documents to a batch: ids, labels, positions and document numbers, under one label convention.

A label is stored at its own input's position: `labels[r, i]` is `inputs[r, i]`, or IGNORED where it is no target.
Exactly one shift follows, `shifted`: the output at i - 1 predicts the label at i, so column 0 is IGNORED always.
Padding is known by length: its segment id is -1, whatever its token id. (After "From Training Chunks to a Batch".)
"""

from typing import NamedTuple

import numpy as np

IGNORED = -100
PADDING = -1


class Batch(NamedTuple):
    """Four int64 arrays (rows, width). segment_ids count a row's documents from 0, padding is -1; positions restart in
    every document where documents are independent, else run on, and are 0 in padding."""

    inputs: np.ndarray
    labels: np.ndarray
    positions: np.ndarray
    segment_ids: np.ndarray


# ------------------------------------------------------------------------------------------- layout


def lay_out(ids, rows, sizes, *, width, pad, independent):
    """The Batch of segments that follow each other: ids (tokens,), row (ascending from 0) and tokens of each segment.

    The first token of a row is never a target, nor is that of any segment where segments are independent.
    """
    ids = np.asarray(ids, np.int64)  # unsigned ids would turn IGNORED into a large one
    segment = np.repeat(np.arange(len(sizes)), sizes)
    first = np.searchsorted(rows, rows)
    starts = np.cumsum(sizes) - sizes
    row, token = rows[segment], np.arange(len(segment))
    column, position = token - starts[first][segment], token - starts[segment]
    position = position if independent else column
    batch = Batch(*(np.full((int(rows[-1]) + 1, width), value, np.int64) for value in (pad, IGNORED, 0, PADDING)))
    found = ids, np.where(position > 0, ids, IGNORED), position, (np.arange(len(rows)) - first)[segment]
    for array, values in zip(batch, found):
        array[row, column] = values
    return batch


def _sizes(documents, width):
    """int64 (documents,): tokens of each; ValueError naming the first that is empty or longer than `width`."""
    sizes = np.array([len(document) for document in documents], np.int64)
    if not len(sizes):
        raise ValueError("documents: expected at least one")
    for number in np.flatnonzero((sizes < 1) | (sizes > width)):
        raise ValueError(f"documents[{number}]: expected 1..{width} tokens, found {sizes[number]}")
    return sizes


def pack_documents(documents, width, *, pad, independent=True):
    """Documents in order, as many whole ones a row as fit its `width` tokens; what is left of a row is padding.

    documents: list of 1-D id arrays, each as it is to be read, BOS included.
    """
    sizes, rows, used = _sizes(documents, width), [], width + 1
    for size in sizes.tolist():
        fits = used + size <= width
        rows.append(rows[-1] + (not fits) if rows else 0)
        used = size + used * fits
    return lay_out(np.concatenate(documents), np.array(rows), sizes, width=width, pad=pad, independent=independent)


def pad_documents(documents, *, pad, width=None):
    """One document a row, padded to `width`, or to the longest of them."""
    width = width or max(map(len, documents), default=1)
    sizes = _sizes(documents, width)
    return lay_out(np.concatenate(documents), np.arange(len(sizes)), sizes, width=width, pad=pad, independent=True)


# ------------------------------------------------------------------------------------------- labels


def shifted(batch):
    """The only shift: (inputs, targets, positions, segment_ids), each (rows, width - 1); targets are labels[:, 1:]."""
    return (batch.inputs[:, :-1], batch.labels[:, 1:], batch.positions[:, :-1], batch.segment_ids[:, :-1])


def from_shifted_targets(inputs, targets, positions, segment_ids, *, pad):
    """The Batch (rows, width + 1) of labels that were shifted outside: inputs[:, i] predicts targets[:, i].

    The last target becomes the last input, or padding where it is IGNORED. ValueError naming the row and position of a
    target that is not the next input: those labels were not shifted.
    """
    last = targets[:, -1:]
    real = last != IGNORED
    extended = np.hstack([inputs, np.where(real, last, pad)])
    labels = np.hstack([np.full_like(last, IGNORED), targets])
    for row, column in np.argwhere((labels != IGNORED) & (labels != extended)):
        raise ValueError(f"targets[{row}, {column - 1}]: {labels[row, column]}, but the next input is "
                         f"{extended[row, column]}: these labels are not shifted")
    return Batch(extended, labels, np.hstack([positions, np.where(real, positions[:, -1:] + 1, 0)]),
                 np.hstack([segment_ids, np.where(real, segment_ids[:, -1:], PADDING)]))


def require_unshifted(batch):
    """ValueError naming row and position of a label that is not its own input; if all that can be compared equal the
    *next* input, they were shifted already, and `shifted` would do so a second time."""
    inputs, labels = batch.inputs, batch.labels
    wrong = np.argwhere((labels != IGNORED) & (labels != inputs))
    if not len(wrong):
        return
    row, column = wrong[0]
    comparable = labels[:, :-1] != IGNORED
    double = comparable.any() and (labels[:, :-1] == inputs[:, 1:])[comparable].all()
    why = "every label is the next input: shifted already, a second shift would follow" if double else "not its own"
    raise ValueError(f"labels[{row}, {column}]: {labels[row, column]} on input {inputs[row, column]}: {why}")


def effective_targets(batch):
    """Labels that count, as int: not IGNORED and within reach of the shift (column 0 is not)."""
    return int(np.count_nonzero(batch.labels[:, 1:] != IGNORED))


# ---------------------------------------------------------------------------------------- attention


def allowed(batch, independent=True):
    """bool (rows, width, width): whether query i may read key j: j <= i, neither is padding and, where documents are
    independent, both belong to one document. For teaching and tests: kernels need no such matrix."""
    ids = batch.segment_ids
    real = (ids[:, :, None] != PADDING) & (ids[:, None, :] != PADDING)
    same = ids[:, :, None] == ids[:, None, :] if independent else True
    return np.tri(ids.shape[1], dtype=bool) & real & same
