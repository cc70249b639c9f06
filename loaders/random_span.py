"""Condition `random_crop`: the baseline's selections, but a cropped document emits a random span instead of its start.

Arrivals, rows, counts and BOS positions are those of `best_fit_crop`. Only the `start` of cropped segments differs: it
is drawn uniformly over all spans of that count (paper section 4). Whole documents stay as they are.
"""

import numpy as np

from loaders import best_fit_crop
from loaders.accounting import ARRIVAL, COUNT, START, integer_at_least, positive_integers


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Plan as `best_fit_crop.plan` does, with the start of each cropped segment drawn from PCG64(seed) in row order.

    A crop that keeps only the BOS has start 0 and takes no draw. Fewer rows give a prefix of the same plan.
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
