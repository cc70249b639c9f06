"""Lossless continuation: the baseline's rule, but what a selected document leaves over stays in the buffer.

One active span per occurrence of a document: its rest keeps the tie order of the original arrival and gets no BOS, so
nothing is ever discarded (paper section 3). Fit and fallback look at what is left of each document.
"""

from loaders import best_fit_crop
from loaders.accounting import validated


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """As `best_fit_crop.plan`; bos is 0 and start > 0 (or 0 after a lone BOS) in continuations. `seed` is not used."""
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return best_fit_crop.pack(lengths, refill, *sizes, continues=True)


LOADER = best_fit_crop.LOADER._replace(plan=plan, continues=True)
