"""The reference packer's rows as lists of real tokens, which the compiled loaders and the ledger are compared with.

A token is (arrival, n): n = 0 is the document's own BOS, n >= 1 is its n-th text token, and "bos" is a BOS that was
added to a later piece of it.
"""

import numpy as np

from research.reference_packer import BackfillPacker, ReferencePacker


def text_of(arrival, start, count):
    """Text tokens of a document from the text offset `start` on."""
    return [(arrival, start + 1 + n) for n in range(count)]


def bos_of(arrival, start):
    """The BOS token of a document, or of a piece of it that begins at the text offset `start`."""
    return (arrival, "bos" if start else 0)


class PackedTokens:
    """Pack `rows` rows on construction; `policy` is the name of a loader.

    `.rows`, `.buffer` and `.discarded` are tokens, `.crops` the tokens that each crop keeps, `.arrived` counts
    documents, and `.seen` has the entries that fit an empty row, all entries, and the arrived documents before
    each selection.
    """

    def __init__(self, lengths, *, capacity, rows, buffer_size, refill, policy, seed=None):
        self.lengths, self.policy = list(map(int, lengths)), policy
        settings = {"capacity": capacity, "buffer_size": buffer_size, "lossless": policy.endswith("lossless")}
        stream = self.lengths, list(map(int, refill))
        if policy.startswith("backfill"):
            packer = BackfillPacker(*stream, **settings)
        else:
            packer = ReferencePacker(*stream, **settings, chunk=policy == "segment_first")
        self.rows, self.discarded, self.seen = [[] for _ in range(rows)], [], []
        self.crops = []
        self.random = np.random.Generator(np.random.PCG64(seed))
        while packer.row < rows:
            packer.refill()
            self.seen.append((packer.fitting(capacity), len(packer), packer.arrived))
            self.place(*packer.select())
        self.arrived = packer.arrived
        self.buffer = [text_of(arrival, start, tokens) if started else
                       [bos_of(arrival, start), *text_of(arrival, start, tokens - 1)]
                       for arrival, start, tokens, started in packer.buffered()]

    def place(self, row, arrival, bos, start, count, rest):
        """Put the tokens of a selection into its row, and what a crop leaves among the discarded ones."""
        skipped = 0
        if self.policy == "random_span" and rest and count:
            skipped = int(self.random.integers(0, rest, endpoint=True))
        if bos:
            self.rows[row].append(bos_of(arrival, start))
        self.rows[row] += text_of(arrival, start + skipped, count)
        if not self.policy.endswith("lossless"):
            if rest:
                self.crops.append(bos + count)
            self.discarded += text_of(arrival, start, skipped)
            self.discarded += text_of(arrival, start + skipped + count, rest - skipped)

    def account(self):
        """Count every token: return (tokens, documents) as `loaders.ledger.ledger` does."""
        added = sum(n == "bos" for place in (*self.rows, *self.buffer, self.discarded) for _, n in place)
        rows = [{a: [n for b, n in row if a == b] for a, _ in row} for row in self.rows]
        cropped, buffered = {a for a, _ in self.discarded}, {a for span in self.buffer for a, _ in span}
        states = dict.fromkeys(("unstarted", "whole", "cropped", "split", "bos_apart"), 0)
        for arrival in range(self.arrived):
            tokens = list(range(self.lengths[arrival % len(self.lengths)]))
            seen = [row[arrival] for row in rows if arrival in row]
            state = "cropped" if arrival in cropped else "whole" if tokens in seen else "split"
            states[state if seen else "unstarted"] += 1
            states["bos_apart"] += len(tokens) > 1 and tokens[1:] in seen
        tokens = {
            "arrived": sum(self.lengths[a % len(self.lengths)] for a in range(self.arrived)),
            "synthetic_bos": added,
            "emitted": sum(map(len, self.rows)),
            "discarded": len(self.discarded),
            "buffered": sum(map(len, self.buffer)),
        }
        started = self.arrived - states["unstarted"]
        return tokens, {"arrived": self.arrived, "started": started, "buffered": len(buffered), **states}
