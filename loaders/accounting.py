"""What a plan did with every token that arrived: one exact ledger for all loaders.

A plan is an int64 table (segments, 5) with the columns ROW, ARRIVAL, BOS, START, COUNT in row order. `arrival` is
pass * documents + document; `bos` is 1 when the segment begins with a BOS token; `start, count` is the slice of the
document's text tokens. The buffer of a loader holds *entries*: whole documents, or the chunks of a document that is cut
before insertion. Each loader file describes itself to the ledger by its `LOADER`.

Nothing here asks the planner what it held: arrivals, discards and the buffer are derived again from the plan and the
lengths (paper sections 3 and 5.1), so a planner that lost or repeated tokens is found out.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

ROW, ARRIVAL, BOS, START, COUNT = range(5)
LONGEST = 2**31 - 1


class Loader(NamedTuple):
    """What the ledger and the trainer must know of a loader; each loader file ends with its own, `LOADER`.

    plan: the function (lengths, *, capacity, rows, buffer_size, refill, seed) -> int64 (segments, 5).
    entries: the function (lengths, capacity) -> int64 (documents,), the buffer entries that each document becomes.
    continues: what a selected entry leaves over stays in the buffer; otherwise it is discarded.
    shared: tokens that a document repeats where it goes on in another row.
    fills: every row has exactly `capacity` tokens; otherwise rows may be shorter.
    independent: no target is predicted from another segment.
    """

    plan: Callable
    entries: Callable
    continues: bool
    shared: int
    fills: bool
    independent: bool


# --------------------------------------------------------------------------------------- validation


def integer_at_least(name, value, least):
    """`value` as int; ValueError unless it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name}: expected an integer of at least {least}, found {value!r}")
    return int(value)


def positive_integers(name, values):
    """Return `values` as contiguous int64 (n,), n > 0, all in 1..2^31-1; ValueError names the first that is not."""
    values = np.asarray(values)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name}: expected a list of at least one positive integer, found shape {values.shape}")
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected integers, found {values.dtype}")
    wrong = np.flatnonzero((values < 1) | (values > LONGEST))
    if wrong.size:
        raise ValueError(f"{name}[{wrong[0]}]: expected 1..{LONGEST}, found {values[wrong[0]]}")
    return np.ascontiguousarray(values, dtype=np.int64)


def validated_stream(lengths, refill):
    """(lengths, refill) as contiguous int64; ValueError unless both are positive and refill sums to the documents."""
    lengths, refill = positive_integers("lengths", lengths), positive_integers("refill", refill)
    if refill.sum() != len(lengths):
        raise ValueError(f"refill: batches hold {refill.sum()} documents, lengths has {len(lengths)}")
    return lengths, refill


def validated(lengths, refill, *, capacity, rows, buffer_size):
    """(lengths, refill, capacity, rows, buffer_size), checked: what every `plan` accepts and nothing else."""
    return (*validated_stream(lengths, refill), integer_at_least("capacity", capacity, 2),
            integer_at_least("rows", rows, 0), integer_at_least("buffer_size", buffer_size, 1))


# ------------------------------------------------------------------------------------------ entries


def batch_sums(values, refill):
    """int64 (batches,): the sum of a per-document array over each refill batch."""
    return np.add.reduceat(values, np.cumsum(refill) - refill)


def entry_lengths(lengths, entries, capacity):
    """int64 (sum of entries,): tokens of every entry, BOS included, in document and chunk order.

    A document of one entry is that entry; of several, all but the last are a full row and each begins with a BOS.
    """
    tokens = np.full(int(entries.sum()), capacity, dtype=np.int64)
    tokens[np.cumsum(entries) - 1] = lengths - (entries - 1) * (capacity - 1)
    return tokens


def discards(plan, lengths, *, capacity, loader):
    """int64 (segments,): tokens of the selected entry that each selection throws away."""
    if loader.continues:
        return np.zeros(len(plan), dtype=np.int64)
    lengths = positive_integers("lengths", lengths)
    document = plan[:, ARRIVAL] % len(lengths)
    text = lengths[document] - 1
    chunked = loader.entries(lengths, capacity)[document] > 1
    text = np.where(chunked, np.minimum(capacity - 1, text - plan[:, START]), text)
    return text - plan[:, COUNT]


def arrived_documents(plan, lengths, refill, *, capacity, buffer_size, loader):
    """Documents that had arrived when the last segment of `plan` was placed.

    The loader takes whole refill batches until `buffer_size` entries are held, before every placement; so it has
    taken the fewest batches whose entries reach buffer_size plus the entries removed before the last placement.
    """
    if len(plan) == 0:
        return 0
    lengths, refill = validated_stream(lengths, refill)
    removed = len(plan) - 1
    if loader.continues:
        ends = plan[:-1, START] + plan[:-1, COUNT] + 1
        removed = len(np.unique(plan[:-1, ARRIVAL][ends == lengths[plan[:-1, ARRIVAL] % len(lengths)]]))
    reached = np.cumsum(batch_sums(loader.entries(lengths, capacity), refill))
    passes, rest = divmod(buffer_size + removed - 1, int(reached[-1]))
    batch = int(np.searchsorted(reached, rest + 1))
    return passes * len(lengths) + int(refill[: batch + 1].sum())


# ------------------------------------------------------------------------------------------- ledger


def _require(holds, what):
    if not holds:
        raise ValueError(f"the plan does not balance: {what}")


def _check_segments(plan, lengths, capacity, fills):
    sizes = plan[:, BOS] + plan[:, COUNT]
    ends = plan[:, START] + plan[:, COUNT]
    _require((ends < lengths[plan[:, ARRIVAL] % len(lengths)]).all(), "a segment ends beyond its document")
    _require((sizes > 0).all() and (plan[:, [START, COUNT]] >= 0).all(), "a segment is empty or negative")
    rows = plan[:, ROW]
    _require((np.diff(rows, prepend=-1) <= 1).all() and (np.diff(rows, prepend=0) >= 0).all(), "rows are not in order")
    full = np.add.reduceat(sizes, np.flatnonzero(np.diff(rows, prepend=-1))) if len(plan) else sizes
    _require((full == capacity if fills else full <= capacity).all(), f"a row does not hold {capacity} tokens")


def _check_continuations(plan, shared):
    """Segments of one occurrence follow each other, the first from its BOS on, with an overlap of `shared` tokens."""
    plan = plan[np.argsort(plan[:, ARRIVAL], kind="stable")]
    first = np.diff(plan[:, ARRIVAL], prepend=-1) > 0
    begins, ends = plan[:, START] + 1 - plan[:, BOS], plan[:, START] + plan[:, COUNT] + 1
    expected = np.where(first, 0, np.roll(ends, 1) - shared)
    _require(((begins == expected) & (plan[:, BOS] == (begins == 0))).all(), "a continuation leaves a gap or overlaps")


def _entry_fates(plan, lengths, arrived, capacity, loader):
    """(first entry of each occurrence, entries' tokens emitted once, discarded, buffered), each int64 over arrivals."""
    entries = np.resize(loader.entries(lengths, capacity), arrived)
    tokens = entry_lengths(np.resize(lengths, arrived), entries, capacity)
    first = np.cumsum(entries) - entries
    arrival = plan[:, ARRIVAL]
    chunk = np.where(entries[arrival] > 1, plan[:, START] // (capacity - 1), 0)
    selected = np.bincount(first[arrival] + chunk, minlength=len(tokens))
    emitted = np.zeros_like(tokens)
    np.add.at(emitted, first[arrival] + chunk, plan[:, BOS] + plan[:, COUNT])
    emitted -= loader.shared * np.maximum(selected - 1, 0)
    _require((emitted <= tokens).all(), "an entry emits more tokens than it has")
    if loader.continues:
        _check_continuations(plan, loader.shared)
        return first, emitted, np.zeros_like(tokens), tokens - emitted
    _require((selected <= 1).all() and (plan[:, BOS] == 1).all(), "an entry is selected twice or has no BOS")
    return first, emitted, np.where(selected, tokens - emitted, 0), np.where(selected, 0, tokens)


def _document_states(plan, lengths, first, discarded, buffered):
    """Counts of arrived documents by state; unstarted + whole + cropped + split = arrived."""
    arrived = len(first)
    started = np.bincount(plan[:, ARRIVAL], minlength=arrived) > 0
    complete = plan[:, COUNT] == lengths[plan[:, ARRIVAL] % len(lengths)] - 1
    whole = np.bincount(plan[complete, ARRIVAL], minlength=arrived) > 0
    cropped = np.add.reduceat(discarded, first) > 0 if arrived else started
    held = np.add.reduceat(buffered, first) > 0 if arrived else started
    states = {"unstarted": ~started, "whole": whole, "cropped": cropped, "split": started & ~whole & ~cropped}
    counts = {name: int(np.count_nonzero(state)) for name, state in states.items()}
    _require(sum(counts.values()) == arrived, f"documents arrived {arrived}, by state {counts}")
    return {"arrived": arrived, "started": int(started.sum()), "buffered": int(held.sum()), **counts}


def ledger(plan, lengths, refill, *, capacity, buffer_size, loader):
    """The exact account of a plan at its last token, as a dict of Python ints; ValueError when it does not balance.

    tokens: arrived (of original documents) + synthetic_bos (added to their chunks) = emitted + discarded + buffered;
    where rows share tokens, `repeated` are those emitted a second time, added on the left. Loaders that need no buffer
    are taken to hold one all the same, so that arrivals compare.
    documents: arrived = unstarted (no segment) + whole (one segment has all its text) + cropped (a token of it was
    discarded) + split (the rest); started and buffered (a token of it is held) overlap with these.
    """
    lengths, refill = validated_stream(lengths, refill)
    _check_segments(plan, lengths, capacity, loader.fills)
    arrived = arrived_documents(plan, lengths, refill, capacity=capacity, buffer_size=buffer_size, loader=loader)
    _require(((plan[:, ARRIVAL] >= 0) & (plan[:, ARRIVAL] < arrived)).all(), "a document is used before it arrives")
    passes, rest = divmod(arrived, len(lengths))

    def over_arrivals(values):
        return passes * int(values.sum()) + int(values[:rest].sum())

    first, emitted, discarded, buffered = _entry_fates(plan, lengths, arrived, capacity, loader)
    tokens = {
        "arrived": over_arrivals(lengths),
        "synthetic_bos": over_arrivals(loader.entries(lengths, capacity) - 1),
        "emitted": int((plan[:, BOS] + plan[:, COUNT]).sum()),
        "discarded": int(discarded.sum()),
        "buffered": int(buffered.sum()),
    }
    if loader.shared:
        tokens["repeated"] = tokens["emitted"] - int(emitted.sum())
    enters = tokens["arrived"] + tokens["synthetic_bos"] + tokens.get("repeated", 0)
    _require(enters == tokens["emitted"] + tokens["discarded"] + tokens["buffered"], tokens)
    return {"tokens": tokens, "documents": _document_states(plan, lengths, first, discarded, buffered)}


def protected(lengths, arrived, *, capacity, buffer_size):
    """int64 (min(B-1, N_long),): arrivals of the largest (length, arrival) keys among the arrived documents longer
    than a row, in key order: those the proposition of paper section 3 says have not begun.
    """
    lengths = positive_integers("lengths", lengths)
    tokens = np.resize(lengths, arrived)
    long = np.flatnonzero(tokens > capacity)
    keep = min(buffer_size - 1, len(long))
    return long[np.argsort(tokens[long], kind="stable")][len(long) - keep :]


def crop_statistics(plan, lengths, *, capacity, loader):
    """Crop events (a selection that discards), those that keep only the BOS, and the median kept prefix in tokens,
    BOS included: an exact half-integer, None without crops (paper section 5.1)."""
    cropped = discards(plan, lengths, capacity=capacity, loader=loader) > 0
    kept = np.sort(plan[cropped, BOS] + plan[cropped, COUNT], kind="stable")
    median = int(kept[[(len(kept) - 1) // 2, len(kept) // 2]].sum()) / 2 if len(kept) else None
    return {"events": len(kept), "bos_only": int(np.count_nonzero(kept == 1)), "median_kept": median}


def row_targets(plan, *, independent):
    """int64 (rows,): effective targets of each row: its tokens less one, or less one a segment where segments are
    independent. Every row of a plan has a segment."""
    begins = np.flatnonzero(np.diff(plan[:, ROW], prepend=-1))
    unscored = np.diff(begins, append=len(plan)) if independent else 1
    return np.add.reduceat(plan[:, BOS] + plan[:, COUNT], begins) - unscored if len(plan) else begins


def plan_sha256(plan):
    """Hex SHA-256 of the plan's little-endian int64 bytes, row by row."""
    return hashlib.sha256(np.ascontiguousarray(plan, dtype="<i8")).hexdigest()
