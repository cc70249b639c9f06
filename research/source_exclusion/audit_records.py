"""The audit of one stream, or of several ranks together, as a JSON record: its quantities, and how the stream changes.

    account = audited(stream, packing, edges, rows)     # plans and accounts for `rows` rows
    record = stream_record(account, edges)
"""

import numpy as np

from loaders.best_fit_crop import read_only
from research.source_exclusion.account import Account, Sums, union_of
from research.source_exclusion.account_ends import count_documents
from research.source_exclusion.account_state import TENTHS
from research.source_exclusion.quantities import (
    SCHEMA,
    Corpus,
    document_counts,
    over_capacity,
    positions,
    share,
    strata,
    token_mass,
)
from research.source_exclusion.streams import counted_by_ranks


def audited(stream, packing, edges, rows, watch=iter):
    """Return the closed Account of `rows` rows; `watch` wraps the iterator of blocks, to show progress."""
    return Account(stream, packing, edges).follow(watch(packing.blocks(stream, rows)))


def corpus_of(accounts, lengths, edges):
    """Return the Corpus of `lengths`, int64 (documents,), as the streams of these accounts read it together."""
    first = accounts[0]
    if len(accounts) == 1 and first.stream.documents is None:
        arrived, seen = first.has_arrived(), union_of(first.state.prefix, first.slices)
    else:
        arrived, seen, slices = np.zeros(len(lengths), bool), np.full(len(lengths), -1, np.int32), []
        for account in accounts:
            documents = account.stream.documents
            arrived[documents[account.has_arrived()]] = True
            np.maximum.at(seen, documents, account.state.prefix)
            slices.append(np.column_stack([documents[account.slices[:, 0]], account.slices[:, 1:]]))
        seen = union_of(seen, np.concatenate(slices).astype(np.int32))
    corpus = Corpus(np.zeros((len(edges) + 1, 3), np.int64), np.zeros(7, np.int64))
    count_documents(*corpus, read_only(lengths), arrived, seen, np.array(edges, np.int64))
    return corpus


def protected_record(accounts, packing):
    """Return the protected set, the longest over-capacity arrivals of each rank, and how many of them have started."""
    sums = add_sums(accounts)
    documents, tokens, started, buffered = sums.protected.tolist()
    mass = token_mass(sums.arrived, sums.fates, 0)
    shortest = min((int(length) for account in accounts for length in account.protected_keys()[0]), default=None)
    return {"applies": packing.retains, "documents": documents, "tokens": tokens, "shortest": shortest,
            "started": started, "share_of_arrived": share(tokens, mass["arrived"]),
            "share_of_buffered": share(buffered, mass["buffered"])}


def add_sums(accounts):
    """Return the Sums of several accounts together."""
    return Sums(*(sum(tables) for tables in zip(*(account.sums for account in accounts), strict=True)))


def summary(accounts, lengths, edges, packing, schema=SCHEMA):
    """Return the quantities that one stream and the union of several ranks have alike."""
    sums, corpus = add_sums(accounts), corpus_of(accounts, lengths, edges)
    rows = sum(account.rows for account in accounts)
    return {"rows": rows, "targets": rows * (packing.capacity - 1),
            "tokens": token_mass(sums.arrived, sums.fates, rows * packing.capacity),
            "documents": document_counts(sums.arrived, sums.fates, corpus.documents, schema),
            "over_capacity": over_capacity(sums), "protected": protected_record(accounts, packing),
            "strata": strata(sums, edges, corpus, schema), "positions": positions(sums, edges, corpus)}


def buffer_record(account):
    """Return the usable buffer in numbers: at first, at its least, and in each tenth of the selections."""
    edges = account.selections * np.arange(TENTHS + 1) // TENTHS
    tenths = account.parts.reshape(TENTHS, -1, 4).sum(axis=1)
    fitting, _, discarded, emitted = tenths.T.tolist()
    return {"first": account.first_fitting, "least": account.least_fitting, "held_first": account.first_held,
            "held_most": account.most_held, "mean_by_tenth": list(map(share, fitting, np.diff(edges).tolist())),
            "discarded_share_by_tenth": [share(lost, lost + kept)
                                         for lost, kept in zip(discarded, emitted, strict=True)]}


def first_over_capacity_start(account):
    """Return where the first document longer than a row starts, as an offset in targets; None when none has."""
    values = account.state.first_long.tolist()
    if values[0] < 0:
        return None
    return dict(zip(("segment", "arrival", "length", "target_offset"), values, strict=True))


def crop_record(account):
    """Return crop events, those that keep only the BOS, and the median tokens kept, None without crops."""
    kept = np.cumsum(account.state.kept)
    events, median = int(kept[-1]), None
    if events:
        median = int(np.searchsorted(kept, [(events - 1) // 2, events // 2], side="right").sum()) / 2
    return {"events": events, "bos_only": int(account.state.kept[1]), "median_kept": median}


def stream_record(account, lengths, edges, schema=SCHEMA):
    """Return the record of one closed Account over a corpus of `lengths`, int64 (documents,)."""
    record = summary([account], lengths, edges, account.packing, schema)
    record |= {"selections": account.selections, "usable_buffer": buffer_record(account),
               "first_over_capacity_start": first_over_capacity_start(account), "crops": crop_record(account),
               "plan_sha256": account.plan_sha256()}
    return record if schema == 1 else {**record, "schema": schema}


def join_ranks(accounts, lengths, edges, packing, shares, units):
    """Return the record of several ranks together, with each rank's own; shares: [units dealt to each], of `units`."""
    record = summary(accounts, lengths, edges, packing)
    return {**record, "schema": SCHEMA, "dealing": dealing(accounts, shares, units, lengths),
            "ranks": [stream_record(account, lengths, edges) for account in accounts]}


def dealing(accounts, shares, units, lengths):
    """Return the units that no rank or several ranks were dealt, and how many documents none or several started."""
    none, several = counted_by_ranks(shares, units)
    started = [account.stream.documents[account.state.started > 0] for account in accounts]
    by_none, by_several = counted_by_ranks(started, len(lengths))
    return {"units": units, "units_of_no_rank": none, "units_of_several_ranks": several,
            "documents_started_by_none": len(by_none), "documents_started_by_several": len(by_several)}
