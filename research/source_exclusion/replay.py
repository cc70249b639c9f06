"""The exact account of a plan that arrives in pieces: many passes of a corpus, or a very long one, in bounded memory.

`loaders/accounting.py` accounts for a plan it holds whole; here each segment is looked at once and forgotten, and what
is kept grows with the corpus, not with the plan. Nothing asks the planner what it holds: arrivals follow from the rule
that whole refill batches arrive, before a selection, until buffer_size entries are held. For policies whose entries
are whole documents, the baseline and lossless continuation.

Every segment must be the next that can exist: of a document that has arrived, the occurrences of one document begun in
order of arrival, and continuations without gap. At every start of a document longer than a row the proposition of the
paper's section 3 is checked: it is not among the largest min(buffer_size - 1, arrived) keys (length, arrival).
"""

import numpy as np
from numba import njit

from evidence import sha256_bytes
from loaders import best_fit_crop
from loaders.accounting import ARRIVAL, BOS, COUNT, START
from research.source_exclusion.audit_records import Unbalanced

# counters; BATCH is the next of the pass, PROTECTED_STARTS counts starts that break the proposition.
ARRIVED, ARRIVED_TOKENS, BATCH, HELD, STARTED, EMITTED, DISCARDED, PROTECTED_STARTS = range(8)
ENDLESS = 2**62

compiled, inlined = njit(cache=True, _nrt=False), njit(inline="always", _nrt=False)


@inlined
def _replace_least(guard, length, arrival):
    """Put a key in the place of the least one of a heap of keys (length, arrival), the least first."""
    at, child = 0, 1
    while child < len(guard):
        if child + 1 < len(guard) and (guard[child + 1, 0], guard[child + 1, 1]) < (guard[child, 0], guard[child, 1]):
            child += 1
        if (length, arrival) < (guard[child, 0], guard[child, 1]):
            break
        guard[at, 0], guard[at, 1] = guard[child, 0], guard[child, 1]
        at, child = child, 2 * child + 1
    guard[at, 0], guard[at, 1] = length, arrival


@inlined
def _take_batch(counters, lengths, refill, capacity, guard):
    first, size = counters[ARRIVED] % len(lengths), refill[counters[BATCH]]
    for number in range(size):
        length, arrival = lengths[first + number], counters[ARRIVED] + number
        counters[ARRIVED_TOKENS] += length
        if length > capacity and len(guard) and (guard[0, 0], guard[0, 1]) < (length, arrival):
            _replace_least(guard, length, arrival)
    counters[ARRIVED] += size
    counters[HELD] += size
    counters[BATCH] += 1


@inlined
def _begin(counters, guard, edges, started, begun, first, document, length, arrival):
    if begun[document] == 0:
        first[document] = counters[ARRIVED]
    begun[document] += 1
    counters[STARTED] += 1
    kind = 0
    while kind < len(edges) and edges[kind] <= length:
        kind += 1
    started[kind] += 1
    if kind and len(guard) and (guard[0, 0], guard[0, 1]) <= (length, arrival):
        counters[PROTECTED_STARTS] += 1


@compiled
def _follow(block, at, counters, guard, started, begun, first, left, owner, lengths, refill, edges, buffer_size,
            continues):
    """Account for the segments from `at` on; return where the next pass must begin to arrive, len(block) when nowhere,
    or -1 - segment at a segment that cannot be."""
    for segment in range(at, len(block)):
        while counters[HELD] < buffer_size:
            if counters[BATCH] == len(refill):
                return segment
            _take_batch(counters, lengths, refill, edges[0] - 1, guard)
        arrival, start = block[segment, ARRIVAL], block[segment, START]
        document = arrival % len(lengths)
        length = lengths[document]
        rest = length - 1 - start - block[segment, COUNT]
        begins = block[segment, BOS] == 1
        if begins:
            possible = start == 0 and arrival == begun[document] * len(lengths) + document
            _begin(counters, guard, edges, started, begun, first, document, length, arrival)
        else:
            possible = continues and arrival == owner[document] and left[document] == length - 1 - start
        if not possible or rest < 0 or arrival >= counters[ARRIVED]:
            return -1 - segment
        counters[EMITTED] += block[segment, BOS] + block[segment, COUNT]
        if not continues:
            counters[DISCARDED] += rest
        elif rest or not begins:
            if begins and left[document]:
                return -1 - segment
            left[document], owner[document] = rest, arrival
        if not continues or rest == 0:
            counters[HELD] -= 1
    return len(block)


class Replay:
    """Totals so far. `begun`: int32 (documents,), how often each was begun; `first`: int64 (documents,), how many
    documents had arrived when it was first begun, 0 when it was not; `passes`: complete ones.

    edges: ascending lengths that split the documents longer than a row into classes; the first is capacity + 1.
    """

    def __init__(self, stream, packing, edges):
        documents = len(stream.lengths)
        self.stream, self.packing, self.passes = stream, packing, 0
        self.edges = np.array(edges, np.int64)
        self.counters = np.zeros(8, np.int64)
        self.guard = np.zeros((packing.buffer_size - 1, 2), np.int64)
        self.started = np.zeros(len(edges) + 1, np.int64)
        self.begun, self.first = np.zeros(documents, np.int32), np.zeros(documents, np.int64)
        self.left, self.owner = np.zeros((2, documents if packing.loader.continues else 1), np.int64)

    def follow(self, block):
        """Account for the next segments; yield at the end of each pass: all its documents have arrived, and none of
        the next pass is needed yet. Unbalanced at a segment that cannot be."""
        at = 0
        while at < len(block):
            at = _follow(block, at, self.counters, self.guard, self.started, self.begun, self.first, self.left,
                         self.owner, self.stream.lengths, self.stream.refill, self.edges, self.packing.buffer_size,
                         self.packing.loader.continues)
            if at < 0:
                raise Unbalanced(f"segment {block[-1 - at].tolist()} (row, arrival, bos, start, count) cannot be")
            if at < len(block):
                self.passes += 1
                yield self
                self.counters[BATCH] = 0

    def unstarted(self):
        """(documents, counts): which have arrived occurrences that were not begun, int64 and rising, and how many."""
        waiting = self.passes - self.begun
        waiting[: int(self.counters[ARRIVED]) - self.passes * len(waiting)] += 1
        documents = np.flatnonzero(waiting)
        return documents, waiting[documents]

    def totals(self):
        """Exact totals as Python ints; Unbalanced unless arrived = emitted + discarded + buffered tokens."""
        documents, counts = self.unstarted()
        arrived, arrived_tokens, _, _, started, emitted, discarded, broken = self.counters.tolist()
        buffered = int((counts * self.stream.lengths[documents]).sum()) + int(self.left.sum())
        if arrived_tokens != emitted + discarded + buffered or arrived != started + int(counts.sum()):
            raise Unbalanced(f"{arrived_tokens} tokens arrived, but {emitted} emitted, {discarded} discarded and "
                             f"{buffered} buffered; {arrived} documents, {started} started, {int(counts.sum())} not")
        protected = self.guard[self.guard[:, 0] > 0, 0]
        return {"tokens": {"arrived": arrived_tokens, "emitted": emitted, "discarded": discarded, "buffered": buffered},
                "documents": {"arrived": arrived, "started": started, "unstarted": int(counts.sum())},
                "protected": {"documents": len(protected), "tokens": int(protected.sum()), "started": broken}}

    def state(self):
        """(waiting, all): SHA-256 at the end of a pass of the unstarted occurrences, which of one document are its
        latest; and of everything that the next passes depend on: also the space left in the row and the begun spans.
        """
        documents, counts = self.unstarted()
        active = np.flatnonzero(self.left)
        ages = self.owner[active] - self.passes * len(self.begun)
        space = int(self.counters[EMITTED]) % self.packing.capacity
        waiting = np.concatenate([documents, counts]).astype("<i8").tobytes()
        rest = np.concatenate([[space], active, self.left[active], ages]).astype("<i8").tobytes()
        return sha256_bytes(waiting), sha256_bytes(waiting + rest)


def replay(stream, packing, passes, edges):
    """Yield the Replay of a stream at the end of each of its first `passes` passes."""
    account = Replay(stream, packing, edges)
    for block in best_fit_crop.blocks(stream.lengths, stream.refill, packing.capacity, ENDLESS, packing.buffer_size,
                                      packing.loader.continues):
        for _ in account.follow(block):
            yield account
            if account.passes == passes:
                return
