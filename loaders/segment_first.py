"""Condition `segmented`: documents longer than a row are split into chunks before they enter the buffer.

A chunk has at most `capacity - 1` text tokens after a BOS of its own; chunks do not overlap. A refill batch brings all
chunks of its documents, in order. Fitting, ties (by order of arrival, chunk by chunk) and the crop of the shortest are
the baseline's, so the tail of a chunk may still be discarded (paper section 4).
"""

import numpy as np

from loaders.accounting import ARRIVAL, START, Loader, batch_sums, entry_lengths, validated
from loaders.best_fit_crop import pack


def entries(lengths, capacity):
    """Return int64 (documents,): the chunks that each document becomes, one when it fits a row."""
    return np.where(lengths > capacity, -(-(lengths - 1) // (capacity - 1)), 1)


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Plan as `best_fit_crop.plan` does, over chunks; arrival and start are the document's. `seed` is not used."""
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    chunks = entries(lengths, capacity)
    segments = pack(entry_lengths(lengths, chunks, capacity), batch_sums(chunks, refill), *sizes,
                    continues=False)
    passes, chunk = np.divmod(segments[:, ARRIVAL], chunks.sum())
    document = np.repeat(np.arange(len(lengths)), chunks)[chunk]
    first = np.cumsum(chunks) - chunks
    segments[:, ARRIVAL] = passes * len(lengths) + document
    segments[:, START] = (chunk - first[document]) * (capacity - 1)
    return segments


LOADER = Loader(plan, entries, continues=False, shared=0, fills=True, independent=False)
