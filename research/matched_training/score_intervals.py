"""Intervals on differences of official scores, by a paired bootstrap over the rows that all runs scored.

Each replicate draws as many rows as there are, with replacement, and both runs of a difference share the draw. The
interval says how the difference depends on the rows of the validation stream. It says nothing about other seeds,
because a training run is not drawn again.
"""

from research.reference_scores import baseline_of
from research.resampling import bits_per_byte, interval, multiplicities, no_spread, units

REPLICATES, SEED = 10_000, 147_024


def difference_intervals(nats, sizes):
    """Return {run: ([low, high], None), or (None, the reason)} for every run with a baseline of the same seed.

    nats: {run: float64 (rows,)}. sizes: int64 (rows,), the supplied bytes of each row, which all runs share.
    """
    weights = multiplicities(SEED, REPLICATES, len(sizes))
    found = {}
    for run, baseline in ((run, baseline_of(run)) for run in nats):
        if run == baseline or baseline not in nats:
            continue
        if sizes.min() <= 0:
            found[run] = None, "a row without bytes: a replicate may have none"
            continue
        difference = weights @ (units(nats[run]) - units(nats[baseline]))
        values = bits_per_byte(difference, weights @ sizes)
        reason = no_spread(values)
        found[run] = (None, reason) if reason else (interval(values), None)
    return found
