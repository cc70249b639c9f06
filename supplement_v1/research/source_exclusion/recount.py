"""A stream packed and counted again, for verify_source_exclusion.py: standard library and NumPy, nothing of loaders/.

The planner keeps one sorted list of the entries held, each an integer (length, number), finds the best fit by
bisection, and says what it holds; the audit's compiled planner uses lists per length and a heap, and the audit never
asks it. Section numbers are the paper's.
"""

from bisect import bisect_left, insort

import numpy as np

NUMBER_BITS = 40
NUMBERS = (1 << NUMBER_BITS) - 1


class Packer:
    """The studied rule over entries: refill by whole batches, best fit, else the shortest one's prefix (section 3).

    entries: lengths of one pass's entries, in order; batches: entries in each refill batch of a pass. `keys` holds what
    is buffered, `taken` counts the refill batches that have arrived.
    """

    def __init__(self, entries, batches, capacity, buffer_size, continues):
        self.entries, self.batches, self.capacity = entries, batches, capacity
        self.buffer_size, self.continues = buffer_size, continues
        self.keys, self.taken, self.arrived, self.row, self.emitted = [], 0, 0, 0, {}

    def refill(self):
        """Whole batches arrive until buffer_size entries are held."""
        while len(self.keys) < self.buffer_size:
            passed = self.arrived // len(self.entries) * len(self.entries)
            for number in range(self.arrived, self.arrived + self.batches[self.taken % len(self.batches)]):
                insort(self.keys, self.entries[number - passed] << NUMBER_BITS | number)
                self.arrived += 1
            self.taken += 1

    def take(self, space):
        """(entry number, tokens of it emitted before, tokens emitted now, tokens left) of one selection."""
        longer = bisect_left(self.keys, (space + 1) << NUMBER_BITS)
        best = bisect_left(self.keys, self.keys[longer - 1] & ~NUMBERS) if longer else 0
        key = self.keys.pop(best)
        length, number = key >> NUMBER_BITS, key & NUMBERS
        count = min(length, space)
        if not self.continues:
            return number, 0, count, length - count
        before = self.emitted.pop(number, 0)
        if length > count:
            insort(self.keys, (length - count) << NUMBER_BITS | number)
            self.emitted[number] = before + count
        return number, before, count, length - count

    def pack_row(self):
        """The selections of one row, each (row, number, before, count, left, held, fitting an empty row)."""
        space, selections, beyond = self.capacity, [], (self.capacity + 1) << NUMBER_BITS
        while space:
            self.refill()
            state = len(self.keys), bisect_left(self.keys, beyond)
            selection = self.take(space)
            space -= selection[2]
            selections.append((self.row, *selection, *state))
        self.row += 1
        return selections


def pack(packer, rows=None, passes=None):
    """int64 (selections, 7) of `rows` rows, or of the whole rows full before anything of a later pass arrives; the
    packer is left as it is after the last of them."""
    found = []
    while rows is None or packer.row < rows:
        before = packer.keys.copy(), packer.taken, packer.row
        selections = packer.pack_row()
        if passes is not None and packer.taken > passes * len(packer.batches):
            packer.keys, packer.taken, packer.row = before
            break
        found += selections
    return np.array(found, np.int64).reshape(-1, 7)


def cut(lengths, capacity, policy):
    """(entries each document becomes: int64 (documents,), the length of every entry of a pass, in order)."""
    pieces = np.ones_like(lengths)
    if policy == "segmented":
        pieces = np.where(lengths > capacity, -(-(lengths - 1) // (capacity - 1)), 1)
    entries = []
    for length, count in zip(lengths.tolist(), pieces.tolist()):
        entries += [capacity] * (count - 1) + [length - (count - 1) * (capacity - 1)]
    return pieces, entries


class Stream:
    """One policy's stream: the plan, what each arrival's tokens became, and the buffer at every selection.

    plan: int64 (segments, 5), columns row, arrival, bos, start, count; document, length, added (BOS), emitted,
    discarded, buffered, segments: int64 (arrivals,); whole: bool (arrivals,); left, held, fitting: int64 (segments,).
    """

    def __init__(self, lengths, refill, policy, *, capacity, buffer_size, seed, rows=None, passes=None):
        self.corpus, self.policy, self.capacity, self.buffer_size = lengths, policy, capacity, buffer_size
        self.pieces, entries = cut(lengths, capacity, policy)
        batches = [int(part.sum()) for part in np.split(self.pieces, np.cumsum(refill)[:-1])]
        packer = Packer(entries, batches, capacity, buffer_size, policy == "lossless")
        table = pack(packer, rows, passes)
        passed, batch = divmod(packer.taken, len(refill))
        self.rows, arrived = packer.row, passed * len(lengths) + int(refill[:batch].sum())
        self.document = np.arange(arrived) % len(lengths)
        self.length, self.added = lengths[self.document], self.pieces[self.document] - 1
        self._read(table, seed)
        keys = np.array(packer.keys, np.int64)
        self.buffered = self._sum(self._origin(keys & NUMBERS)[0], keys >> NUMBER_BITS)

    def _read(self, table, seed):
        """Plan and account from the table of selections."""
        row, number, before, count, self.left, self.held, self.fitting = table.T
        arrival, piece = self._origin(number)
        bos = (before == 0).astype(np.int64)
        start = np.maximum(before - 1, 0) + piece * (self.capacity - 1)
        self.plan = np.stack([row, arrival, bos, start, count - bos], axis=1)
        if self.policy == "random_crop":
            self._draw_starts(seed)
        self.dropped = 0 * self.left if self.policy == "lossless" else self.left
        self.emitted, self.discarded = self._sum(arrival, count), self._sum(arrival, self.dropped)
        self.segments = np.bincount(arrival, minlength=len(self.document))
        complete = arrival[count - bos == self.length[arrival] - 1]
        self.whole = np.bincount(complete, minlength=len(self.document)) > 0

    def _origin(self, number):
        """(arrival, piece within its document) of entry numbers that count on over passes."""
        document = np.repeat(np.arange(len(self.pieces)), self.pieces)
        passed, entry = np.divmod(number, len(document))
        first = np.cumsum(self.pieces) - self.pieces
        return passed * len(self.corpus) + document[entry], entry - first[document[entry]]

    def _sum(self, arrival, tokens):
        return np.bincount(arrival, tokens, len(self.document)).astype(np.int64)

    def _draw_starts(self, seed):
        """Cropped segments show a random span of their text, drawn in row order (section 4)."""
        count, text = self.plan[:, 4], self.length[self.plan[:, 1]] - 1
        cropped = (count > 0) & (count < text)
        generator = np.random.Generator(np.random.PCG64(seed))
        self.plan[cropped, 3] = generator.integers((text - count)[cropped] + 1)

    def longest_long(self):
        """int64: the protected set, the largest min(B - 1, N) arrivals by (length, arrival) of those over a row."""
        keys = sorted((length, at) for at, length in enumerate(self.length.tolist()) if length > self.capacity)
        return np.array([arrival for _, arrival in keys[::-1][:self.buffer_size - 1]], np.int64)

    def first_long_start(self):
        """Where the first document longer than a row begins: segment, arrival, length, offset in targets; or None."""
        within, row = 0, -1
        for segment, (at, arrival, bos, _, count) in enumerate(self.plan.tolist()):
            within, row = 0 if at != row else within, at
            if bos and self.length[arrival] > self.capacity:
                return {"segment": segment, "arrival": arrival, "length": int(self.length[arrival]),
                        "target_offset": row * (self.capacity - 1) + max(within - 1, 0)}
            within += bos + count
        return None
