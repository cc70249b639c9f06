"""The compiled steps of account.py: each segment of a plan is looked at once and forgotten.

Nothing asks the planner what it held: arrivals follow from the rule that whole refill batches arrive, before a
selection, until buffer_size entries are held. Every segment must be the next that can exist: of an entry that has
arrived, the occurrences of one entry in order of arrival, continuations without a gap, rows full and in order.
"""

from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, START
from loaders.best_fit_crop import compiled
from research.source_exclusion.account_state import (
    ARRIVED,
    BATCH,
    CROPPED,
    DISCARDED,
    DOCUMENTS,
    EMITTED,
    FILLED,
    FITTING,
    HELD,
    LAST_ROW,
    LISTED_CROPS,
    LISTED_PROTECTED,
    LISTED_SLICES,
    LONG_ARRIVED,
    LONG_EMITTED,
    LONG_STARTED,
    LONG_TOKENS,
    NOWHERE,
    SELECTED,
    STARTED,
    SYNTHETIC,
    TOKENS,
    WHOLE,
    WHOLE_TEXT,
    entries_of,
    entry_of,
    expose,
    inlined,
    place,
    replace_least,
    store,
    stratum,
)


@inlined
def _take_batch(state, capacity):
    counters, guard = state.counters, state.guard
    documents = len(state.lengths)
    first, size = counters[ARRIVED] % documents, state.refill[counters[BATCH]]
    for number in range(size):
        length, entries = state.lengths[first + number], entries_of(state, first + number)
        arrival, kind, over = counters[ARRIVED] + number, stratum(state.edges, length), 0
        state.arrived[kind, DOCUMENTS] += 1
        state.arrived[kind, TOKENS] += length
        state.arrived[kind, SYNTHETIC] += entries - 1
        if length > capacity:
            over = 1
            state.longer[LONG_ARRIVED] += 1
            state.longer[LONG_TOKENS] += length
            if len(guard) and (guard[0, 0], guard[0, 1]) < (length, arrival):
                replace_least(guard, length, arrival)
        expose(state, over, 0, length - 1, 0, length - 1)
        counters[HELD] += entries
        counters[FITTING] += entries if over == 0 or entries > 1 else 0
    counters[ARRIVED] += size
    counters[BATCH] = (counters[BATCH] + 1) % len(state.refill)


@inlined
def _select(state, arrival, begins, start, count, capacity, continues):
    """Mark an entry selected; return the text tokens that the selection leaves over, NOWHERE when it cannot be."""
    documents = len(state.lengths)
    document = arrival % documents
    text = state.lengths[document] - 1
    if len(state.first_entry) > 1:
        chunk = start // (capacity - 1)
        if chunk >= entries_of(state, document) or start != chunk * (capacity - 1):
            return NOWHERE
        text = min(capacity - 1, text - start)
    elif start + count > text:
        return NOWHERE
    entry = entry_of(state, document, start, capacity)
    if begins:
        if arrival != state.selected[entry] * documents + document or (continues and start):
            return NOWHERE
        state.selected[entry] += 1
        return text - count
    line = place(state.spans, arrival)
    possible = continues and state.spans[line, 0] == arrival and state.spans[line, 1] == text - start
    return text - start - count if possible else NOWHERE


@inlined
def _note_start(state, document, arrival, kind, length, capacity):
    counters = state.counters
    state.fates[kind, STARTED] += 1
    if length > capacity:
        state.longer[LONG_STARTED] += 1
        if state.first_long[0] == NOWHERE:
            state.first_long[0], state.first_long[1], state.first_long[2] = counters[SELECTED], arrival, length
            state.first_long[3] = counters[LAST_ROW] * (capacity - 1) + max(counters[FILLED] - 1, 0)


@inlined
def _note_fate(state, document, arrival, kind, size, rest, capacity):
    """Add what a selection of `size` tokens emits and the `rest` that it discards."""
    length, counters, guard = state.lengths[document], state.counters, state.guard
    state.fates[kind, EMITTED] += size
    state.fates[kind, DISCARDED] += rest
    if rest:
        state.kept[size] += 1
        if entries_of(state, document) > 1:
            state.crops[counters[LISTED_CROPS]] = arrival
            counters[LISTED_CROPS] += 1
        else:
            state.fates[kind, CROPPED] += 1
    if length > capacity:
        state.longer[LONG_EMITTED] += size
        if len(guard) and (guard[0, 0], guard[0, 1]) <= (length, arrival):
            line = counters[LISTED_PROTECTED]
            state.protected[line, 0], state.protected[line, 1], state.protected[line, 2] = arrival, size, rest
            counters[LISTED_PROTECTED] += 1


@inlined
def _note_positions(state, document, start, count, over, continues):
    text, end = state.lengths[document] - 1, start + count
    expose(state, over, 1, text, start, end)
    if start == 0 or continues:
        state.prefix[document] = max(state.prefix[document], end)
        return
    state.prefix[document] = max(state.prefix[document], 0)
    if count:
        line = state.counters[LISTED_SLICES]
        state.slices[line, 0], state.slices[line, 1], state.slices[line, 2] = document, start, end
        state.counters[LISTED_SLICES] += 1


@inlined
def _enter_row(counters, row, size, capacity):
    """Return whether a segment of `size` tokens can lie in `row`, the rows being full and in order."""
    if row == counters[LAST_ROW] + 1 and counters[FILLED] == capacity:
        counters[LAST_ROW], counters[FILLED] = row, 0
    return row == counters[LAST_ROW] and 0 < size <= capacity - counters[FILLED]


@inlined
def _note_removal(state, arrival, size, rest, capacity, continues):
    """Take an entry of size + rest tokens from the buffer, and put its rest back when the loader continues."""
    counters = state.counters
    counters[HELD] -= 1
    counters[FITTING] -= 1 if size + rest <= capacity else 0
    if continues:
        store(state.spans, arrival, rest)
        if rest:
            counters[HELD] += 1
            counters[FITTING] += 1 if rest <= capacity else 0
    counters[FILLED] += size
    counters[SELECTED] += 1


@inlined
def _note_segment(state, arrival, bos, start, count, rest, capacity, continues):
    """Add a possible segment to all sums."""
    document = arrival % len(state.lengths)
    length = state.lengths[document]
    kind, over = stratum(state.edges, length), 1 if length > capacity else 0
    if bos and len(state.first_entry) == 1:
        _note_start(state, document, arrival, kind, length, capacity)
    elif bos and state.selected[entry_of(state, document, start, capacity)] > state.started[document]:
        state.started[document] += 1
        _note_start(state, document, arrival, kind, length, capacity)
    if count == length - 1:
        state.fates[kind, WHOLE_TEXT] += 1
        state.fates[kind, WHOLE] += bos
    _note_fate(state, document, arrival, kind, bos + count, 0 if continues else rest, capacity)
    _note_positions(state, document, start, count, over, continues)
    _note_removal(state, arrival, bos + count, rest, capacity, continues)


@compiled
def follow(block, curve, state, capacity, buffer_size, continues):
    """Account for the segments of a block; return len(block), or the number of the first segment that cannot be.

    curve, int32 (block, 4), receives before each selection the entries held that fit a row and all that are held, and
    the tokens that the selection discards and emits.
    """
    counters = state.counters
    for segment in range(len(block)):
        while counters[HELD] < buffer_size:
            _take_batch(state, capacity)
        arrival, bos, start = block[segment, ARRIVAL], block[segment, BOS], block[segment, START]
        count = block[segment, COUNT]
        if not (0 <= arrival < counters[ARRIVED] and 0 <= bos <= 1 and start >= 0 and count >= 0
                and _enter_row(counters, block[segment, ROW], bos + count, capacity)):
            return segment
        rest = _select(state, arrival, bos == 1, start, count, capacity, continues)
        if rest < 0:
            return segment
        curve[segment, 0], curve[segment, 1] = counters[FITTING], counters[HELD]
        curve[segment, 2], curve[segment, 3] = 0 if continues else rest, bos + count
        _note_segment(state, arrival, bos, start, count, rest, capacity, continues)
    return len(block)
