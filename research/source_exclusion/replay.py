"""The exact account of a plan that arrives in pieces: many passes of a corpus, or a very long one, in bounded memory.

`loaders/accounting.py` needs the whole plan. This module reads each segment once, so its memory grows with the corpus
and not with the plan. It does not ask the planner what the buffer holds: arrivals follow from the rule that whole
refill batches arrive, before a selection, until buffer_size entries are buffered. It serves the policies whose entries
are whole documents: the baseline and lossless continuation.

The module refuses a segment that cannot come next. A segment must belong to a document that has arrived, the
occurrences of one document must start in order of arrival, and a continuation must follow without a gap. At every start
of a document longer than a row it checks the theorem (research/theorem): the document is not among the largest
min(buffer_size - 1, arrived) keys (length, arrival).
"""

import numpy as np

from evidence import sha256_bytes
from loaders.accounting import ARRIVAL, BOS, COUNT, START
from loaders.best_fit_crop import compiled
from research.source_exclusion.account import Unbalanced
from research.source_exclusion.account_state import inlined, replace_least
from research.source_exclusion.streams import ENDLESS

# counters; BATCH is the next batch of the pass, PROTECTED_STARTS counts starts that the theorem excludes.
ARRIVED, ARRIVED_TOKENS, BATCH, HELD, STARTED, EMITTED, DISCARDED, PROTECTED_STARTS = range(8)

@inlined
def _take_batch(counters, lengths, refill, capacity, guard):
    first, size = counters[ARRIVED] % len(lengths), refill[counters[BATCH]]
    for number in range(size):
        length, arrival = lengths[first + number], counters[ARRIVED] + number
        counters[ARRIVED_TOKENS] += length
        if length > capacity and len(guard) and (guard[0, 0], guard[0, 1]) < (length, arrival):
            replace_least(guard, length, arrival)
    counters[ARRIVED] += size
    counters[HELD] += size
    counters[BATCH] += 1


@inlined
def _start(counters, guard, edges, started, starts, first, document, length, arrival):
    if starts[document] == 0:
        first[document] = counters[ARRIVED]
    starts[document] += 1
    counters[STARTED] += 1
    kind = 0
    while kind < len(edges) and edges[kind] <= length:
        kind += 1
    started[kind] += 1
    if kind and len(guard) and (guard[0, 0], guard[0, 1]) <= (length, arrival):
        counters[PROTECTED_STARTS] += 1


@compiled
def _follow(block, at, counters, guard, started, starts, first, left, owner, lengths, refill, edges, buffer_size,
            continues):
    """Account for the segments from `at` on; return the segment before which the next pass must arrive.

    That is len(block) when no further pass is needed, and -1 - segment at a segment that cannot come next.
    """
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
            possible = start == 0 and arrival == starts[document] * len(lengths) + document
            _start(counters, guard, edges, started, starts, first, document, length, arrival)
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
    """The totals of a stream so far.

    starts: int32 (documents,), how often each document started; first: int64 (documents,), how many documents had
    arrived when it first started, or 0; passes: the complete passes; edges: ascending lengths that split the documents
    longer than a row into classes, from capacity + 1 on.
    """

    def __init__(self, stream, packing, edges):
        documents = len(stream.lengths)
        self.stream, self.packing, self.passes = stream, packing, 0
        self.edges = np.array(edges, np.int64)
        self.counters = np.zeros(8, np.int64)
        self.guard = np.zeros((packing.buffer_size - 1, 2), np.int64)
        self.started = np.zeros(len(edges) + 1, np.int64)
        self.starts, self.first = np.zeros(documents, np.int32), np.zeros(documents, np.int64)
        self.left, self.owner = np.zeros((2, documents if packing.loader.continues else 1), np.int64)

    def follow(self, block):
        """Account for the next segments, and yield at the end of each pass, before the next pass arrives.

        Unbalanced names a segment that cannot come next.
        """
        at = 0
        while at < len(block):
            at = _follow(block, at, self.counters, self.guard, self.started, self.starts, self.first, self.left,
                         self.owner, self.stream.lengths, self.stream.refill, self.edges, self.packing.buffer_size,
                         self.packing.loader.continues)
            if at < 0:
                segment = block[-1 - at].tolist()
                raise Unbalanced(f"segment {segment} (row, arrival, bos, start, count) cannot come next")
            if at < len(block):
                self.passes += 1
                yield self
                self.counters[BATCH] = 0

    def unstarted(self):
        """Return (documents, counts): the documents with occurrences that have not started, rising, and how many."""
        waiting = self.passes - self.starts
        waiting[: int(self.counters[ARRIVED]) - self.passes * len(waiting)] += 1
        documents = np.flatnonzero(waiting)
        return documents, waiting[documents]

    def totals(self):
        """Return exact totals as Python ints; Unbalanced unless arrived = emitted + discarded + buffered tokens."""
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
        """Return two SHA-256 at the end of a pass: of what has not started, and of all that the next passes depend on.

        The second also covers the space left in the row and the rests of documents that have started. The occurrences
        of a document that have not started are its latest ones, so their number says which they are.
        """
        documents, counts = self.unstarted()
        active = np.flatnonzero(self.left)
        ages = self.owner[active] - self.passes * len(self.starts)
        space = int(self.counters[EMITTED]) % self.packing.capacity
        waiting = np.concatenate([documents, counts]).astype("<i8").tobytes()
        rest = np.concatenate([[space], active, self.left[active], ages]).astype("<i8").tobytes()
        return sha256_bytes(waiting), sha256_bytes(waiting + rest)


def replay(stream, packing, passes, edges):
    """Yield the Replay of a stream at the end of each of its first `passes` passes."""
    account = Replay(stream, packing, edges)
    for block in packing.blocks(stream, ENDLESS):
        for _ in account.follow(block):
            yield account
            if account.passes == passes:
                return
