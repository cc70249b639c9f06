"""Ways to lay documents out in a batch, and questions about such a batch: its targets, its shift, who reads whom."""

import numpy as np

from loaders.batches import IGNORED, PADDING, lay_out


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
