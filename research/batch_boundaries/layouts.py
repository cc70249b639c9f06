"""Lay documents out in a batch, and answer questions about it: its targets, its shift, and which tokens read which."""

import numpy as np

from loaders.batches import IGNORED, PADDING, lay_out


def _sizes(documents, width):
    """Return int64 (documents,), the tokens of each; ValueError names the first that is empty or over `width`."""
    sizes = np.array([len(document) for document in documents], np.int64)
    if not len(sizes):
        raise ValueError("documents: expected at least one")
    for number in np.flatnonzero((sizes < 1) | (sizes > width)):
        raise ValueError(f"documents[{number}]: expected 1..{width} tokens, found {sizes[number]}")
    return sizes


def pack_documents(documents, width, *, pad, independent=True):
    """Return a Batch of whole documents in order: as many as fit a row of `width` tokens, then padding.

    documents: list of 1-D id arrays, BOS included.
    """
    sizes, rows, row, used = _sizes(documents, width), [], 0, 0
    for size in sizes.tolist():
        if used + size > width:
            row, used = row + 1, 0
        rows.append(row)
        used += size
    return lay_out(np.concatenate(documents), np.array(rows), sizes, width=width, pad=pad, independent=independent)


def pad_documents(documents, *, pad, width=None):
    """Return a Batch with one document a row, padded to `width` or to the longest document."""
    width = width or max(map(len, documents), default=1)
    sizes = _sizes(documents, width)
    return lay_out(np.concatenate(documents), np.arange(len(sizes)), sizes, width=width, pad=pad, independent=True)


def require_unshifted(batch):
    """Raise ValueError, which names row and position, if a label that counts differs from its own input.

    If every label equals the *next* input, the labels were shifted already, and `shifted` would shift them again.
    """
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
    """Return how many labels count: those that are not IGNORED, without column 0, which no output predicts."""
    return int(np.count_nonzero(batch.labels[:, 1:] != IGNORED))


# ---------------------------------------------------------------------------------------- attention


def allowed(batch, independent=True):
    """Return bool (rows, width, width): whether query i may read key j.

    It may if j <= i, neither is padding and, for independent documents, both belong to one document. This matrix is for
    teaching and tests; attention kernels do not need it.
    """
    ids = batch.segment_ids
    real = (ids[:, :, None] != PADDING) & (ids[:, None, :] != PADDING)
    same = ids[:, :, None] == ids[:, None, :] if independent else True
    return np.tri(ids.shape[1], dtype=bool) & real & same
