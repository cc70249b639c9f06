"""One document a row, in order of arrival; padding fills the rest of the row.

A document longer than a row becomes pieces of a full row each. Consecutive pieces share one token, the last of one and
the first of the next. So every token of a document but its BOS is a target exactly once, although a later piece does
not read the earlier ones. Nothing is discarded. A batch is as wide as its longest row.
"""

import numpy as np

from loaders.accounting import Loader, validated
from loaders.best_fit_crop import entries
from loaders.concatenated import segments

SHARED = 1


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Plan as `best_fit_crop.plan` does, but with one segment a row, of at most `capacity` tokens.

    Order alone decides, so `buffer_size`, `refill` and `seed` change nothing.
    """
    lengths, _, capacity, rows, _ = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    pieces = np.maximum(1, -(-(lengths - SHARED) // (capacity - SHARED)))
    row = np.arange(rows)
    passes, piece = np.divmod(row, pieces.sum())
    document = np.searchsorted(np.cumsum(pieces), piece, side="right")
    begin = (piece - (np.cumsum(pieces) - pieces)[document]) * (capacity - SHARED)
    end = np.minimum(begin + capacity, lengths[document])
    return segments(row, passes * len(lengths) + document, begin, end)


LOADER = Loader(plan, None, entries, continues=True, shared=SHARED, fills=False, independent=True)
