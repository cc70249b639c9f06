"""The arithmetic of scores for verifiers: standard library only, independent of the trainer that made the scores."""

import math


def baseline_of(run):
    """Return the name of the baseline run that has the seed of `run`."""
    return f"baseline_s{run.rsplit('_s', 1)[1]}"


def bits_per_byte(nats, size):
    """Return `nats` (float, a sum) as bits, divided by `size` bytes."""
    return nats / (math.log(2) * size)


def quotients(nats, supplied_bytes, raw_bytes, targets):
    """Return the four numbers of a score that follow from its sums, by the key that a result gives them."""
    return {"bits_per_byte": bits_per_byte(nats, supplied_bytes), "raw_bits_per_byte": bits_per_byte(nats, raw_bytes),
            "cross_entropy": nats / targets, "perplexity": math.exp(nats / targets)}


def minus_baseline(bits):
    """Return {run: bits per byte minus those of the baseline of its seed} for {run: bits per byte}."""
    return {run: value - bits[baseline_of(run)] for run, value in bits.items() if run != baseline_of(run)}
