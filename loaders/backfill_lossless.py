"""Backfill that discards nothing: the rest of a cropped document goes to the end of the queue.

The rest keeps its place in the document and gets no new BOS. The bound on when a document starts is that of `backfill`;
when it is finished has no such bound.
"""

from loaders import backfill
from loaders.accounting import Loader, validated


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """As `backfill.plan`; bos is 0 and start > 0 (or 0 after a lone BOS) in continuations. `seed` is not used."""
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return backfill.pack(lengths, refill, *sizes, continues=True)


LOADER = Loader(plan, backfill.entries, continues=True, shared=0, fills=True, independent=False)
