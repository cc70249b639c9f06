"""Rules just outside the theorem, and the smallest case in which each lets a protected document start.

Each rule is the packer of packers.py with one thing changed. `smallest_witness` walks all small cases from the smallest
up, so that the case it returns is minimal within BOUNDS.
"""

import itertools

from research.theorem.packers import UnsortedPacker, largest_long_keys

PATIENCE = 2
BOUNDS = {"documents": 3, "length": 6, "capacity": 3, "buffer_size": 3}


class PreSegmented(UnsortedPacker):
    """A document enters in pieces that fit a row."""

    def add(self, arrival, length):
        """Buffer a document in pieces of at most `capacity` tokens."""
        for at in range(0, length, self.capacity):
            self.spans.append((arrival, at, min(self.capacity, length - at)))


class TwoActiveSpans(UnsortedPacker):
    """A document whose halves would both still exceed the capacity enters as two spans."""

    def add(self, arrival, length):
        """Buffer a document whole or in two halves."""
        half = length // 2
        if half > self.capacity:
            self.spans += [(arrival, 0, half), (arrival, half, length - half)]
        else:
            self.spans.append((arrival, 0, length))


class FirstInLine(UnsortedPacker):
    """When nothing fits, the earliest arrival is cropped."""

    def fallback(self):
        """Return the span that arrived first."""
        return self.spans[0]


class LongestFirst(UnsortedPacker):
    """When nothing fits, the longest span is cropped."""

    def fallback(self):
        """Return the longest span."""
        return max(self.spans, key=lambda span: (span[2], -span[0]))


class AgeBased(UnsortedPacker):
    """A span that has waited for `PATIENCE` selections is selected next, whether it fits or not."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.selections, self.entered = 0, {}

    def add(self, arrival, length):
        """Buffer a document; its waiting time starts."""
        super().add(arrival, length)
        self.entered[arrival] = self.selections

    def choose(self, space):
        """Return the first in line if it has waited long enough."""
        waited = self.selections - self.entered[self.spans[0][0]]
        self.selections += 1
        return self.spans[0] if waited >= PATIENCE else super().choose(space)


class Flushing(UnsortedPacker):
    """At the end of a pass the buffer is emptied by selections before the next pass starts to arrive."""

    def needs_refill(self):
        """Return False between the end of a pass and the empty buffer."""
        flushing = self.spans and self.arrived and self.arrived % len(self.lengths) == 0
        return super().needs_refill() and not flushing


COUNTEREXAMPLES = {
    "pre-segmentation to the capacity": PreSegmented,
    "flushing at the end of a pass": Flushing,
    "another fallback, first in line": FirstInLine,
    "another fallback, longest": LongestFirst,
    "two active spans a document": TwoActiveSpans,
    f"age-based service after {PATIENCE} selections": AgeBased,
}


def bounded_cases():
    """Return every (lengths, buffer_size, capacity) within BOUNDS, ordered by tokens, documents, buffer and row."""
    sizes = range(1, BOUNDS["documents"] + 1)
    lengths = [case for n in sizes for case in itertools.product(range(1, BOUNDS["length"] + 1), repeat=n)]
    cases = itertools.product(lengths, range(2, BOUNDS["buffer_size"] + 1), range(1, BOUNDS["capacity"] + 1))
    return sorted(cases, key=lambda case: (sum(case[0]), len(case[0]), *case[1:], case[0]))


def protected_selected(packer, passes):
    """Return (selection, arrival) of the first protected document that is selected within `passes` passes, or None."""
    lengths, number = packer.lengths, 1
    packer.refill()
    while packer.arrived <= passes * len(lengths):
        arrived = [lengths[arrival % len(lengths)] for arrival in range(packer.arrived)]
        keys = largest_long_keys(arrived, packer.capacity, packer.buffer_size)
        arrival = packer.select()[1]
        if arrival in {key[1] for key in keys}:
            return number, arrival
        number += 1
        packer.refill()
    return None


def smallest_witness(packer_type, lossless):
    """Return (cases tried, text of the smallest case in which a protected document starts, or None).

    Documents arrive one at a time.
    """
    cases = bounded_cases()
    for tried, (lengths, buffer_size, capacity) in enumerate(cases, 1):
        refill = (1,) * len(lengths)
        packer = packer_type(lengths, refill, capacity=capacity, buffer_size=buffer_size, lossless=lossless)
        if found := protected_selected(packer, passes=buffer_size + 1):
            number, arrival = found
            return tried, (f"lengths {list(lengths)}, capacity {capacity}, buffer {buffer_size}: selection {number} "
                           f"starts arrival {arrival} ({lengths[arrival % len(lengths)]} tokens)")
    return len(cases), None
