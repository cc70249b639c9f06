"""Condition `random_crop`: the baseline's selections, but a cropped document shows a random span instead of its start.

Same arrivals, rows, counts and BOS positions as `best_fit_crop` by construction: only `start` of cropped segments
differs, drawn uniformly over all spans of that count (paper section 4). Whole documents are untouched.
"""

import numpy as np

from loaders import best_fit_crop
from loaders.accounting import ARRIVAL, COUNT, START, integer_at_least, positive_integers


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """As `best_fit_crop.plan`, with the start of each cropped segment drawn from PCG64(seed) in row order.

    A crop that keeps only the BOS keeps start 0 and consumes no draw. Fewer rows give a prefix of the same plan.
    ValueError without a seed of at least 0.
    """
    seed = integer_at_least("seed", seed, 0)
    segments = best_fit_crop.plan(lengths, capacity=capacity, rows=rows, buffer_size=buffer_size, refill=refill)
    text = positive_integers("lengths", lengths)[segments[:, ARRIVAL] % len(lengths)] - 1
    count = segments[:, COUNT]
    drawn = (count > 0) & (count < text)
    generator = np.random.Generator(np.random.PCG64(seed))
    segments[drawn, START] = generator.integers(0, (text - count)[drawn], endpoint=True)
    return segments


LOADER = best_fit_crop.LOADER._replace(plan=plan)
