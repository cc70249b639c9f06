"""Rules just outside the proposition, and the smallest world in which each lets a protected document begin.

The five limits of the paper's section 3. Each rule is the reference packer with one thing changed; `smallest_witness`
walks all small worlds from the smallest up, so that the world it returns is minimal within its bounds.
"""

import itertools

from research.theorem.packers import Packer, UnsortedBuffer, largest_long_keys

PATIENCE = 2
BOUNDS = {"documents": 3, "length": 6, "capacity": 3, "buffer_size": 3}


class PreSegmented(UnsortedBuffer):
    """A document enters in pieces that fit a row."""

    def __init__(self, lossless, capacity):
        super().__init__(lossless)
        self.capacity = capacity

    def add(self, arrival, length):
        """A document arrives, in pieces of at most `capacity` tokens."""
        self.spans += [(arrival, at, min(self.capacity, length - at)) for at in range(0, length, self.capacity)]


class TwoActiveSpans(PreSegmented):
    """A document whose halves would both still exceed the capacity enters as two spans."""

    def add(self, arrival, length):
        """A document arrives, whole or in two halves."""
        half = length // 2 if length // 2 > self.capacity else 0
        self.spans += [(arrival, 0, half), (arrival, half, length - half)] if half else [(arrival, 0, length)]


class FirstInLine(UnsortedBuffer):
    """When nothing fits, the earliest arrival is cropped."""

    def fallback(self):
        """The span that arrived first."""
        return self.spans[0]


class LongestFirst(UnsortedBuffer):
    """When nothing fits, the longest span is cropped."""

    def fallback(self):
        """The longest span."""
        return max(self.spans, key=lambda span: (span[2], -span[0]))


class AgeBased(UnsortedBuffer):
    """A span that has waited for `PATIENCE` selections is served next, whatever fits."""

    def __init__(self, lossless):
        super().__init__(lossless)
        self.selections, self.entered = 0, {}

    def add(self, arrival, length):
        """A document arrives; its waiting time starts."""
        super().add(arrival, length)
        self.entered[arrival] = self.selections

    def choose(self, space):
        """The first in line when it has waited long enough."""
        waited = self.selections - self.entered[self.spans[0][0]]
        self.selections += 1
        return self.spans[0] if waited >= PATIENCE else super().choose(space)


class FlushingPacker(Packer):
    """At the end of a pass the buffer is emptied by selections before the next pass begins."""

    def short_of_spans(self):
        """No document arrives between the end of a pass and the empty buffer."""
        flushing = len(self.buffer) and self.arrived and self.arrived % len(self.lengths) == 0
        return super().short_of_spans() and not flushing


def _ignoring_capacity(buffer_type):
    return lambda lossless, capacity: buffer_type(lossless)


STUDIED = (_ignoring_capacity(UnsortedBuffer), Packer)
LIMITS = {
    "pre-segmentation to the capacity": (PreSegmented, Packer),
    "flushing at the end of a pass": (_ignoring_capacity(UnsortedBuffer), FlushingPacker),
    "another fallback, first in line": (_ignoring_capacity(FirstInLine), Packer),
    "another fallback, longest": (_ignoring_capacity(LongestFirst), Packer),
    "two active spans a document": (TwoActiveSpans, Packer),
    f"age-based service after {PATIENCE} selections": (_ignoring_capacity(AgeBased), Packer),
}


def _worlds():
    """(lengths, buffer_size, capacity) within BOUNDS: fewest tokens, documents, spans, then smallest row first."""
    sizes = range(1, BOUNDS["documents"] + 1)
    lengths = [world for n in sizes for world in itertools.product(range(1, BOUNDS["length"] + 1), repeat=n)]
    worlds = itertools.product(lengths, range(2, BOUNDS["buffer_size"] + 1), range(1, BOUNDS["capacity"] + 1))
    return sorted(worlds, key=lambda world: (sum(world[0]), len(world[0]), *world[1:], world[0]))


def protected_selected(packer, passes):
    """The first selection of a protected document within `passes` passes: (its number, the arrival), else None."""
    for number in itertools.count(1):
        packer.fill()
        if packer.arrived > passes * len(packer.lengths):
            return None
        arrived = [packer.length(arrival) for arrival in range(packer.arrived)]
        keys = largest_long_keys(arrived, packer.capacity, packer.buffer_size)
        arrival = packer.select()[0]
        if arrival in {key[1] for key in keys}:
            return number, arrival


def smallest_witness(rule, lossless):
    """(worlds tried, description of the smallest world in which `rule` begins a protected document, or None).

    `rule` is (buffer_type(lossless, capacity), packer_type); documents arrive one at a time.
    """
    buffer_type, packer_type = rule
    for tried, (lengths, buffer_size, capacity) in enumerate(_worlds(), 1):
        buffer = buffer_type(lossless, capacity)
        packer = packer_type(buffer, lengths, (1,) * len(lengths), capacity, buffer_size)
        if found := protected_selected(packer, passes=buffer_size + 1):
            number, arrival = found
            return tried, (f"lengths {list(lengths)}, capacity {capacity}, buffer {buffer_size}: selection {number} "
                           f"begins arrival {arrival} ({packer.length(arrival)} tokens)")
    return tried, None
