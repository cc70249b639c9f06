"""Edits of a finished plan: the order of its rows, and rows that open other documents.

An edit is a pure function of the plan, declared in the protocol. The ledger audits the plan before any edit; an edit
has an account of its own. Two kinds of edit exist:

{"kind": "order", "unit": "row" or "update", "block_updates": N, "generator": "PCG64", "seed": S}
    Within each block of N updates, the last of which may be shorter, the rows or the whole updates change places. One
    NumPy generator of this kind and seed gives each block its permutation in turn, by `permutation(units)`.
{"kind": "substitute", "table": FILE, "sha256": DIGEST}
    Each row listed in the table holds the opening of one document instead: its BOS and its first capacity - 1 text
    tokens. The table is {"rows": [...], "documents": [...]}, both of one length, rows ascending. It lies beside the
    protocol as substitution_<name>.json, and each run directory has a copy.
"""

import hashlib

import numpy as np

from loaders.accounting import ARRIVAL, BOS, COUNT, ROW

GENERATORS = {"PCG64": np.random.PCG64}


def block_order(rows, *, unit, block, generator, seed):
    """Return int64 (rows,): the old place of the row that each new place holds.

    rows, unit, block: numbers of rows; units of `unit` rows change places within blocks of `block` rows.
    """
    random = np.random.Generator(GENERATORS[generator](seed))
    order = np.arange(rows).reshape(-1, unit)
    for first in range(0, len(order), block // unit):
        part = order[first : first + block // unit]
        part[:] = part[random.permutation(len(part))]
    return order.ravel()


def reordered(plan, order):
    """Return the plan whose row k is row order[k] of `plan`, an int64 (segments, 5) table."""
    begins = np.searchsorted(plan[:, ROW], np.arange(len(order) + 1))
    sizes = np.diff(begins)[order]
    first = np.cumsum(sizes) - sizes
    segments = np.repeat(begins[order] - first, sizes) + np.arange(len(plan))
    found = plan[segments]
    found[:, ROW] = np.repeat(np.arange(len(order)), sizes)
    return found


def substituted(plan, rows, documents, lengths, capacity):
    """Return the plan in which each of `rows` holds the opening of the document of the same place in `documents`.

    ValueError names a row or a document that cannot be: rows must ascend within the plan, documents must fill a row.
    """
    rows, documents = (np.asarray(values, np.int64) for values in (rows, documents))
    count = int(plan[-1, ROW]) + 1 if len(plan) else 0
    if len(rows) != len(documents) or (np.diff(rows) <= 0).any() or len(rows) and not 0 <= rows[0] <= rows[-1] < count:
        raise ValueError(f"rows: expected {len(documents)} ascending numbers below {count}, one for each document")
    for document in documents[(documents < 0) | (documents >= len(lengths))]:
        raise ValueError(f"documents: {document} is none of the {len(lengths)} documents")
    for document in documents[lengths[documents] < capacity]:
        raise ValueError(f"documents: {document} has {lengths[document]} tokens, fewer than the {capacity} of a row")
    openings = np.zeros((len(rows), 5), np.int64)
    openings[:, ROW], openings[:, ARRIVAL], openings[:, BOS], openings[:, COUNT] = rows, documents, 1, capacity - 1
    found = np.concatenate([plan[~np.isin(plan[:, ROW], rows)], openings])
    return found[np.argsort(found[:, ROW], kind="stable")]


def _digest(values):
    return hashlib.sha256(np.ascontiguousarray(values, "<i8")).hexdigest()


def apply_edits(plan, edits, *, lengths, capacity, update_rows, tables):
    """Return (edited plan, accounts) of a plan and the edits of a config, which are made in their order.

    update_rows: rows of an update; tables: {file: {"rows", "documents"}}. The account of an order counts the rows that
    moved and has the SHA-256 of their old places (int64); that of a substitution counts the rows and
    the tokens that they had before, and has the SHA-256 of the pairs (row, document). ValueError says what cannot be.
    """
    accounts = []
    for edit in edits:
        if edit["kind"] == "order":
            rows = int(plan[-1, ROW]) + 1
            unit = 1 if edit["unit"] == "row" else update_rows
            order = block_order(rows, unit=unit, block=edit["block_updates"] * update_rows,
                                generator=edit["generator"], seed=edit["seed"])
            plan = reordered(plan, order)
            accounts.append({"kind": "order", "rows_moved": int((order != np.arange(rows)).sum()),
                             "order_sha256": _digest(order)})
        else:
            table = tables[edit["table"]]
            replaced = plan[np.isin(plan[:, ROW], table["rows"])]
            plan = substituted(plan, table["rows"], table["documents"], lengths, capacity)
            pairs = np.array([table["rows"], table["documents"]]).T
            accounts.append({"kind": "substitute", "rows": len(pairs), "pairs_sha256": _digest(pairs),
                             "tokens_replaced": int(replaced[:, [BOS, COUNT]].sum())})
    return plan, accounts
