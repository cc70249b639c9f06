"""Two packers of the studied family, written apart and made to be compared (standard library only).

`UnsortedBuffer` is the rule as the paper's section 3 words it: a list in order of arrival, read from end to end at
every selection. `SortedBuffer` keeps (length, arrival) keys in order and finds the same spans by bisection, fast enough
for a real stream. Both crop and discard, or with `lossless` keep the suffix as the one active span of its document.
Lengths are tokens, BOS included. A span is (arrival, start, length), `start` tokens of its document emitted before.
A selection is (arrival, start, count, rest): `count` tokens are emitted, `rest` are dropped or, if lossless, kept.
"""

import heapq
import itertools
import statistics
from bisect import bisect_left, insort


class UnsortedBuffer:
    """Spans in order of arrival, found by linear scans."""

    def __init__(self, lossless):
        self.lossless = lossless
        self.spans = []

    def __len__(self):
        return len(self.spans)

    def add(self, arrival, length):
        """A document arrives, whole."""
        self.spans.append((arrival, 0, length))

    def choose(self, space):
        """The longest span that fits `space`, or else what `fallback` says; ties to the earliest arrival."""
        fitting = [span for span in self.spans if span[2] <= space]
        return min(fitting, key=lambda span: (-span[2], span[0])) if fitting else self.fallback()

    def fallback(self):
        """The shortest span."""
        return min(self.spans, key=lambda span: (span[2], span[0]))

    def take(self, space):
        """Select for `space` left in the row; returns (arrival, start, count, rest)."""
        span = arrival, start, length = self.choose(space)
        count = min(length, space)
        place = self.spans.index(span)
        kept = self.lossless and length > count
        self.spans[place:place + 1] = [(arrival, start + count, length - count)] if kept else []
        return arrival, start, count, length - count


class SortedBuffer:
    """The same selections from a list sorted by (length, arrival)."""

    def __init__(self, lossless):
        self.lossless = lossless
        self.keys = []
        self.emitted = {}

    def __len__(self):
        return len(self.keys)

    @property
    def spans(self):
        """The buffered spans in order of arrival."""
        return sorted((arrival, self.emitted.get(arrival, 0), length) for length, arrival in self.keys)

    def add(self, arrival, length):
        """A document arrives, whole."""
        insort(self.keys, (length, arrival))

    def take(self, space):
        """Select for `space` left in the row; returns (arrival, start, count, rest)."""
        longer = bisect_left(self.keys, (space + 1,))
        place = bisect_left(self.keys, (self.keys[longer - 1][0],)) if longer else 0
        length, arrival = self.keys.pop(place)
        count = min(length, space)
        start = self.emitted.pop(arrival, 0)
        if self.lossless and length > count:
            insort(self.keys, (length - count, arrival))
            self.emitted[arrival] = start + count
        return arrival, start, count, length - count


class Packer:
    """One stream through one buffer: passes repeat without a reset, whole refill batches arrive before a selection."""

    def __init__(self, buffer, lengths, refill, capacity, buffer_size):
        self.buffer, self.lengths, self.capacity, self.buffer_size = buffer, lengths, capacity, buffer_size
        self.batches = itertools.cycle(refill)
        self.arrived = self.row = 0
        self.space = capacity

    def length(self, arrival):
        """Tokens of the document that is the `arrival`-th to arrive, from 0."""
        return self.lengths[arrival % len(self.lengths)]

    def short_of_spans(self):
        """Whether another refill batch must arrive before the next selection."""
        return len(self.buffer) < self.buffer_size

    def fill(self):
        """Refill until `buffer_size` spans are held: the state that follows is a selection boundary."""
        while self.short_of_spans():
            for arrival in range(self.arrived, self.arrived + next(self.batches)):
                self.buffer.add(arrival, self.length(arrival))
                self.arrived += 1

    def select(self):
        """Make one selection and return it; a full row gives way to the next."""
        selection = self.buffer.take(self.space)
        self.space -= selection[2]
        if not self.space:
            self.row, self.space = self.row + 1, self.capacity
        return selection


def largest_long_keys(lengths, capacity, buffer_size):
    """The protected set K: the largest min(B - 1, N_L) keys (length, arrival) of the arrived `lengths` > capacity."""
    keys = [(length, arrival) for arrival, length in enumerate(lengths) if length > capacity]
    return sorted(keys, reverse=True)[:buffer_size - 1]


class ProtectedSet:
    """The same set kept up to date arrival by arrival, in O(log B) each."""

    def __init__(self, capacity, buffer_size):
        self.capacity, self.limit = capacity, buffer_size - 1
        self.heap, self.arrivals = [], set()

    def add(self, arrival, length):
        """A document arrives; the smallest key leaves when there are more than B - 1."""
        if length > self.capacity:
            heapq.heappush(self.heap, (length, arrival))
            self.arrivals.add(arrival)
            if len(self.heap) > self.limit:
                self.arrivals.remove(heapq.heappop(self.heap)[1])


def replay(lengths, refill, *, capacity, buffer_size, rows, lossless=False, buffer_type=SortedBuffer):
    """Exact totals after `rows` full rows, as {name: integer}.

    `protected_selected` counts selections of a document that was protected at that moment: the proposition says 0. A
    document enters the protected set only as it arrives, so 0 means that no protected one was ever begun.
    """
    packer = Packer(buffer_type(lossless), lengths, refill, capacity, buffer_size)
    protected = ProtectedSet(capacity, buffer_size)
    begun, long_begun, discarded, violations, crops, seen = 0, 0, 0, 0, [], 0
    while packer.row < rows:
        packer.fill()
        for arrival in range(seen, packer.arrived):
            protected.add(arrival, packer.length(arrival))
        seen = packer.arrived
        arrival, start, count, rest = packer.select()
        violations += arrival in protected.arrivals
        begun += not start
        long_begun += not start and packer.length(arrival) > capacity
        if rest and not lossless:
            discarded += rest
            crops.append(count)
    buffered = packer.buffer.spans
    passes, documents = divmod(packer.arrived, len(lengths))
    return {
        "arrived_documents": packer.arrived,
        "arrived_tokens": passes * sum(lengths) + sum(lengths[:documents]),
        "emitted_tokens": rows * capacity,
        "discarded_tokens": discarded,
        "buffered_documents": len(buffered),
        "buffered_tokens": sum(span[2] for span in buffered),
        "started_documents": begun,
        "started_long_documents": long_begun,
        "crops": len(crops),
        "bos_only_crops": crops.count(1),
        "median_retained_prefix": statistics.median_low(crops) if crops else None,
        "protected_documents": len(protected.heap),
        "protected_tokens": sum(length for length, _ in protected.heap),
        "protected_selected": violations,
    }
