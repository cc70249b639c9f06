"""Read attention masks in the forms in use.

Two dimensions with 0 and 1: a token is padding or not. Two dimensions with larger numbers: the documents of a row,
counted from 1, and 0 for padding. Three or four dimensions: which token reads which, as booleans of either polarity, as
0 and 1, or as numbers that are added to the scores.
"""

import numpy as np

from evidence import InputError
from research.batch_boundaries.plain_arrays import by_rows, checked

MASKED = -1e4  # Additive masks use this value, the smallest of a float type, or minus infinity; biases stay above it.


def read_masks(masks, widths):
    """Return (bool rows of 2-D masks or None, {key: relations a row}, {key: document numbers a row}).

    A relation is bool (heads, width, width), True where the query may read the key.
    """
    padding, relations, documents = None, {}, {}
    for key, value in masks.items():
        rows = by_rows(value)
        if rows[0].ndim >= 2 and all(row.shape[-2] == 1 < width for row, width in zip(rows, widths)):
            padding = [relation(row)[0, 0] for row in rows]  # (rows, 1, 1, width): padding, for all heads and queries
            continue
        if rows[0].ndim >= 2:
            rows = rows * len(widths) if len(rows) == 1 else rows
            shapes = [row.shape[-2:] for row in rows]
            if shapes != [(width, width) for width in widths]:
                raise InputError(f"{key}: expected {len(widths)} masks of {widths} tokens a side, found {shapes}")
            relations[key] = [relation(row) for row in rows]
            continue
        numbers = checked(key, rows, widths)
        padding = [row > 0 for row in numbers]
        if max(row.max(initial=0) for row in numbers) > 1:
            documents[key] = [row - 1 for row in numbers]
    return padding, relations, documents


def relation(mask):
    """Return bool (heads, width, width): which token reads which, of a row's mask (width, width) or (heads, ...)."""
    additive = mask.dtype.kind == "f" and mask.max(initial=0) <= 0
    if additive or mask.min(initial=0) < 0:
        allowed = mask > MASKED
    else:
        allowed = right_polarity(mask > 0)
    return allowed if allowed.ndim == 3 else allowed[None]


def right_polarity(mask):
    """Return a boolean mask so that True means "reads"; where True means "masked", it is inverted.

    If every later token is True, and most tokens are False for themselves, True must mean "masked".
    """
    if mask.shape[-2] != mask.shape[-1]:
        return mask
    later = np.triu(np.ones(mask.shape[-2:], bool), 1)
    diagonal = np.diagonal(mask, axis1=-2, axis2=-1)
    return ~mask if later.any() and mask[..., later].all() and diagonal.mean() < 0.5 else mask
