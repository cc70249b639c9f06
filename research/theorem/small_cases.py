"""Every small case, followed selection by selection: the theorem and its corollaries hold in it, or are counted broken.

A case is (lengths, refill, capacity, buffer_size): one pass of a corpus, repeated. Violations and the states that could
have shown one are counted apart, so that a claim that was never at stake is noticed.
"""

import itertools

from research.reference_packer import ReferencePacker
from research.theorem.packers import UnsortedPacker, largest_long_keys


def refill_patterns(documents):
    """Yield every way to cut a pass of `documents` into refill batches: all compositions."""
    for cuts in itertools.product((False, True), repeat=documents - 1):
        ends = [0, *[i + 1 for i, cut in enumerate(cuts) if cut], documents]
        yield tuple(end - start for start, end in itertools.pairwise(ends))


def small_cases(size):
    """Yield every (lengths, refill, capacity, buffer_size) of 1..size documents of 1..capacity + 3 tokens."""
    for capacity, documents in itertools.product(range(1, 5), range(1, size + 1)):
        for lengths in itertools.product(range(1, capacity + 4), repeat=documents):
            for refill, buffer_size in itertools.product(refill_patterns(documents), range(1, 5)):
                yield lengths, refill, capacity, buffer_size


def check_boundary(spans, keys, counts):
    """Count the theorem and the mass corollary in the state before a selection; spans as `buffered` returns them."""
    whole = {(length, arrival) for arrival, _, length, started in spans if not started}
    counts["boundaries"] += 1
    counts["guarded boundaries"] += bool(keys)
    counts["theorem broken"] += not whole.issuperset(keys)
    counts["mass broken"] += sum(span[2] for span in spans) < sum(length for length, _ in keys)


def check_start(lengths, arrived, capacity, buffer_size, length, counts):
    """Count the startup and the repetition corollary when a document of `length` > capacity starts."""
    as_long = sum(other >= length for other in lengths)
    passes = -(-len(arrived) // len(lengths))
    counts["long starts"] += 1
    counts["startup broken"] += sum(other > capacity for other in arrived) < buffer_size
    too_few = sum(other >= length for other in arrived) < buffer_size
    counts["repetition broken"] += passes * as_long < buffer_size or too_few
    counts["bound attained"] += passes == -(-buffer_size // as_long)


def buffered_mass(spans, keys):
    """Return the tokens that the protected documents have in the buffer, as found there."""
    tokens = {arrival: length for arrival, _, length, _ in spans}
    return sum(tokens.get(arrival, 0) for _, arrival in keys)


def walk_case(case, lossless, counts, masses):
    """Follow both packers through buffer_size + 1 passes of one case and count each claim at each selection.

    `masses` collects, for each multiset of lengths after whole passes, the protected masses of all its orders.
    """
    lengths, refill, capacity, buffer_size = case
    sizes = {"capacity": capacity, "buffer_size": buffer_size, "lossless": lossless}
    packer, twin = UnsortedPacker(lengths, refill, **sizes), ReferencePacker(lengths, refill, **sizes)
    arrived, keys, used = [], [], 0
    while packer.arrived <= (buffer_size + 1) * len(lengths):
        packer.refill()
        twin.refill()
        spans = packer.buffered()
        if len(arrived) < packer.arrived:
            arrived += [lengths[arrival % len(lengths)] for arrival in range(len(arrived), packer.arrived)]
            keys = largest_long_keys(arrived, capacity, buffer_size)
            if packer.arrived % len(lengths) == 0:
                masses[tuple(sorted(lengths)), capacity, buffer_size, packer.arrived].add(buffered_mass(spans, keys))
        check_boundary(spans, keys, counts)
        selection = packer.select()
        counts["packers differ"] += twin.select() != selection
        _, arrival, bos, _, count, rest = selection
        used += bos + count + (0 if lossless else rest)
        if bos and arrived[arrival] > capacity:
            check_start(lengths, arrived, capacity, buffer_size, arrived[arrival], counts)
    counts["cases"] += 1
    left = packer.buffered()
    counts["account broken"] += used + sum(span[2] for span in left) != sum(arrived) or left != twin.buffered()
