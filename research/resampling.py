"""Exact sums of losses, and resampling that every machine repeats bit for bit.

Nats become whole units of 2^-30 of a nat, so their sums are the same in any order; a window of 2,048 targets is off by
less than 5e-10. Everything that follows is one IEEE operation at a time. Random picks are integer arithmetic on the raw
output of PCG64, which NumPy keeps stable. Percentiles are order statistics with linear interpolation.
"""

import math

import numpy as np

UNIT = 2**30
WORD = np.uint64(32)
ROUNDING = 1e-13  # bits per byte: differences of two scores near 1 are off by some 4e-16


def units(nats):
    """Return an int64 array: nats (float64, of any shape) in units of 2^-30, rounded to nearest."""
    return np.rint(np.asarray(nats, np.float64) * UNIT).astype(np.int64)


def bits_per_byte(unit_sums, byte_sums):
    """Return nats / (ln 2 x bytes) as float64, element by element, from integer sums."""
    return np.asarray(unit_sums) / (np.asarray(byte_sums) * (UNIT * math.log(2)))


def shuffled(seed, size):
    """Return int64 (size,): 0 .. size - 1 in a random order; `seed` is an integer or a list of integers."""
    return np.argsort(np.random.PCG64(seed).random_raw(size), kind="stable")


def multiplicities(seed, replicates, size):
    """Return int64 (replicates, size): how often each of `size` items occurs in `size` draws with replacement."""
    raw = np.random.PCG64(seed).random_raw(replicates * size)
    picks = ((raw >> WORD) * np.uint64(size)) >> WORD
    cells = np.repeat(np.arange(replicates), size) * size + picks.astype(np.int64)
    return np.bincount(cells, minlength=replicates * size).reshape(replicates, size)


def no_spread(values):
    """Return why values have no interval, where all replicates agree to the rounding of a float64; else None."""
    spread = np.ptp(values)
    return "all replicates agree to rounding: resampling shows no spread" if spread <= ROUNDING else None


def interval(values, contrasts=1):
    """Return [low, high], the central 95 % of values, or 1 - 0.05 / contrasts of them by Bonferroni's rule."""
    ordered, bounds = np.sort(values), []
    parts = 40 * contrasts  # one tail is 0.05 / 2 / contrasts
    for numerator in (1, parts - 1):
        place, rest = divmod((len(ordered) - 1) * numerator, parts)
        low, high = ordered[place], ordered[min(place + 1, len(ordered) - 1)]
        bounds.append(float(low + (high - low) * (rest / parts)))
    return bounds
