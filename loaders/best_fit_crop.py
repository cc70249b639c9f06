"""Condition `baseline`: best fit; when nothing fits, the shortest entry is cropped and its rest is discarded.

Before every placement whole refill batches arrive until at least `buffer_size` entries are buffered. The longest entry
that fits the space left in the row is placed (ties: earliest arrival). When none fits, the shortest one (ties: earliest
arrival) fills the row with its prefix. This loader discards the rest; the lossless loader buffers it. (Paper section 3;
the reference stream of the recipe.)

Entries of at most a row are in one first-in-first-out list per length, which a two-level bitmap of the lengths finds;
longer ones are in a heap by (length, arrival). A buffered rest never breaks a list's order: it is shorter than the
shortest entry, so its list is empty, and later arrivals come after it.
"""

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import leading_zeros

from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, START, Loader, validated

BLOCK = 262144
NONE = -1

# lists[length]: first and last slot of the entries of that length. No entry has length 0: list 0 holds the free slots.
HEAD, TAIL = range(2)
FREE = 0
NEXT, SLOT_ARRIVAL, POSITION = range(3)
# bitmap[LENGTHS]: 32 lengths a word, which keeps int64 positive; bitmap[WORDS]: which of those words are not zero.
LENGTHS, WORDS = range(2)
# counters: complete rows, space left in the next, next batch, documents arrived, entries held, entries in the heap.
PLANNED, SPACE, BATCH, ARRIVED, HELD, HEAPED = range(6)

# Nothing compiled here allocates or keeps an array, so the compiler need not count references to arrays (`_nrt`); to
# count them at every call would take longer than the work itself.
inlined = njit(inline="always", _nrt=False)


def compiled(function):
    """Compile a function and cache the code on disk, or only in memory where no folder for the cache is writable."""
    try:
        return njit(cache=True, nogil=True, _nrt=False)(function)
    except RuntimeError:  # numba: no locator available
        return njit(nogil=True, _nrt=False)(function)


def entries(lengths, capacity):
    """Return int64 (documents,): the buffer entries that each document becomes; here always one."""
    return np.ones_like(lengths)


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Return the segments of `rows` rows of `capacity` tokens, int64 (segments, 5): row, arrival, bos, start, count.

    lengths: int64 (documents,) of one pass, tokens per document, BOS included; refill: int64 (batches,), documents per
    refill batch of one pass. Passes repeat without a reset. `seed` is not used. ValueError on anything else.
    """
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return joined(pieces(lengths, refill, *sizes, seed))


def pieces(lengths, refill, capacity, rows, buffer_size, seed):
    """Yield the plan in pieces, int64 (at most BLOCK, 5) each."""
    return blocks(lengths, refill, capacity, rows, buffer_size, continues=False)


def joined(found):
    """Return the plan whose pieces these are."""
    found = list(found)
    return np.concatenate(found) if found else np.empty((0, 5), np.int64)


def blocks(lengths, refill, capacity, rows, buffer_size, continues):
    """Yield the plan in order, in pieces int64 (at most BLOCK, 5), so that memory does not grow with the plan."""
    lengths, refill = read_only(lengths), read_only(refill)
    buffer = _empty_buffer(capacity, buffer_size + int(refill.max()))
    while buffer[-1][PLANNED] < rows:
        block = np.empty((BLOCK, 5), np.int64)
        yield block[: _fill(block, *buffer, lengths, refill, capacity, rows, buffer_size, continues)]


def read_only(values):
    """Return a read-only view: arrays in memory and memory-mapped ones then compile to the same code."""
    view = values.view()
    view.setflags(write=False)
    return view


def _empty_buffer(capacity, entries):
    """Return (lists, slots, bitmap, long, counters) of an empty buffer with room for `entries`."""
    lists = np.full((capacity + 1, 2), NONE)
    lists[FREE, HEAD] = 0
    slots = np.full((entries, 3), NONE)
    slots[:-1, NEXT] = np.arange(1, entries)
    bitmap = np.zeros((2, (capacity >> 5) + 1), np.int64)
    counters = np.zeros(6, np.int64)
    counters[SPACE] = capacity
    return lists, slots, bitmap, np.empty((entries, 3), np.int64), counters


@inlined
def _push(long, counters, length, arrival, position):
    at = counters[HEAPED]
    counters[HEAPED] += 1
    while at > 0:
        parent = (at - 1) >> 1
        if (long[parent, 0], long[parent, 1]) < (length, arrival):
            break
        long[at, 0], long[at, 1], long[at, 2] = long[parent, 0], long[parent, 1], long[parent, 2]
        at = parent
    long[at, 0], long[at, 1], long[at, 2] = length, arrival, position


@inlined
def _pop(long, counters):
    counters[HEAPED] -= 1
    last = counters[HEAPED]
    length, arrival, position = long[0, 0], long[0, 1], long[0, 2]
    at, child = 0, 1
    while child < last:
        if child + 1 < last and (long[child + 1, 0], long[child + 1, 1]) < (long[child, 0], long[child, 1]):
            child += 1
        if (long[last, 0], long[last, 1]) < (long[child, 0], long[child, 1]):
            break
        long[at, 0], long[at, 1], long[at, 2] = long[child, 0], long[child, 1], long[child, 2]
        at, child = child, 2 * child + 1
    long[at, 0], long[at, 1], long[at, 2] = long[last, 0], long[last, 1], long[last, 2]
    return length, arrival, position


@inlined
def mark(bitmap, length):
    """Note that a list of this length has an entry."""
    bitmap[LENGTHS, length >> 5] |= 1 << (length & 31)
    bitmap[WORDS, length >> 10] |= 1 << ((length >> 5) & 31)


@inlined
def unmark(bitmap, length):
    """Note that the list of this length is empty."""
    bitmap[LENGTHS, length >> 5] &= ~(1 << (length & 31))
    if bitmap[LENGTHS, length >> 5] == 0:
        bitmap[WORDS, length >> 10] &= ~(1 << ((length >> 5) & 31))


@inlined
def _insert(lists, slots, bitmap, long, counters, length, arrival, position):
    if length >= len(lists):
        _push(long, counters, length, arrival, position)
        return
    slot = lists[FREE, HEAD]
    lists[FREE, HEAD] = slots[slot, NEXT]
    slots[slot, NEXT], slots[slot, SLOT_ARRIVAL], slots[slot, POSITION] = NONE, arrival, position
    if lists[length, HEAD] == NONE:
        lists[length, HEAD] = slot
        mark(bitmap, length)
    else:
        slots[lists[length, TAIL], NEXT] = slot
    lists[length, TAIL] = slot


@inlined
def _remove_first(lists, slots, bitmap, length):
    slot = lists[length, HEAD]
    lists[length, HEAD] = slots[slot, NEXT]
    slots[slot, NEXT] = lists[FREE, HEAD]
    lists[FREE, HEAD] = slot
    if lists[length, HEAD] == NONE:
        unmark(bitmap, length)
    return length, slots[slot, SLOT_ARRIVAL], slots[slot, POSITION]


@inlined
def _highest(bits):
    return 63 - leading_zeros(bits)


@inlined
def longest_fitting(bitmap, space):
    """Return the longest buffered length of at most `space`; 0 when there is none."""
    word = space >> 5
    bits = bitmap[LENGTHS, word] & ((2 << (space & 31)) - 1)
    if bits == 0:
        group = word >> 5
        bits = bitmap[WORDS, group] & ((1 << (word & 31)) - 1)
        while bits == 0 and group > 0:
            group -= 1
            bits = bitmap[WORDS, group]
        if bits == 0:
            return 0
        word = (group << 5) + _highest(bits)
        bits = bitmap[LENGTHS, word]
    return (word << 5) + _highest(bits)


@inlined
def _shortest(bitmap):
    """Return the shortest buffered length of at most a row; 0 when there is none."""
    for group in range((bitmap.shape[1] + 31) >> 5):
        bits = bitmap[WORDS, group]
        if bits:
            word = (group << 5) + _highest(bits & -bits)
            bits = bitmap[LENGTHS, word]
            return (word << 5) + _highest(bits & -bits)
    return 0


@inlined
def _select(lists, slots, bitmap, long, counters, space):
    length = longest_fitting(bitmap, space)
    if length == 0:
        length = _shortest(bitmap)
    if length == 0:
        return _pop(long, counters)
    return _remove_first(lists, slots, bitmap, length)


@inlined
def _refill(lists, slots, bitmap, long, counters, lengths, refill, buffer_size):
    while counters[HELD] < buffer_size:
        size = refill[counters[BATCH]]
        for arrival in range(counters[ARRIVED], counters[ARRIVED] + size):
            _insert(lists, slots, bitmap, long, counters, lengths[arrival % len(lengths)], arrival, 0)
        counters[ARRIVED] += size
        counters[HELD] += size
        counters[BATCH] = (counters[BATCH] + 1) % len(refill)


@compiled
def _fill(block, lists, slots, bitmap, long, counters, lengths, refill, capacity, rows, buffer_size, continues):
    """Write the next segments into `block` until it is full or `rows` rows are complete; return their number."""
    for segment in range(len(block)):
        if counters[PLANNED] == rows:
            return segment
        _refill(lists, slots, bitmap, long, counters, lengths, refill, buffer_size)
        length, arrival, position = _select(lists, slots, bitmap, long, counters, counters[SPACE])
        taken = min(length, counters[SPACE])
        if continues and taken < length:
            _insert(lists, slots, bitmap, long, counters, length - taken, arrival, position + taken)
        else:
            counters[HELD] -= 1
        begins = 1 if position == 0 else 0
        block[segment, ROW], block[segment, ARRIVAL], block[segment, BOS] = counters[PLANNED], arrival, begins
        block[segment, START], block[segment, COUNT] = position - 1 + begins, taken - begins
        counters[SPACE] -= taken
        if counters[SPACE] == 0:
            counters[PLANNED] += 1
            counters[SPACE] = capacity
    return len(block)


LOADER = Loader(plan, pieces, entries, continues=False, shared=0, fills=True, independent=False)
