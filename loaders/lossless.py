"""Lossless continuation: the baseline's rule, but the rest of a selected document stays in the buffer.

Each occurrence of a document has one active span. The rest keeps the tie order of the original arrival and gets no new
BOS, so nothing is discarded (paper section 3). Fit and fallback compare what is left of each document.
"""

from loaders import best_fit_crop
from loaders.accounting import validated


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Plan as `best_fit_crop.plan` does; a continuation has bos 0. `seed` is not used."""
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return best_fit_crop.joined(pieces(lengths, refill, *sizes, seed))


def pieces(lengths, refill, capacity, rows, buffer_size, seed):
    """Yield the plan in pieces, int64 (at most BLOCK, 5) each."""
    return best_fit_crop.blocks(lengths, refill, capacity, rows, buffer_size, continues=True)


LOADER = best_fit_crop.LOADER._replace(plan=plan, pieces=pieces, continues=True)
