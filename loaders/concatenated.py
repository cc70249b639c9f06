"""Continuous stream: documents in order of arrival, each after its BOS, are split wherever a row is full.

Consecutive rows share one token, the last of a row and the first of the next. So every token of the stream but the very
first is a target exactly once, including a BOS that follows another document's end: targets and context across
documents are part of this loader. Nothing is discarded.
"""

import numpy as np

from loaders.accounting import Loader, validated
from loaders.best_fit_crop import entries

SHARED = 1


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Plan as `best_fit_crop.plan` does, but row k has tokens k(capacity - 1)..(k + 1)(capacity - 1) of the passes.

    Order alone decides, so `buffer_size`, `refill` and `seed` change nothing.
    """
    lengths, _, capacity, rows, _ = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    if rows == 0:
        return np.empty((0, 5), np.int64)
    passes = -(-(rows * (capacity - SHARED) + SHARED) // int(lengths.sum()))
    ends = np.cumsum(np.tile(lengths, passes))
    first = np.arange(rows) * (capacity - SHARED)
    begin, last = (np.searchsorted(ends, first + offset, side="right") for offset in (0, capacity - 1))
    pieces = last - begin + 1
    row = np.repeat(np.arange(rows), pieces)
    arrival = begin[row] + np.arange(len(row)) - (np.cumsum(pieces) - pieces)[row]
    origin = ends[arrival] - lengths[arrival % len(lengths)]
    return segments(row, arrival, np.maximum(first[row], origin) - origin,
                    np.minimum(first[row] + capacity, ends[arrival]) - origin)


def segments(row, arrival, begin, end):
    """Return the plan of segments that are the tokens begin..end-1 of a document whose token 0 is its BOS."""
    bos = (begin == 0).astype(np.int64)
    return np.ascontiguousarray(np.stack([row, arrival, bos, begin - 1 + bos, end - begin - bos], axis=1))


LOADER = Loader(plan, None, entries, continues=True, shared=SHARED, fills=True, independent=False)
