"""Group padded rows by length. This saves padding and changes the order in which a model reads documents."""

import math

import numpy as np

from loaders.accounting import BOS, COUNT, ROW


def grouped(segments, size):
    """Return a padded plan in which every `size` consecutive rows are sorted by length, stably."""
    length = segments[:, BOS] + segments[:, COUNT]
    plan = segments[np.lexsort((length, segments[:, ROW] // size))]
    plan[:, ROW] = segments[:, ROW]
    return plan


def order_bias(segments, size, microbatch):
    """Return a dict of what grouping a padded plan by length saves and costs.

    `padding` has the pairs [padding, positions] before and after. `moved` counts the rows that changed place.
    `place_length_correlation` correlates a row's place in its group with its length, before and after: 0 means no
    bias, and towards 1 the model reads the short documents of a group first. It is None where it is undefined.
    """
    plans = segments, grouped(segments, size)
    lengths = [plan[:, BOS] + plan[:, COUNT] for plan in plans]
    place = segments[:, ROW] % size
    return {
        "padding": [_padding(length, microbatch) for length in lengths],
        "moved": int(np.count_nonzero((plans[0] != plans[1]).any(axis=1))),
        "place_length_correlation": [_correlation(place.tolist(), length.tolist()) for length in lengths],
    }


def _padding(length, microbatch):
    widest = [int(part.max()) * len(part) for part in np.split(length, range(microbatch, len(length), microbatch))]
    return [sum(widest) - int(length.sum()), sum(widest)]


def _correlation(x, y):
    """Return Pearson's correlation from exact integer sums; None if x or y is constant."""
    n, sums = len(x), [sum(a * b for a, b in zip(*pair)) for pair in ((x, y), (x, x), (y, y))]
    xy, xx, yy = (n * s - sum(a) * sum(b) for s, (a, b) in zip(sums, ((x, y), (x, x), (y, y))))
    return xy / math.sqrt(xx * yy) if xx and yy else None
