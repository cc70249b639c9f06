"""When the documents of a repeated corpus are first begun, and when they could be: bounds, and records of a replay."""

import contextlib
import sys
from bisect import insort
from itertools import groupby

import numpy as np

from research.source_exclusion.replay import replay

STEADY_PASSES = 10


# ------------------------------------------------------------------------------------------- bounds


def bounds(lengths, refill, capacity, buffer_size):
    """{length: (documents, bound, refilled)} for every length over a row, longest first.

    documents: how many of one pass are at least that long; bound: documents of the stream that have arrived with the
    buffer_size-th of these; refilled: those that have arrived at the end of its refill batch.
    """
    longer = np.flatnonzero(lengths > capacity)
    order = longer[np.argsort(-lengths[longer], kind="stable")].tolist()
    earliest, reached, ends, found = [], 0, np.cumsum(refill), {}
    for length, equal in groupby(order, key=lambda document: int(lengths[document])):
        for document in equal:
            insort(earliest, document)
            reached += 1
        del earliest[buffer_size:]
        passes, rank = divmod(buffer_size - 1, reached)
        end = int(ends[np.searchsorted(ends, earliest[rank], side="right")])
        found[length] = reached, passes * len(lengths) + earliest[rank] + 1, passes * len(lengths) + end
    return found


def class_edges(lengths, capacity):
    """Ascending lengths from which classes count: capacity + 1, the powers of two above it, the longest."""
    longest = int(lengths.max())
    powers = (2**power for power in range(longest.bit_length()))
    return sorted({capacity + 1, *(edge for edge in (*powers, longest) if edge > capacity)})


def first_of_classes(bound, lengths, first, passes):
    """{length: documents arrived when the first of all at least that long was begun}, None when none was."""
    order = np.argsort(-lengths, kind="stable")
    never = passes * len(lengths) + 1
    earliest = np.minimum.accumulate(np.where(first, first, never)[order])
    found = earliest[[documents - 1 for documents, _, _ in bound.values()]].tolist() if bound else []
    return {length: value if value < never else None for length, value in zip(bound, found)}


def broken_bounds(bound, served, horizon):
    """Lines on the lengths whose first document was begun before its bound, or later than the refill of the bound."""
    return [f"of the documents of at least {length} tokens the first was begun when {found} had arrived, "
            f"expected {refilled}, the bound being {earliest}"
            for (length, (_, earliest, refilled)), found in zip(bound.items(), served.values())
            if found != (refilled if refilled <= horizon else None)]


# ------------------------------------------------------------------------------------------ records


def moment(arrived, documents):
    """A point of the stream as the pass (from 1) and how many documents have arrived; None stays None."""
    return arrived and {"pass": -(-arrived // documents), "arrived": arrived}


def follow_passes(stream, packing, edges, passes):
    """(account, table, states): the final Replay; int64 (passes, 4 + classes) totals at the end of each pass, and its
    two state digests."""
    from corpora.tokens import progress

    table, states = [], []
    with contextlib.redirect_stdout(sys.stderr):
        for account in progress(replay(stream, packing, passes, edges), passes, "passes"):
            totals = account.totals()
            tokens, kept = totals["tokens"], totals["protected"]["tokens"]
            table.append([tokens["emitted"], tokens["discarded"], tokens["buffered"], kept,
                          *np.cumsum(account.started[::-1])[::-1].tolist()])
            states.append(account.state())
    return account, np.array(table, np.int64), states


def pass_records(table, edges):
    """One record a pass: tokens emitted and discarded in it, buffered at its end, documents of each class begun."""
    change = np.diff(table, axis=0, prepend=0)
    return [{"pass": number, "emitted": row[0], "discarded": row[1], "buffered": now[2], "protected": now[3],
             **{f"started_from_{edge}": started for edge, started in zip([1, *edges], row[4:])}}
            for number, (row, now) in enumerate(zip(change.tolist(), table.tolist()), 1)]


def steady_record(states, records):
    """When what waits stops changing, when the whole state comes back, and the means of the last passes."""
    waiting = [state[0] for state in states]
    settled = next((number for number in range(len(states), 1, -1) if waiting[number - 1] != waiting[number - 2]), 1)
    seen, repeats = {}, None
    for number, (_, state) in enumerate(states, 1):
        if state in seen:
            repeats = {"pass": number, "equals_pass": seen[state], "period": number - seen[state]}
            break
        seen[state] = number
    last = records[-STEADY_PASSES:]
    sums = {key: sum(record[key] for record in last) for key in last[0] if key not in ("pass", "buffered", "protected")}
    return {"waiting_unchanged_from_pass": settled if settled < len(states) else None, "state_repeats": repeats,
            "last_passes": {"passes": len(last), **sums}}


def class_record(edge, lengths, bound, account):
    """What became of the documents of at least `edge` tokens."""
    size, chosen = len(lengths), lengths >= edge
    reached = [entry for length, entry in bound.items() if length >= edge][-1:] if edge > 1 else []
    begun, first = account.begun[chosen], account.first[chosen]
    return {"from": edge, "documents": int(chosen.sum()), "tokens": int(lengths[chosen].sum()),
            "bound": moment(reached[0][1], size) if reached else None,
            "first_begun": moment(int(first[first > 0].min()) if first.any() else None, size),
            "all_begun": moment(int(first.max()), size) if first.all() else None,
            "never_begun": int((begun == 0).sum()), "services": int(begun.sum())}


def longest_records(lengths, bound, account, count):
    """The `count` longest documents that exceed a row: bound, first service, services in all."""
    order = np.argsort(-lengths, kind="stable")[:count].tolist()
    return [{"document": document, "length": int(lengths[document]),
             "bound": moment(bound[int(lengths[document])][1], len(lengths)),
             "first_begun": moment(int(account.first[document]) or None, len(lengths)),
             "services": int(account.begun[document])} for document in order if int(lengths[document]) in bound]


def sampled(records, classes):
    """Passes to show: powers of two, those of the bounds and the one before, the last."""
    numbers = {2**power for power in range(len(records).bit_length())} | {len(records)}
    for record in classes:
        numbers |= {record["bound"]["pass"] - 1, record["bound"]["pass"]} if record["bound"] else set()
    return [records[number - 1] for number in sorted(numbers) if 1 <= number <= len(records)]
