"""Turn torch tensors, NumPy arrays and lists into rows of NumPy arrays."""

import numpy as np

from evidence import InputError


def plain(value):
    """Return a torch tensor, array or list as a NumPy array, or as a list of arrays if it is ragged."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    nested = isinstance(value, list | tuple) and len(value) > 0 and (
        isinstance(value[0], list | tuple) or getattr(value[0], "ndim", 0) > 0)
    if nested:
        parts = [plain(part) for part in value]
        alike = len({getattr(part, "shape", None) for part in parts}) == 1
        return np.stack(parts) if alike and all(isinstance(part, np.ndarray) for part in parts) else parts
    return np.asarray(value)


def by_rows(value):
    """Return a list of one-row values; a value without a batch dimension is one row."""
    value = plain(value)
    return [value] if isinstance(value, np.ndarray) and value.ndim < 2 else list(value)


def checked(key, rows, widths, dtype=np.int64):
    """Return rows of `dtype` whose widths are those of the inputs; InputError names the key."""
    found = [len(row) if row.ndim == 1 else row.shape for row in rows]
    if widths is not None and found != widths:
        raise InputError(f"{key}: expected rows of {widths} tokens as in the inputs, found {found}")
    return [row.astype(dtype) for row in rows]
