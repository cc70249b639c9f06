"""Grouping padded rows by length: it saves padding, and it changes the order in which a model reads documents."""

import math

import numpy as np

from loaders.accounting import BOS, COUNT, ROW


def grouped(segments, size):
    """A padded plan with every `size` consecutive rows put in order of length (ties: as they were): less padding."""
    length = segments[:, BOS] + segments[:, COUNT]
    plan = segments[np.lexsort((length, segments[:, ROW] // size))]
    plan[:, ROW] = segments[:, ROW]
    return plan


def order_bias(segments, size, microbatch):
    """What grouping by length costs and saves over a padded plan, as a dict.

    padding: share of positions that are padding, as [before, after], exact [padding, positions] pairs; moved: rows that
    changed place; place_length_correlation: of a row's place in its group of `size` with its length, [before, after]
    (0: no bias; towards 1: within every group the model sees the short documents first); None where undefined.
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
    """Pearson's, by exact integer sums; None when one of them is constant."""
    n, sums = len(x), [sum(a * b for a, b in zip(*pair)) for pair in ((x, y), (x, x), (y, y))]
    xy, xx, yy = (n * s - sum(a) * sum(b) for s, (a, b) in zip(sums, ((x, y), (x, x), (y, y))))
    return xy / math.sqrt(xx * yy) if xx and yy else None
