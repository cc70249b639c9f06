"""First come, first served, with backfill: every document starts within a bounded number of rows.

Entries wait in a queue in order of arrival. The head of the queue opens each row. The space left is filled by best fit:
the longest entry that fits (ties: nearest to the head). When none fits, the head of the queue closes the row with its
prefix, and its rest is discarded; `backfill_lossless` puts the rest at the end of the queue instead. Refill batches
arrive as in the baseline.

Each row removes the head, and at most B + j - 2 entries are ahead of the j-th entry of a refill batch when it arrives.
So every document starts at most B + R - 2 rows after the row of its arrival, where R is the largest refill batch
(research/theorem/README.md has the proof). The name comes from EASY backfilling in batch scheduling.

An entry of at most a row is in two lists: the queue, and the first-in-first-out list of its length, which is in the
order of the queue too. So the head of the queue is the first of its length.
"""

import numpy as np

from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, START, Loader, validated
from loaders.best_fit_crop import (
    BLOCK,
    NONE,
    compiled,
    entries,
    inlined,
    joined,
    longest_fitting,
    mark,
    read_only,
    unmark,
)

# lists[length]: first and last slot of the entries of that length. List 0 holds the free slots, and its TAIL is unused.
HEAD, TAIL = range(2)
FREE = 0
# slots: the next slot of the same length; the neighbours in the queue; the document's arrival, tokens emitted and left.
NEXT, BEHIND, AHEAD, SLOT_ARRIVAL, POSITION, LENGTH = range(6)
# counters: complete rows, space left in the next, next batch, documents arrived, entries held, ends of the queue.
PLANNED, SPACE, BATCH, ARRIVED, HELD, FIRST, LAST = range(7)


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """As `best_fit_crop.plan`, by the rule of this file. `seed` is not used."""
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return joined(pieces(lengths, refill, *sizes, seed))


def pieces(lengths, refill, capacity, rows, buffer_size, seed):
    """Yield the plan in pieces, int64 (at most BLOCK, 5) each."""
    return blocks(lengths, refill, capacity, rows, buffer_size, continues=False)


def blocks(lengths, refill, capacity, rows, buffer_size, continues):
    """Yield the plan in pieces; `continues` puts the rest of a cropped document at the end of the queue."""
    lengths, refill = read_only(lengths), read_only(refill)
    buffer = _empty_buffer(capacity, buffer_size + int(refill.max()))
    while buffer[-1][PLANNED] < rows:
        block = np.empty((BLOCK, 5), np.int64)
        yield block[: _fill(block, *buffer, lengths, refill, capacity, rows, buffer_size, continues)]


def _empty_buffer(capacity, slot_count):
    """Return (lists, slots, bitmap, counters) of an empty buffer with room for `slot_count` entries."""
    lists = np.full((capacity + 1, 2), NONE)
    lists[FREE, HEAD] = 0
    slots = np.full((slot_count, 6), NONE)
    slots[:-1, NEXT] = np.arange(1, slot_count)
    bitmap = np.zeros((2, (capacity >> 5) + 1), np.int64)
    counters = np.zeros(7, np.int64)
    counters[SPACE] = capacity
    counters[FIRST] = counters[LAST] = NONE
    return lists, slots, bitmap, counters


@inlined
def _append(lists, slots, bitmap, counters, length, arrival, position):
    """Put an entry at the end of the queue and, if it fits a row, at the end of the list of its length."""
    slot = lists[FREE, HEAD]
    lists[FREE, HEAD] = slots[slot, NEXT]
    slots[slot, NEXT], slots[slot, BEHIND], slots[slot, AHEAD] = NONE, NONE, counters[LAST]
    slots[slot, SLOT_ARRIVAL], slots[slot, POSITION], slots[slot, LENGTH] = arrival, position, length
    if counters[LAST] == NONE:
        counters[FIRST] = slot
    else:
        slots[counters[LAST], BEHIND] = slot
    counters[LAST] = slot
    if length < len(lists):
        if lists[length, HEAD] == NONE:
            lists[length, HEAD] = slot
            mark(bitmap, length)
        else:
            slots[lists[length, TAIL], NEXT] = slot
        lists[length, TAIL] = slot


@inlined
def _remove(lists, slots, bitmap, counters, slot):
    """Take an entry out of the queue and, if it fits a row, from the beginning of the list of its length."""
    ahead, behind, length = slots[slot, AHEAD], slots[slot, BEHIND], slots[slot, LENGTH]
    if ahead == NONE:
        counters[FIRST] = behind
    else:
        slots[ahead, BEHIND] = behind
    if behind == NONE:
        counters[LAST] = ahead
    else:
        slots[behind, AHEAD] = ahead
    if length < len(lists):
        lists[length, HEAD] = slots[slot, NEXT]
        if lists[length, HEAD] == NONE:
            unmark(bitmap, length)
    slots[slot, NEXT] = lists[FREE, HEAD]
    lists[FREE, HEAD] = slot


@inlined
def _refill(lists, slots, bitmap, counters, lengths, refill, buffer_size):
    while counters[HELD] < buffer_size:
        size = refill[counters[BATCH]]
        for arrival in range(counters[ARRIVED], counters[ARRIVED] + size):
            _append(lists, slots, bitmap, counters, lengths[arrival % len(lengths)], arrival, 0)
        counters[ARRIVED] += size
        counters[HELD] += size
        counters[BATCH] = (counters[BATCH] + 1) % len(refill)


@compiled
def _fill(block, lists, slots, bitmap, counters, lengths, refill, capacity, rows, buffer_size, continues):
    """Write the next segments into `block` until it is full or `rows` rows are; return how many."""
    for segment in range(len(block)):
        if counters[PLANNED] == rows:
            return segment
        _refill(lists, slots, bitmap, counters, lengths, refill, buffer_size)
        space = counters[SPACE]
        fitting = longest_fitting(bitmap, space) if space < capacity else 0
        slot = lists[fitting, HEAD] if fitting else counters[FIRST]
        length, arrival, position = slots[slot, LENGTH], slots[slot, SLOT_ARRIVAL], slots[slot, POSITION]
        taken = min(length, space)
        _remove(lists, slots, bitmap, counters, slot)
        if continues and taken < length:
            _append(lists, slots, bitmap, counters, length - taken, arrival, position + taken)
        else:
            counters[HELD] -= 1
        begins = 1 if position == 0 else 0
        block[segment, ROW], block[segment, ARRIVAL], block[segment, BOS] = counters[PLANNED], arrival, begins
        block[segment, START], block[segment, COUNT] = position - 1 + begins, taken - begins
        counters[SPACE] = space - taken
        if counters[SPACE] == 0:
            counters[PLANNED] += 1
            counters[SPACE] = capacity
    return len(block)


LOADER = Loader(plan, pieces, entries, continues=False, shared=0, fills=True, independent=False)
