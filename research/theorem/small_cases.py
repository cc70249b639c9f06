"""Every small world, followed selection by selection: the proposition of the paper's section 3 and its corollaries.

A world is (lengths, refill, capacity, buffer_size): one pass of a corpus, repeated, under one set of limits. Violations
and the cases that could have shown one are counted apart, so that a claim that was never at stake is seen.
"""

import itertools

from research.theorem.packers import Packer, SortedBuffer, UnsortedBuffer, largest_long_keys


def refill_patterns(documents):
    """Every way to cut a pass of `documents` into refill batches: all compositions."""
    for cuts in itertools.product((False, True), repeat=documents - 1):
        ends = [i + 1 for i, cut in enumerate(cuts) if cut] + [documents]
        yield tuple(end - start for start, end in zip([0] + ends, ends))


def small_worlds(size):
    """(lengths, refill, capacity, buffer_size): every sequence of 1..size lengths 1..capacity + 3, every refill."""
    for capacity, documents in itertools.product(range(1, 5), range(1, size + 1)):
        for lengths in itertools.product(range(1, capacity + 4), repeat=documents):
            for refill, buffer_size in itertools.product(refill_patterns(documents), range(1, 5)):
                yield lengths, refill, capacity, buffer_size


def check_boundary(packer, keys, counts):
    """The proposition and the mass corollary in the state before a selection."""
    held = set(packer.buffer.spans)
    counts["boundaries"] += 1
    counts["guarded boundaries"] += bool(keys)
    counts["proposition broken"] += not all((arrival, 0, length) in held for length, arrival in keys)
    counts["mass broken"] += sum(span[2] for span in held) < sum(length for length, _ in keys)


def check_begin(packer, arrived, length, counts):
    """The startup and repeated-corpus corollaries when a document of `length` > capacity is begun."""
    size = packer.buffer_size
    as_long = sum(other >= length for other in packer.lengths)
    passes_begun = -(-packer.arrived // len(packer.lengths))
    counts["long begun"] += 1
    counts["startup broken"] += sum(other > packer.capacity for other in arrived) < size
    counts["repeated broken"] += passes_begun * as_long < size or sum(other >= length for other in arrived) < size
    counts["bound attained"] += passes_begun == -(-size // as_long)


def held_mass(packer, keys):
    """Tokens that the protected documents hold in the buffer, as found there."""
    held = {arrival: length for arrival, _, length in packer.buffer.spans}
    return sum(held.get(arrival, 0) for _, arrival in keys)


def walk_world(world, lossless, counts, masses):
    """Follow both packers through buffer_size + 1 passes of one world, checking at each selection boundary.

    `masses` collects, for each multiset of lengths after whole passes, the protected masses of all its orders.
    """
    lengths, refill, capacity, buffer_size = world
    packer = Packer(UnsortedBuffer(lossless), *world)
    twin = Packer(SortedBuffer(lossless), *world)
    arrived, keys, used = [], [], 0
    while packer.arrived <= (buffer_size + 1) * len(lengths):
        packer.fill()
        twin.fill()
        if len(arrived) < packer.arrived:
            arrived += [packer.length(arrival) for arrival in range(len(arrived), packer.arrived)]
            keys = largest_long_keys(arrived, capacity, buffer_size)
            if packer.arrived % len(lengths) == 0:
                masses[tuple(sorted(lengths)), capacity, buffer_size, packer.arrived].add(held_mass(packer, keys))
        check_boundary(packer, keys, counts)
        selection = packer.select()
        counts["packers differ"] += twin.select() != selection
        arrival, start, count, rest = selection
        used += count + (0 if lossless else rest)
        if not start and arrived[arrival] > capacity:
            check_begin(packer, arrived, arrived[arrival], counts)
    counts["worlds"] += 1
    buffered = sum(span[2] for span in packer.buffer.spans)
    counts["account broken"] += used + buffered != sum(arrived) or packer.buffer.spans != twin.buffer.spans
