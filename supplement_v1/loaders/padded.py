"""One document a row, in order of arrival; what is left of the row is padding.

A document longer than a row is cut into pieces of a full row, each with a row of its own, that share one token: the
last of a piece is the first of the next. So every token of a document but its BOS is a target exactly once, though a
later piece does not see the earlier ones. Nothing is discarded. A batch is as wide as its longest row.
"""

import math

import numpy as np

from loaders.accounting import BOS, COUNT, ROW, validated
from loaders.best_fit_crop import entries  # noqa: F401  (what the ledger counts: one entry a document)
from loaders.concatenated import segments

CONTINUES = True
SHARED = 1
INDEPENDENT = True
FILLS = False


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """As `best_fit_crop.plan`, but one segment a row, of at most `capacity` tokens.

    Order alone decides, so `buffer_size`, `refill` and `seed` change nothing.
    """
    lengths, _, capacity, rows, _ = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    pieces = np.maximum(1, -(-(lengths - SHARED) // (capacity - SHARED)))
    row = np.arange(rows)
    passes, piece = np.divmod(row, pieces.sum())
    document = np.searchsorted(np.cumsum(pieces), piece, side="right")
    begin = (piece - (np.cumsum(pieces) - pieces)[document]) * (capacity - SHARED)
    end = np.minimum(begin + capacity, lengths[document])
    return segments(row, passes * len(lengths) + document, begin, end)


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
