"""The arrays of an account, and the compiled steps that other files share."""

from typing import NamedTuple

import numpy as np
from numba import njit

BLOCK = 262144
TENTHS = 10
# counters of a State; LISTED_* count the lines of its lists.
(ARRIVED, BATCH, HELD, FITTING, LAST_ROW, FILLED, SELECTED, LISTED_SLICES, LISTED_CROPS,
 LISTED_PROTECTED) = range(10)
COUNTERS = 10
DOCUMENTS, TOKENS, SYNTHETIC = range(3)  # columns of State.arrived
STARTED, WHOLE, WHOLE_TEXT, CROPPED, EMITTED, DISCARDED = range(6)  # columns of State.fates
LONG_ARRIVED, LONG_TOKENS, LONG_STARTED, LONG_EMITTED = range(4)  # of State.longer
NOWHERE = -1

inlined = njit(nogil=True, _nrt=False)


class State(NamedTuple):
    """The arrays that the account keeps, and the stream's own; all int64 unless int32 is said.

    arrived (strata, 3), fates (strata, 6), longer (4,): sums over documents, by length stratum and over a row.
    relative (2, 10, 2): text tokens (arrived, emitted) by tenth of the text, of documents over a row at index 1.
    absolute (strata, 2): text tokens (arrived, emitted) by position. kept (capacity + 1,): crops by tokens kept.
    first_long (4,): segment, arrival, length and target offset of the first start of a document longer than a row.
    guard (buffer_size - 1, 2): heap of the largest keys (length, arrival) over a row, the least first.
    selected int32 (entries,), started int32 (documents,): occurrences selected and started; one array where every
    document is one entry. prefix int32 (documents,): text tokens emitted from the start on, -1 when it never started.
    spans int64 (n, 2): hash table of (arrival, text tokens left), of the documents that a continuing loader has
    started and still holds; arrival is -1 in empty places.
    slices int32 (block, 3), crops (block,), protected (block, 3): lists that are emptied after every block.
    """

    counters: np.ndarray
    arrived: np.ndarray
    fates: np.ndarray
    longer: np.ndarray
    relative: np.ndarray
    absolute: np.ndarray
    kept: np.ndarray
    first_long: np.ndarray
    guard: np.ndarray
    selected: np.ndarray
    started: np.ndarray
    prefix: np.ndarray
    spans: np.ndarray
    slices: np.ndarray
    crops: np.ndarray
    protected: np.ndarray
    lengths: np.ndarray
    refill: np.ndarray
    first_entry: np.ndarray
    edges: np.ndarray


@inlined
def replace_least(guard, length, arrival):
    """Replace the least key of a heap of keys (length, arrival), whose least is first, by this one."""
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
def stratum(edges, length):
    kind = 0
    while kind < len(edges) and edges[kind] < length:
        kind += 1
    return kind


@inlined
def expose(state, over, column, text, start, end):
    """Add the positions [start, end) of a text of `text` tokens to the tables of exposure."""
    for tenth in range(TENTHS):
        low, high = (text * tenth + TENTHS - 1) // TENTHS, (text * (tenth + 1) + TENTHS - 1) // TENTHS
        state.relative[over, tenth, column] += max(min(end, high) - max(start, low), 0)
    low = 0
    for place in range(len(state.edges)):
        if low >= end:
            return
        high = state.edges[place]
        state.absolute[place, column] += max(min(end, high) - max(start, low), 0)
        low = high
    state.absolute[len(state.edges), column] += max(end - max(start, low), 0)


@inlined
def place(spans, arrival):
    """Return the line of an arrival in a hash table with linear probing, or the empty line where it would stand."""
    line = (arrival * 0x9E3779B1) % len(spans)
    while spans[line, 0] != NOWHERE and spans[line, 0] != arrival:
        line = (line + 1) % len(spans)
    return line


@inlined
def store(spans, arrival, left):
    """Let `left` be what is left of an arrival; remove it from the table when nothing is."""
    line = place(spans, arrival)
    spans[line, 0], spans[line, 1] = arrival, left
    if left:
        return
    spans[line, 0] = NOWHERE
    following = (line + 1) % len(spans)
    while spans[following, 0] != NOWHERE:  # later lines may have been pushed past the one that is empty now
        moved, tokens = spans[following, 0], spans[following, 1]
        spans[following, 0] = NOWHERE
        target = place(spans, moved)
        spans[target, 0], spans[target, 1] = moved, tokens
        following = (following + 1) % len(spans)


@inlined
def entries_of(state, document):
    if len(state.first_entry) == 1:
        return 1
    return state.first_entry[document + 1] - state.first_entry[document]


@inlined
def entry_of(state, document, start, capacity):
    """Return the number of the entry that holds a document's text token `start`."""
    if len(state.first_entry) == 1:
        return document
    return state.first_entry[document] + start // (capacity - 1)
