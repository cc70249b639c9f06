"""The reference packer: the rule that this project studies, in standard-library Python and independent of loaders/.

Verifiers and tests compare the compiled loaders with it. Whole refill batches arrive until `buffer_size` entries are
buffered. The longest entry that fits the space left in the row is emitted. If none fits, the shortest entry is cropped
to the space; its rest is discarded, or with `lossless` it stays buffered. The earliest of equal entries comes first.
An entry is a document with its BOS token, or with `chunk` a piece of a document that is longer than a row.

Entries are buffered as integers, `length << 40 | number`: one sorted list orders them by length, then by arrival.
"""

from bisect import bisect_left, insort
from itertools import accumulate, pairwise

NUMBER_BITS = 40
NUMBERS = (1 << NUMBER_BITS) - 1


def pieces(length, capacity):
    """Yield (text start, tokens) of the pieces of a document; each has a BOS token and fits a row."""
    for start in range(0, max(length - 1, 1), capacity - 1):
        yield start, min(length - start, capacity)


class ReferencePacker:
    """Pack passes of a corpus, one selection at a time.

    lengths: tokens of each document of a pass, BOS included (list of int). refill: documents in each batch of a pass.
    `keys` are the buffered entries in order, `taken` counts the batches that have arrived, `row` counts the full rows,
    and `space` is what is left of the current row. A packer with another rule overrides `choose`. ValueError unless
    `refill` shares out the documents.
    """

    def __init__(self, lengths, refill, *, capacity, buffer_size, lossless=False, chunk=False):
        if not lengths or sum(refill) != len(lengths) or min(refill) < 1:
            raise ValueError(f"expected refill batches of {len(lengths)} documents in all, found {sum(refill)}")
        self.capacity, self.buffer_size, self.lossless = capacity, buffer_size, lossless
        self.documents, self.ends = len(lengths), [0, *accumulate(refill)]
        self.origin, self.batches = [], []
        for first, end in pairwise(self.ends):
            batch = []
            for document in range(first, end):
                length = lengths[document]
                for start, tokens in pieces(length, capacity) if chunk and length > capacity else [(0, length)]:
                    batch.append(tokens << NUMBER_BITS | len(self.origin))
                    self.origin.append((document, start))
            self.batches.append(sorted(batch))
        self.keys, self.emitted, self.taken, self.row, self.space = [], {}, 0, 0, capacity

    def __len__(self):
        """Return how many entries are buffered."""
        return len(self.keys)

    @property
    def arrived(self):
        """The number of documents that have arrived."""
        passes, batch = divmod(self.taken, len(self.batches))
        return passes * self.documents + self.ends[batch]

    def arrive(self):
        """Let the next refill batch arrive."""
        passes, batch = divmod(self.taken, len(self.batches))
        offset = passes * len(self.origin)
        self.keys += [key + offset for key in self.batches[batch]]
        self.keys.sort()
        self.taken += 1

    def refill(self):
        """Let batches arrive until `buffer_size` entries are buffered."""
        while len(self) < self.buffer_size:
            self.arrive()

    def fitting(self, space):
        """Return how many buffered entries have at most `space` tokens."""
        return bisect_left(self.keys, (space + 1) << NUMBER_BITS)

    def choose(self, space):
        """Return the place in `keys` of the entry that is emitted into `space` tokens."""
        keys = self.keys
        fitting = bisect_left(keys, (space + 1) << NUMBER_BITS)
        return bisect_left(keys, keys[fitting - 1] & ~NUMBERS, 0, fitting) if fitting else 0

    def select(self):
        """Emit one entry; return (row, arrival, bos, start, count, rest).

        The first five are a segment as in a plan of loaders/. `rest` tokens of the entry were not emitted.
        """
        row, space, before = self.row, self.space, 0
        key = self.keys.pop(self.choose(space))
        length, number = key >> NUMBER_BITS, key & NUMBERS
        tokens = length if length < space else space
        if self.lossless:
            before = self.emitted.pop(number, 0)
            if length > tokens:
                insort(self.keys, (length - tokens) << NUMBER_BITS | number)
                self.emitted[number] = before + tokens
        self.space = space - tokens
        if tokens == space:
            self.row, self.space = row + 1, self.capacity
        passes, place = divmod(number, len(self.origin))
        document, start = self.origin[place]
        arrival, rest = passes * self.documents + document, length - tokens
        if before:
            return row, arrival, 0, start + before - 1, tokens, rest
        return row, arrival, 1, start, tokens - 1, rest

    def select_rows(self, rows):
        """Yield the selections until `rows` rows are full."""
        while self.row < rows:
            self.refill()
            yield self.select()

    def buffered(self):
        """Return (arrival, text start, tokens, started) of every buffered entry, in order of arrival."""
        found = []
        for number, tokens in sorted((key & NUMBERS, key >> NUMBER_BITS) for key in self.keys):
            passes, place = divmod(number, len(self.origin))
            document, start = self.origin[place]
            before = self.emitted.get(number, 0)
            found.append((passes * self.documents + document, start + max(before - 1, 0), tokens, before > 0))
        return found

    def state(self):
        """Return all that later selections depend on, counted from the current pass, so that states can repeat."""
        offset = self.taken // len(self.batches) * len(self.origin)
        started = frozenset(number - offset for number in self.emitted)
        return self.space, started, tuple(key - offset for key in self.keys)


class BackfillPacker(ReferencePacker):
    """The rule of loaders/backfill.py: the head of the queue opens a row, best fit fills it, the head closes it.

    Entries wait in `queue` in order; with `lossless`, the rest of a cropped document goes to its end. It is a plain
    list, so a selection takes time in proportion to the buffer.
    """

    def __init__(self, lengths, refill, *, capacity, buffer_size, lossless=False):
        super().__init__(lengths, refill, capacity=capacity, buffer_size=buffer_size, lossless=lossless)
        self.lengths, self.queue = lengths, []

    def __len__(self):
        """Return how many entries are buffered."""
        return len(self.queue)

    def arrive(self):
        """Let the next refill batch arrive."""
        first = self.arrived
        self.taken += 1
        self.queue += [(arrival, 0, self.lengths[arrival % self.documents]) for arrival in range(first, self.arrived)]

    def fitting(self, space):
        """Return how many buffered entries have at most `space` tokens."""
        return sum(tokens <= space for _, _, tokens in self.queue)

    def choose(self, space):
        """Return the place in `queue` of the entry that is emitted into `space` tokens."""
        fitting = [(-tokens, place) for place, (_, _, tokens) in enumerate(self.queue) if tokens <= space]
        return min(fitting)[1] if fitting and space < self.capacity else 0

    def select(self):
        """Emit one entry, as `ReferencePacker.select` does."""
        arrival, before, length = self.queue.pop(self.choose(self.space))
        row, tokens, bos = self.row, min(length, self.space), 0 if before else 1
        if self.lossless and length > tokens:
            self.queue.append((arrival, before + tokens, length - tokens))
        self.space -= tokens
        if not self.space:
            self.row, self.space = row + 1, self.capacity
        return row, arrival, bos, max(before - 1, 0), tokens - bos, length - tokens

    def buffered(self):
        """Return (arrival, text start, tokens, started) of every buffered entry, in the order of the queue."""
        return [(arrival, max(before - 1, 0), tokens, before > 0) for arrival, before, tokens in self.queue]
