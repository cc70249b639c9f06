"""The audit of one planned stream as a JSON record: quantities.py, and what changes along the stream.

Everything is derived from the plan and the lengths, and compared with the ledger of loaders/accounting.py.
"""

import numpy as np

from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, plan_sha256
from loaders.ledger import crop_statistics, ledger, of_schema_1, protected
from research.source_exclusion.quantities import (
    TENTHS,
    account,
    document_counts,
    merge,
    positions,
    share,
    strata,
    token_mass,
)
from research.source_exclusion.streams import batches_taken, counted_by_ranks, rests


class Unbalanced(Exception):
    """Two derivations of one account differ."""


def usable_buffer(plan, stream, packing):
    """(fitting, held): int64 (segments,), entries held that fit an empty row, and all entries, at each selection."""
    entries = packing.entries(stream.lengths)
    fitting = np.where(stream.lengths <= packing.capacity, 1, np.where(entries > 1, entries, 0))
    taken = batches_taken(plan, stream, packing)
    rest = rests(plan, stream, packing)
    size = rest + plan[:, BOS] + plan[:, COUNT]
    kept = rest if packing.loader.continues else np.zeros_like(rest)
    changes = [((kept > 0) & (kept <= packing.capacity)).astype(np.int64) - (size <= packing.capacity), (kept > 0) - 1]
    return [_arrived(values, stream.refill, taken) + np.cumsum(change) - change
            for values, change in zip((fitting, entries), changes)]


def _arrived(values, refill, taken):
    """int64 (segments,): sum of a per-document array over the refill batches taken before each selection."""
    reached = np.concatenate([[0], np.cumsum(np.add.reduceat(values, np.cumsum(refill) - refill))])
    passes, batches = np.divmod(taken, len(refill))
    return passes * reached[-1] + reached[batches]


def buffer_record(plan, stream, packing, fitting, held):
    """The usable buffer in numbers: at first, at its least, and in each tenth of the selections."""
    edges = [len(plan) * tenth // TENTHS for tenth in range(TENTHS + 1)]
    rest = np.zeros(len(plan), np.int64) if packing.loader.continues else rests(plan, stream, packing)
    taken = plan[:, BOS] + plan[:, COUNT]

    def tenths(values, weights):
        return [share(int(values[a:b].sum()), int(weights[a:b].sum())) for a, b in zip(edges, edges[1:])]

    return {"first": int(fitting[0]), "least": int(fitting.min()), "held_first": int(held[0]),
            "held_most": int(held.max()), "mean_by_tenth": tenths(fitting, np.ones_like(fitting)),
            "discarded_share_by_tenth": tenths(rest, rest + taken)}


def first_over_capacity_start(plan, stream, packing):
    """Where the first document longer than a row begins, as an offset in targets; None when none has begun."""
    length = stream.lengths[plan[:, ARRIVAL] % len(stream.lengths)]
    longer = np.flatnonzero((length > packing.capacity) & (plan[:, BOS] == 1))
    if not len(longer):
        return None
    segment = int(longer[0])
    row, before = int(plan[segment, ROW]), plan[:segment]
    in_row = int(before[before[:, ROW] == row][:, [BOS, COUNT]].sum())
    return {"segment": segment, "arrival": int(plan[segment, ARRIVAL]), "length": int(length[segment]),
            "target_offset": row * (packing.capacity - 1) + max(in_row - 1, 0)}


def protected_record(parts, keys, packing):
    """The protected set: the longest over-capacity arrivals, `keys`, and how many of them have started."""
    tokens, arrived, buffered = (int(values.sum()) for values in (parts.length[keys], parts.length, parts.buffered))
    return {"applies": packing.retains, "documents": len(keys), "tokens": tokens,
            "shortest": int(parts.length[keys].min()) if len(keys) else None,
            "started": int(parts.started[keys].sum()), "share_of_arrived": share(tokens, arrived),
            "share_of_buffered": share(int(parts.buffered[keys].sum()), buffered)}


def summary(parts, keys, packing, edges, corpus_lengths, rows):
    """The quantities that one stream and the union of several ranks have alike."""
    longer = parts.length > packing.capacity
    arrived, emitted = int(parts.length.sum()), int(parts.emitted.sum())
    return {"rows": rows, "targets": rows * (packing.capacity - 1),
            "tokens": token_mass(parts, rows * packing.capacity),
            "documents": document_counts(parts, len(corpus_lengths)),
            "over_capacity": {"arrived": int(longer.sum()), "started": int(parts.started[longer].sum()),
                              "share_of_arrived_tokens": share(int(parts.length[longer].sum()), arrived),
                              "share_of_emitted_tokens": share(int(parts.emitted[longer].sum()), emitted)},
            "protected": protected_record(parts, keys, packing), "strata": strata(parts, edges, corpus_lengths),
            "positions": positions(parts, edges, packing.capacity, corpus_lengths)}


def planned_account(plan, stream, packing):
    """(Account, arrivals of the protected set: int64) of a plan at its last token."""
    passes, batch = divmod(int(batches_taken(plan, stream, packing)[-1]), len(stream.refill))
    arrived = passes * len(stream.lengths) + int(stream.refill[:batch].sum())
    keys = protected(stream.lengths, arrived, capacity=packing.capacity, buffer_size=packing.buffer_size)
    return account(plan, stream, packing, arrived), keys


def audit(plan, stream, packing, edges, corpus_lengths, rows):
    """(record, account, protected arrivals, (fitting, held) over the stream) of one plan; Unbalanced when the ledger
    of `loaders/ledger.py` does not balance or counts otherwise than the account by document."""
    totals = _ledger(plan, stream, packing)
    parts, keys = planned_account(plan, stream, packing)
    record = summary(parts, keys, packing, edges, corpus_lengths, rows)
    _compare(totals, record)
    curve = usable_buffer(plan, stream, packing)
    record |= {"selections": len(plan), "usable_buffer": buffer_record(plan, stream, packing, *curve),
               "first_over_capacity_start": first_over_capacity_start(plan, stream, packing),
               "crops": crop_statistics(plan, stream.lengths, capacity=packing.capacity, loader=packing.loader),
               "plan_sha256": plan_sha256(plan)}
    return record, parts, keys, curve


def _ledger(plan, stream, packing):
    try:
        found = ledger(plan, stream.lengths, stream.refill, capacity=packing.capacity, buffer_size=packing.buffer_size,
                       loader=packing.loader)
    except ValueError as error:
        raise Unbalanced(str(error)) from None
    return {"tokens": found["tokens"], "documents": of_schema_1(found["documents"])}


def _compare(totals, record):
    for table, counts in totals.items():
        for name, count in counts.items():
            found = record[table].get(name, count)
            if found != count:
                raise Unbalanced(f"{table}.{name}: the ledger says {count}, the account by document {found}")


def join_ranks(audits, packing, edges, lengths, shares, units):
    """The record of several ranks together, with each rank's own; shares: [units dealt to each rank], of `units`."""
    sizes = np.cumsum([0, *(len(parts.length) for _, parts, _, _ in audits)])
    keys = np.concatenate([kept + first for (_, _, kept, _), first in zip(audits, sizes)])
    ranks = [record for record, _, _, _ in audits]
    rows = sum(record["rows"] for record in ranks)
    record = summary(merge([parts for _, parts, _, _ in audits]), keys, packing, edges, lengths, rows)
    return {**record, "dealing": dealing(audits, shares, units, lengths), "ranks": ranks}


def dealing(audits, shares, units, lengths):
    """Units that no rank or several ranks were dealt, and how many documents none or several began."""
    none, several = counted_by_ranks(shares, units)
    unbegun, rebegun = counted_by_ranks([parts.document[parts.started] for _, parts, _, _ in audits], len(lengths))
    return {"units": units, "units_of_no_rank": none, "units_of_several_ranks": several,
            "documents_started_by_none": len(unbegun), "documents_started_by_several": len(rebegun)}
