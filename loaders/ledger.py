"""What a plan did with every token that arrived: one exact ledger for all loaders.

The ledger does not ask the planner what it held. It derives arrivals, discards and the buffer again from the plan and
the lengths (paper sections 3 and 5.1), so it finds out a planner that lost or repeated tokens.
"""

import numpy as np

from loaders.accounting import (
    ARRIVAL,
    BOS,
    COUNT,
    ROW,
    START,
    batch_sums,
    entry_lengths,
    positive_integers,
    validated_stream,
)


def arrived_documents(plan, lengths, refill, *, capacity, buffer_size, loader):
    """Return the number of documents that had arrived when the last segment of `plan` was placed.

    Before every placement the loader takes whole refill batches until it has `buffer_size` entries. So it has taken the
    fewest batches whose entries reach buffer_size plus the entries removed before the last placement.
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
    """Check that the segments of one occurrence follow each other from its BOS on and overlap by `shared` tokens."""
    plan = plan[np.argsort(plan[:, ARRIVAL], kind="stable")]
    first = np.diff(plan[:, ARRIVAL], prepend=-1) > 0
    begins, ends = plan[:, START] + 1 - plan[:, BOS], plan[:, START] + plan[:, COUNT] + 1
    expected = np.where(first, 0, np.roll(ends, 1) - shared)
    _require(((begins == expected) & (plan[:, BOS] == (begins == 0))).all(), "a continuation leaves a gap or overlaps")


def _entry_fates(plan, lengths, arrived, capacity, loader):
    """Return (first entry of each arrival; of each entry: tokens emitted once, discarded, buffered), int64 each."""
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
    """Return counts of arrived documents by state; unstarted + whole + cropped + split = arrived."""
    arrived = len(first)
    started = np.bincount(plan[:, ARRIVAL], minlength=arrived) > 0
    all_text = plan[:, COUNT] == lengths[plan[:, ARRIVAL] % len(lengths)] - 1
    whole = np.bincount(plan[all_text & (plan[:, BOS] == 1), ARRIVAL], minlength=arrived) > 0
    text_whole = np.bincount(plan[all_text, ARRIVAL], minlength=arrived) > 0
    cropped = np.add.reduceat(discarded, first) > 0 if arrived else started
    held = np.add.reduceat(buffered, first) > 0 if arrived else started
    states = {"unstarted": ~started, "whole": whole, "cropped": cropped, "split": started & ~whole & ~cropped}
    counts = {name: int(np.count_nonzero(state)) for name, state in states.items()}
    _require(sum(counts.values()) == arrived, f"documents arrived {arrived}, by state {counts}")
    return {"arrived": arrived, "started": int(started.sum()), "buffered": int(held.sum()),
            "bos_apart": int((text_whole & ~whole).sum()), **counts}


def of_schema_1(documents):
    """Return the documents of a ledger as evidence without a schema number counts them.

    There a document was whole when one segment had all its text, even if its BOS had ended the row before alone.
    """
    apart = documents["bos_apart"]
    first = {**documents, "whole": documents["whole"] + apart, "split": documents["split"] - apart}
    del first["bos_apart"]
    return first


def ledger(plan, lengths, refill, *, capacity, buffer_size, loader):
    """Return the exact account of a plan at its last token, a dict of Python ints; ValueError if it does not balance.

    tokens: arrived (of original documents) + synthetic_bos (added to their chunks) = emitted + discarded + buffered.
    Where rows share tokens, `repeated` counts those that were emitted a second time and is added on the left. A loader
    that needs no buffer is accounted as if it had one, so that arrivals compare.
    documents: arrived = unstarted (no segment) + whole (BOS and all text in one segment) + cropped (a token of it was
    discarded) + split (the others). Started, buffered (a token of it is buffered) and bos_apart (all its text is in one
    segment, its BOS alone in an earlier one) overlap with these. This is schema 2; see `of_schema_1`.
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
    """Return int64 (min(B-1, N_long),): the arrivals that the proposition of paper section 3 says have not started.

    They have the largest (length, arrival) keys among the arrived documents longer than a row, and are in key order.
    """
    lengths = positive_integers("lengths", lengths)
    tokens = np.resize(lengths, arrived)
    long = np.flatnonzero(tokens > capacity)
    keep = min(buffer_size - 1, len(long))
    return long[np.argsort(tokens[long], kind="stable")][len(long) - keep :]
