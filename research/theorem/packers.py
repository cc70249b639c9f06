"""The rule in the words of the paper's section 3, and the exact totals of a stream (standard library only).

`UnsortedPacker` keeps a list in order of arrival and reads it from end to end at every selection. It shares nothing
with research/reference_packer.py, which is fast enough for a real stream, and answers the same calls.
"""

import heapq
import itertools
import statistics

from research.reference_packer import ReferencePacker


class UnsortedPacker:
    """Pack passes of a corpus by linear scans; the arguments are those of ReferencePacker.

    A span is (arrival, tokens emitted before, tokens left).
    """

    def __init__(self, lengths, refill, *, capacity, buffer_size, lossless=False):
        self.lengths, self.batches = lengths, itertools.cycle(refill)
        self.capacity, self.buffer_size, self.lossless = capacity, buffer_size, lossless
        self.spans, self.arrived, self.row, self.space = [], 0, 0, capacity

    def add(self, arrival, length):
        """Buffer a document that arrives, whole."""
        self.spans.append((arrival, 0, length))

    def needs_refill(self):
        """Return whether another refill batch must arrive before the next selection."""
        return len(self.spans) < self.buffer_size

    def refill(self):
        """Let batches arrive until `buffer_size` spans are buffered."""
        while self.needs_refill():
            for arrival in range(self.arrived, self.arrived + next(self.batches)):
                self.add(arrival, self.lengths[arrival % len(self.lengths)])
                self.arrived += 1

    def choose(self, space):
        """Return the longest span that fits `space`, or else what `fallback` says; the earliest of equal spans."""
        fitting = [span for span in self.spans if span[2] <= space]
        return min(fitting, key=lambda span: (-span[2], span[0])) if fitting else self.fallback()

    def fallback(self):
        """Return the shortest span."""
        return min(self.spans, key=lambda span: (span[2], span[0]))

    def select(self):
        """Emit one span; return (row, arrival, bos, start, count, rest) as ReferencePacker does."""
        span = arrival, before, length = self.choose(self.space)
        tokens, row, bos = min(length, self.space), self.row, int(before == 0)
        place = self.spans.index(span)
        kept = self.lossless and length > tokens
        self.spans[place:place + 1] = [(arrival, before + tokens, length - tokens)] if kept else []
        self.space -= tokens
        if self.space == 0:
            self.row, self.space = row + 1, self.capacity
        return row, arrival, bos, max(before - 1, 0), tokens - bos, length - tokens

    def buffered(self):
        """Return (arrival, text start, tokens, started) of every buffered span, in order of arrival."""
        return sorted((arrival, max(before - 1, 0), length, before > 0) for arrival, before, length in self.spans)


def largest_long_keys(lengths, capacity, buffer_size):
    """Return the protected set K: the largest min(B - 1, N) keys (length, arrival) of `lengths` over the capacity."""
    keys = [(length, arrival) for arrival, length in enumerate(lengths) if length > capacity]
    return sorted(keys, reverse=True)[:buffer_size - 1]


class ProtectedSet:
    """The same set, kept up to date arrival by arrival in O(log B) each."""

    def __init__(self, capacity, buffer_size):
        self.capacity, self.limit = capacity, buffer_size - 1
        self.heap, self.arrivals = [], set()

    def add(self, arrival, length):
        """Take in an arriving document; the smallest key leaves when the set has more than B - 1."""
        if length > self.capacity:
            heapq.heappush(self.heap, (length, arrival))
            self.arrivals.add(arrival)
            if len(self.heap) > self.limit:
                self.arrivals.remove(heapq.heappop(self.heap)[1])


def replay(lengths, refill, *, capacity, buffer_size, rows, lossless=False, packer_type=ReferencePacker):
    """Return the exact totals after `rows` full rows, {name: integer}.

    `protected_selected` counts the selections of a document that was protected at that moment: the theorem says 0. A
    document enters the protected set only as it arrives, so 0 means that no protected document ever started.
    """
    packer = packer_type(lengths, refill, capacity=capacity, buffer_size=buffer_size, lossless=lossless)
    protected = ProtectedSet(capacity, buffer_size)
    started, long_started, discarded, violations, crops, seen = 0, 0, 0, 0, [], 0
    while packer.row < rows:
        packer.refill()
        for arrival in range(seen, packer.arrived):
            protected.add(arrival, lengths[arrival % len(lengths)])
        seen = packer.arrived
        _, arrival, bos, _, count, rest = packer.select()
        violations += arrival in protected.arrivals
        started += bos
        long_started += bos and lengths[arrival % len(lengths)] > capacity
        if rest and not lossless:
            discarded += rest
            crops.append(bos + count)
    tokens = [span[2] for span in packer.buffered()]
    passes, documents = divmod(packer.arrived, len(lengths))
    return {
        "arrived_documents": packer.arrived,
        "arrived_tokens": passes * sum(lengths) + sum(lengths[:documents]),
        "emitted_tokens": rows * capacity,
        "discarded_tokens": discarded,
        "buffered_documents": len(tokens),
        "buffered_tokens": sum(tokens),
        "started_documents": started,
        "started_long_documents": long_started,
        "crops": len(crops),
        "bos_only_crops": crops.count(1),
        "median_retained_prefix": statistics.median_low(crops) if crops else None,
        "protected_documents": len(protected.heap),
        "protected_tokens": sum(length for length, _ in protected.heap),
        "protected_selected": violations,
    }
