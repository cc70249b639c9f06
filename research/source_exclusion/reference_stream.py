"""A stream packed again for verify_source_exclusion.py: plan, what became of each arrival, and the buffer.

The reference packer says what it buffers. The audit's compiled planner does not, and the audit derives it from arrivals
and removals. Section numbers are those of the paper. Standard library and NumPy.
"""

import numpy as np

from research.reference_packer import BackfillPacker, ReferencePacker


def whole_rows(packer, passes):
    """Return how many rows are full before anything of pass `passes` + 1 arrives; the packer is used up."""
    while True:
        while len(packer) < packer.buffer_size:
            if packer.taken == passes * len(packer.batches):
                return packer.row
            packer.arrive()
        packer.select()


def select_watched(packer, rows):
    """Return int64 (selections, 8): each selection of `rows` rows, then the entries that were buffered before it and
    those of them that fit an empty row."""
    found = []
    while packer.row < rows:
        packer.refill()
        buffered = len(packer), packer.fitting(packer.capacity)
        found.append((*packer.select(), *buffered))
    return np.array(found, np.int64).reshape(-1, 8)


def packer_of(policy, lengths, refill, sizes):
    """Return the reference packer of a policy; sizes: capacity and buffer_size."""
    if policy.startswith("backfill"):
        return BackfillPacker(lengths, refill, lossless=policy == "backfill_lossless", **sizes)
    return ReferencePacker(lengths, refill, lossless=policy == "lossless", chunk=policy == "segmented", **sizes)


class ReferenceStream:
    """The stream of one policy up to a horizon of `rows` rows or of `passes` whole passes.

    lengths, refill: int64 (documents,) and (batches,). plan: int64 (segments, 5), columns row, arrival, bos, start,
    count. document, length, added (BOS), emitted, discarded, buffered, segments: int64 (arrivals,). whole: bool
    (arrivals,). dropped (tokens that a selection discarded), held, fitting: int64 (segments,).
    """

    def __init__(self, lengths, refill, policy, *, capacity, buffer_size, seed, rows=None, passes=None):
        self.corpus, self.policy, self.capacity, self.buffer_size = lengths, policy, capacity, buffer_size
        packing = policy, lengths.tolist(), refill.tolist(), {"capacity": capacity, "buffer_size": buffer_size}
        self.rows = whole_rows(packer_of(*packing), passes) if rows is None else rows
        used = packer_of(*packing)
        selections = select_watched(used, self.rows)
        self.document = np.arange(used.arrived) % len(lengths)
        self.length = lengths[self.document]
        pieces = np.bincount([document for document, _ in used.origin])
        self.added = pieces[self.document] - 1
        self._account(selections, seed)
        self.buffered = self._sum(*np.array([(a, n) for a, _, n, _ in used.buffered()], np.int64).reshape(-1, 2).T)

    def _account(self, selections, seed):
        """Read the plan and the account of each arrival from the table of selections."""
        self.plan, (rest, self.held, self.fitting) = selections[:, :5].copy(), selections[:, 5:].T
        _, arrival, bos, _, count = self.plan.T
        if self.policy == "random_crop":
            self._draw_starts(seed)
        self.dropped = np.zeros_like(rest) if self.policy.endswith("lossless") else rest
        self.emitted, self.discarded = self._sum(arrival, bos + count), self._sum(arrival, self.dropped)
        self.segments = np.bincount(arrival, minlength=len(self.document))
        complete = count == self.length[arrival] - 1
        self.text_whole = np.bincount(arrival[complete], minlength=len(self.document)) > 0
        self.whole = np.bincount(arrival[complete & (bos == 1)], minlength=len(self.document)) > 0

    def _sum(self, arrival, tokens):
        return np.bincount(arrival, tokens, len(self.document)).astype(np.int64)

    def _draw_starts(self, seed):
        """Draw where the text of each cropped segment starts, in row order (section 4)."""
        count, text = self.plan[:, 4], self.length[self.plan[:, 1]] - 1
        cropped = (count > 0) & (count < text)
        generator = np.random.Generator(np.random.PCG64(seed))
        self.plan[cropped, 3] = generator.integers((text - count)[cropped] + 1)

    def longest_long(self):
        """Return the protected set: the largest min(B - 1, N) arrivals by (length, arrival) of those over a row."""
        keys = sorted((length, at) for at, length in enumerate(self.length.tolist()) if length > self.capacity)
        return np.array([arrival for _, arrival in keys[::-1][:self.buffer_size - 1]], np.int64)

    def first_long_start(self):
        """Return where the first document longer than a row starts, or None."""
        within, row = 0, -1
        for segment, (at, arrival, bos, _, count) in enumerate(self.plan.tolist()):
            within, row = 0 if at != row else within, at
            if bos and self.length[arrival] > self.capacity:
                return {"segment": segment, "arrival": arrival, "length": int(self.length[arrival]),
                        "target_offset": row * (self.capacity - 1) + max(within - 1, 0)}
            within += bos + count
        return None
