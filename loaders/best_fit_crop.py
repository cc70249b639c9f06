"""Condition `baseline`: best fit, else crop the shortest and drop its rest.

Before every placement whole refill batches arrive until at least `buffer_size` entries are held. The longest entry that
fits the space left in the row is placed (ties: earliest arrival); when none fits, the shortest one (ties: earliest
arrival) fills the row with its prefix. What it leaves over is dropped here, or kept by the lossless loader. (Paper
section 3; the reference stream of the recipe.)

Entries of at most a row wait in one first-in-first-out list per length, found through a two-level bitmap of the lengths held;
longer ones in a heap by (length, arrival). A kept rest never breaks a list's order: it is shorter than the shortest
entry held, so its list is empty, and whatever arrives later comes after it.
"""

import heapq
from collections import namedtuple

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import leading_zeros

from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, START, validated

CONTINUES = False
NONE = -1

# Lists of entry slots by length: list 0 holds the free slots. Bitmap words hold 32 bits each, so that int64 stays positive.
Short = namedtuple("Short", "head tail following arrival position words summary")


def entries(lengths, capacity):
    """int64 (documents,): buffer entries each document becomes; here always one."""
    return np.ones_like(lengths)


def plan(lengths, *, capacity, rows, buffer_size, refill, seed=None):
    """Segments of `rows` rows of exactly `capacity` tokens, int64 (segments, 5): row, arrival, bos, start, count.

    lengths: int64 (documents,) of one pass, tokens per document, BOS included; refill: int64 (batches,), documents per
    refill batch of one pass. Passes repeat without a reset. `seed` is not used. ValueError on anything else.
    """
    lengths, refill, *sizes = validated(lengths, refill, capacity=capacity, rows=rows, buffer_size=buffer_size)
    return pack(lengths, refill, *sizes, CONTINUES)


def pack(lengths, refill, capacity, rows, buffer_size, continues):
    """The plan over entries given by length; `continues` keeps the rest of a selected entry in the buffer."""
    return _pack(_read_only(lengths), _read_only(refill), capacity, rows, buffer_size, continues)


def _read_only(values):
    """One array type for the compiler, whether the lengths are in memory or memory-mapped: it compiles once."""
    view = values.view()
    view.setflags(write=False)
    return view


@njit(cache=True)
def _empty(capacity, slots):
    head = np.full(capacity + 1, NONE, np.int64)
    following = np.arange(1, slots + 1)
    following[-1] = NONE
    head[0] = 0
    words, groups = (capacity >> 5) + 1, (capacity >> 10) + 1
    return Short(head, np.full(capacity + 1, NONE, np.int64), following, np.empty(slots, np.int64),
                 np.empty(slots, np.int64), np.zeros(words, np.int64), np.zeros(groups, np.int64))


@njit(cache=True)
def _insert(short, long, length, arrival, position):
    if length >= len(short.head):
        heapq.heappush(long, (length, arrival, position))
        return
    slot = short.head[0]
    short.head[0] = short.following[slot]
    short.arrival[slot], short.position[slot], short.following[slot] = arrival, position, NONE
    if short.head[length] == NONE:
        short.head[length] = slot
        short.words[length >> 5] |= 1 << (length & 31)
        short.summary[length >> 10] |= 1 << ((length >> 5) & 31)
    else:
        short.following[short.tail[length]] = slot
    short.tail[length] = slot


@njit(cache=True)
def _remove_first(short, length):
    slot = short.head[length]
    short.head[length] = short.following[slot]
    short.following[slot] = short.head[0]
    short.head[0] = slot
    if short.head[length] == NONE:
        short.words[length >> 5] &= ~(1 << (length & 31))
        if short.words[length >> 5] == 0:
            short.summary[length >> 10] &= ~(1 << ((length >> 5) & 31))
    return length, short.arrival[slot], short.position[slot]


@njit(cache=True)
def _highest(bits):
    return 63 - leading_zeros(bits)


@njit(cache=True)
def _longest_fitting(short, space):
    """The longest length held of at most `space`; 0 when there is none."""
    word = space >> 5
    bits = short.words[word] & ((2 << (space & 31)) - 1)
    if bits == 0:
        group = word >> 5
        bits = short.summary[group] & ((1 << (word & 31)) - 1)
        while bits == 0 and group > 0:
            group -= 1
            bits = short.summary[group]
        if bits == 0:
            return 0
        word = (group << 5) + _highest(bits)
        bits = short.words[word]
    return (word << 5) + _highest(bits)


@njit(cache=True)
def _shortest(short):
    """The shortest length held of at most a row; 0 when there is none."""
    for group, bits in enumerate(short.summary):
        if bits:
            word = (group << 5) + _highest(bits & -bits)
            bits = short.words[word]
            return (word << 5) + _highest(bits & -bits)
    return 0


@njit(cache=True)
def _select(short, long, space):
    length = _longest_fitting(short, space)
    if length == 0:
        length = _shortest(short)
    if length == 0:
        return heapq.heappop(long)
    return _remove_first(short, length)


@njit(cache=True)
def _grown(plan):
    larger = np.empty((2 * len(plan), 5), np.int64)
    larger[: len(plan)] = plan
    return larger


@njit(cache=True)
def _pack(lengths, refill, capacity, rows, buffer_size, continues):
    short = _empty(capacity, buffer_size + refill.max())
    long = [(0, 0, 0) for _ in range(0)]
    plan = np.empty((rows + 1, 5), np.int64)
    batch = arrived = held = segments = row = 0
    space = capacity
    while row < rows:
        while held < buffer_size:
            for arrival in range(arrived, arrived + refill[batch]):
                _insert(short, long, lengths[arrival % len(lengths)], arrival, 0)
            arrived += refill[batch]
            held += refill[batch]
            batch = (batch + 1) % len(refill)
        length, arrival, position = _select(short, long, space)
        taken = min(length, space)
        if continues and taken < length:
            _insert(short, long, length - taken, arrival, position + taken)
        else:
            held -= 1
        if segments == len(plan):
            plan = _grown(plan)
        begins = int(position == 0)
        plan[segments, ROW], plan[segments, ARRIVAL], plan[segments, BOS] = row, arrival, begins
        plan[segments, START], plan[segments, COUNT] = position - 1 + begins, taken - begins
        segments += 1
        space -= taken
        if space == 0:
            row, space = row + 1, capacity
    return plan[:segments].copy()
