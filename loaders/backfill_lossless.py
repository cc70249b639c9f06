"""Backfill that discards nothing: the rest of a cropped document goes to the end of the queue.

The rest keeps its place in the document and gets no new BOS. The bound on when a document starts is that of `backfill`;
when it is finished has no such bound.
"""

from loaders import backfill
from loaders.accounting import Loader, validated
from loaders.best_fit_crop import joined


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """As `backfill.plan`; bos is 0 and start > 0 (or 0 after a lone BOS) in continuations. `seed` is not used."""
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return joined(pieces(lengths, refill, *sizes, seed))


def pieces(lengths, refill, capacity, rows, buffer_size, seed):
    """Yield the plan in pieces, int64 (at most BLOCK, 5) each."""
    return backfill.blocks(lengths, refill, capacity, rows, buffer_size, continues=True)


LOADER = Loader(plan, pieces, backfill.entries, continues=True, shared=0, fills=True, independent=False)
