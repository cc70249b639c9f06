"""Condition `segmented`: documents longer than a row are split into chunks before they enter the buffer.

A chunk has at most `capacity - 1` text tokens after a BOS of its own; chunks do not overlap. A refill batch brings all
chunks of its documents, in order. Fitting, ties (by order of arrival, chunk by chunk) and the crop of the shortest are
the baseline's, so the tail of a chunk may still be discarded (paper section 4).
"""

import numpy as np

from loaders.accounting import ARRIVAL, START, Loader, batch_sums, entry_lengths, validated
from loaders.best_fit_crop import blocks, joined


def entries(lengths, capacity):
    """Return int64 (documents,): the chunks that each document becomes, one when it fits a row."""
    return np.where(lengths > capacity, -(-(lengths - 1) // (capacity - 1)), 1)


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Plan as `best_fit_crop.plan` does, over chunks; arrival and start are the document's. `seed` is not used."""
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return joined(pieces(lengths, refill, *sizes, seed))


def pieces(lengths, refill, capacity, rows, buffer_size, seed):
    """Yield the plan in pieces, int64 (at most BLOCK, 5) each."""
    chunks = entries(lengths, capacity)
    first, document_of = np.cumsum(chunks) - chunks, np.repeat(np.arange(len(lengths), dtype=np.int32), chunks)
    tokens, batches = entry_lengths(lengths, chunks, capacity), batch_sums(chunks, refill)
    for segments in blocks(tokens, batches, capacity, rows, buffer_size, continues=False):
        passes, chunk = np.divmod(segments[:, ARRIVAL], len(tokens))
        document = document_of[chunk]
        segments[:, ARRIVAL] = passes * len(lengths) + document
        segments[:, START] = (chunk - first[document]) * (capacity - 1)
        yield segments


LOADER = Loader(plan, pieces, entries, continues=False, shared=0, fills=True, independent=False)
