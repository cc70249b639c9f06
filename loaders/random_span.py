"""Condition `random_crop`: the baseline's selections, but a cropped document emits a random span instead of its start.

Arrivals, rows, counts and BOS positions are those of `best_fit_crop`. Only the `start` of cropped segments differs: it
is drawn uniformly over all spans of that count (paper section 4). Whole documents stay as they are.
"""

import numpy as np

from loaders import best_fit_crop
from loaders.accounting import ARRIVAL, COUNT, START, integer_at_least, validated


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Plan as `best_fit_crop.plan` does, with the start of each cropped segment drawn from PCG64(seed) in row order.

    A crop that keeps only the BOS has start 0 and takes no draw. Fewer rows give a prefix of the same plan.
    ValueError without a seed of at least 0.
    """
    seed = integer_at_least("seed", seed, 0)
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return best_fit_crop.joined(pieces(lengths, refill, *sizes, seed))


def pieces(lengths, refill, capacity, rows, buffer_size, seed):
    """Yield the plan in pieces, int64 (at most BLOCK, 5) each."""
    generator = np.random.Generator(np.random.PCG64(seed))
    for segments in best_fit_crop.pieces(lengths, refill, capacity, rows, buffer_size, seed):
        text, count = lengths[segments[:, ARRIVAL] % len(lengths)] - 1, segments[:, COUNT]
        drawn = (count > 0) & (count < text)
        segments[drawn, START] = generator.integers(0, (text - count)[drawn], endpoint=True)
        yield segments


LOADER = best_fit_crop.LOADER._replace(plan=plan, pieces=pieces)
