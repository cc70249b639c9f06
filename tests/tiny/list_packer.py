"""A slow packer on lists of real tokens: what the compiled loaders are compared with.

Written from the rule in words (paper section 3, recipe), with linear scans and no bitmap, heap or table of segments. A
token is (arrival, n): n = 0 is the document's own BOS, n >= 1 its n-th text token, "bos" a BOS added to a chunk.
"""

from itertools import cycle

import numpy as np


def spans_of(arrival, length, capacity, policy):
    """The buffer entries one arriving document becomes: lists of its tokens."""
    tokens = [(arrival, n) for n in range(length)]
    if policy != "segment_first" or length <= capacity:
        return [tokens]
    text, context = tokens[1:], capacity - 1
    chunks = [text[i : i + context] for i in range(0, len(text), context)]
    return [[(arrival, 0 if i == 0 else "bos"), *chunk] for i, chunk in enumerate(chunks)]


class ListPacker:
    """Packs `rows` rows on construction; `.rows`, `.buffer`, `.discarded` hold tokens, `.arrived` counts documents."""

    def __init__(self, lengths, *, capacity, rows, buffer_size, refill, policy, seed=None):
        self.lengths, self.capacity, self.policy = list(map(int, lengths)), capacity, policy
        self.buffer, self.rows, self.discarded, self.arrived = [], [], [], 0
        self.batches, self.random = cycle(map(int, refill)), np.random.Generator(np.random.PCG64(seed))
        while len(self.rows) < rows:
            row = []
            while len(row) < capacity:
                while len(self.buffer) < buffer_size:
                    self.take_batch()
                row += self.place(capacity - len(row))
            self.rows.append(row)

    def take_batch(self):
        for _ in range(next(self.batches)):
            length = self.lengths[self.arrived % len(self.lengths)]
            self.buffer += spans_of(self.arrived, length, self.capacity, self.policy)
            self.arrived += 1

    def place(self, space):
        chosen = None
        for index, span in enumerate(self.buffer):
            if len(span) <= space and (chosen is None or len(span) > len(self.buffer[chosen])):
                chosen = index
        if chosen is not None:
            return self.buffer.pop(chosen)
        chosen = 0
        for index, span in enumerate(self.buffer):
            if len(span) < len(self.buffer[chosen]):
                chosen = index
        return self.cut(chosen, space)

    def cut(self, chosen, space):
        span = self.buffer[chosen]
        if self.policy == "lossless":
            self.buffer[chosen] = span[space:]
            return span[:space]
        del self.buffer[chosen]
        start = 1
        if self.policy == "random_span" and space > 1:
            start += int(self.random.integers(0, len(span) - space, endpoint=True))
        kept = [span[0], *span[start : start + space - 1]]
        self.discarded += span[1:start] + span[start + space - 1 :]
        return kept

    def account(self):
        """The ledger by looking at every token: (tokens, documents) as `accounting.ledger` returns them."""
        added = sum(n == "bos" for place in (*self.rows, *self.buffer, self.discarded) for _, n in place)
        rows = [{a: [n for b, n in row if a == b and n not in (0, "bos")] for a, _ in row} for row in self.rows]
        cropped, held = {a for a, _ in self.discarded}, {a for span in self.buffer for a, _ in span}
        states = dict.fromkeys(("unstarted", "whole", "cropped", "split"), 0)
        for arrival in range(self.arrived):
            text = list(range(1, self.lengths[arrival % len(self.lengths)]))
            seen = [row[arrival] for row in rows if arrival in row]
            began = "cropped" if arrival in cropped else "whole" if text in seen else "split"
            states[began if seen else "unstarted"] += 1
        tokens = {
            "arrived": sum(self.lengths[a % len(self.lengths)] for a in range(self.arrived)),
            "synthetic_bos": added,
            "emitted": sum(map(len, self.rows)),
            "discarded": len(self.discarded),
            "buffered": sum(map(len, self.buffer)),
        }
        started = self.arrived - states["unstarted"]
        return tokens, {"arrived": self.arrived, "started": started, "buffered": len(held), **states}
