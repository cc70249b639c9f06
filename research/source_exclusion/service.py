"""When do the documents of a repeated corpus first start, and when can they at the earliest? Bounds and records."""

import contextlib
import sys
from itertools import groupby

import numpy as np

from research.source_exclusion.replay import replay

STEADY_PASSES = 10


# ------------------------------------------------------------------------------------------- bounds


def bounds(lengths, refill, capacity, buffer_size):
    """Return {length: (documents, bound, refilled)} for every length over a row, longest first.

    documents: how many documents of one pass are at least that long; bound: how many documents of the stream have
    arrived with the buffer_size-th of these; refilled: how many have arrived at the end of its refill batch.
    """
    longer = np.flatnonzero(lengths > capacity)
    order = longer[np.argsort(-lengths[longer], kind="stable")].tolist()
    earliest, reached, ends, found = np.empty(0, np.int64), 0, np.cumsum(refill), {}
    for length, equal in groupby(order, key=lambda document: int(lengths[document])):
        documents = list(equal)
        reached += len(documents)
        earliest = np.sort(np.concatenate([earliest, documents]))[:buffer_size]
        passes, rank = divmod(buffer_size - 1, reached)
        document = int(earliest[rank])
        end = int(ends[np.searchsorted(ends, document, side="right")])
        found[length] = reached, passes * len(lengths) + document + 1, passes * len(lengths) + end
    return found


def class_edges(lengths, capacity):
    """Return the ascending lower bounds of the classes: capacity + 1, the powers of two above it, the longest."""
    longest = int(lengths.max())
    powers = (2**power for power in range(longest.bit_length()))
    return sorted({capacity + 1, *(edge for edge in (*powers, longest) if edge > capacity)})


def first_of_classes(bound, lengths, first, passes):
    """Return {length: documents arrived when the first one at least that long started}, None when none did."""
    order = np.argsort(-lengths, kind="stable")
    never = passes * len(lengths) + 1
    earliest = np.minimum.accumulate(np.where(first, first, never)[order])
    found = earliest[[documents - 1 for documents, _, _ in bound.values()]].tolist() if bound else []
    return {length: value if value < never else None for length, value in zip(bound, found)}


def broken_bounds(bound, served, horizon):
    """Return a line for each length whose first document started before its bound, or after the bound's refill."""
    return [f"documents of at least {length} tokens: the first started when {found} documents had arrived; "
            f"expected {refilled}, and not before {earliest}"
            for (length, (_, earliest, refilled)), found in zip(bound.items(), served.values())
            if found != (refilled if refilled <= horizon else None)]


# ------------------------------------------------------------------------------------------ records


def moment(arrived, documents):
    """Return a point of the stream as its pass, from 1, and the number of documents that have arrived; or None."""
    return arrived and {"pass": -(-arrived // documents), "arrived": arrived}


def follow_passes(stream, packing, edges, passes):
    """Return (account, table, states) of a replay.

    account: the final Replay; table: int64 (passes, 4 + classes), the totals at the end of each pass; states: the two
    digests of each pass.
    """
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
    """Return a record a pass: tokens emitted and discarded in it, buffered at its end, documents started by class."""
    change = np.diff(table, axis=0, prepend=0)
    return [{"pass": number, "emitted": row[0], "discarded": row[1], "buffered": now[2], "protected": now[3],
             **{f"started_from_{edge}": started for edge, started in zip([1, *edges], row[4:])}}
            for number, (row, now) in enumerate(zip(change.tolist(), table.tolist()), 1)]


def steady_record(states, records):
    """Return when the waiting documents stop changing, when the whole state recurs, and sums over the last passes."""
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
    """Return what became of the documents of at least `edge` tokens."""
    size, chosen = len(lengths), lengths >= edge
    reached = [entry for length, entry in bound.items() if length >= edge][-1:] if edge > 1 else []
    starts, first = account.starts[chosen], account.first[chosen]
    return {"from": edge, "documents": int(chosen.sum()), "tokens": int(lengths[chosen].sum()),
            "bound": moment(reached[0][1], size) if reached else None,
            "first_begun": moment(int(first[first > 0].min()) if first.any() else None, size),
            "all_begun": moment(int(first.max()), size) if first.all() else None,
            "never_begun": int((starts == 0).sum()), "services": int(starts.sum())}


def longest_records(lengths, bound, account, count):
    """Return records of the `count` longest documents over a row: their bound, first start and number of starts."""
    order = np.argsort(-lengths, kind="stable")[:count].tolist()
    return [{"document": document, "length": int(lengths[document]),
             "bound": moment(bound[int(lengths[document])][1], len(lengths)),
             "first_begun": moment(int(account.first[document]) or None, len(lengths)),
             "services": int(account.starts[document])} for document in order if int(lengths[document]) in bound]


def sampled(records, classes):
    """Return the records to show: powers of two, the pass of each bound and the one before, and the last pass."""
    numbers = {2**power for power in range(len(records).bit_length())} | {len(records)}
    for record in classes:
        numbers |= {record["bound"]["pass"] - 1, record["bound"]["pass"]} if record["bound"] else set()
    return [records[number - 1] for number in sorted(numbers) if 1 <= number <= len(records)]
