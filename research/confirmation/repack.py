"""The confirmation stream packed again and what its rows hold, for verify_confirmation.py: standard library and NumPy.

The reference packer packs it; nothing of loaders/ or of reserved.py is used.
"""

import hashlib

import numpy as np

from research.reference_packer import ReferencePacker


def arrivals(refill, first, last, excluded):
    """[[document, ...] of each refill batch] of documents first..last-1 without the excluded ones."""
    ends, gone = np.cumsum(refill).tolist(), set(excluded)
    batches = [range(max(end - size, first), min(end, last)) for size, end in zip(refill.tolist(), ends)]
    kept = [[document for document in batch if document not in gone] for batch in batches]
    return [batch for batch in kept if batch]


def pack(lengths, batches, capacity, buffer_size, rows):
    """Return (plan, arrived) of one pass of `batches`, lists of documents, under best fit with cropping.

    plan: int64 (segments, 5), columns row, document, bos, start, count. arrived: the documents that have arrived at the
    end. IndexError when the batches run out.
    """
    order = np.concatenate(batches)
    sizes = {"capacity": capacity, "buffer_size": buffer_size}
    packer = ReferencePacker(lengths[order].tolist(), list(map(len, batches)), **sizes)
    plan = np.array([selection[:5] for selection in packer.select_rows(rows)], np.int64)
    if packer.arrived > len(order):
        raise IndexError(f"{len(order)} documents do not fill {rows} rows")
    plan[:, 1] = order[plan[:, 1]]
    return plan, packer.arrived


def row_ids(plan, tokens, lengths, bos, capacity):
    """int64 (rows, capacity): the ids of every row."""
    offsets = np.cumsum(lengths - 1) - (lengths - 1)
    parts = []
    for _, document, _, _, count in plan.tolist():
        parts += [[bos], tokens[offsets[document] : offsets[document] + count]]
    return np.concatenate(parts).astype(np.int64).reshape(-1, capacity)


def stream_facts(plan, arrived, batches, lengths, capacity):
    """The counts and the plan's hash that the frozen protocol states."""
    documents, started = np.concatenate(batches), lengths[np.unique(plan[:, 1])]
    sizes = [len(batch) for batch in batches]
    return {
        "documents": len(documents), "batches": {str(size): sizes.count(size) for size in sorted(set(sizes))},
        "rows": int(plan[-1, 0]) + 1, "segments": len(plan), "arrived": arrived, "started": len(started),
        "longest_started": int(started.max()), "over_capacity": int((lengths[documents] > capacity).sum()),
        "over_capacity_started": int((started > capacity).sum()), "text_tokens": int(plan[:, 4].sum()),
        "plan_sha256": hashlib.sha256(plan.astype("<i8").tobytes()).hexdigest(),
    }


def fingerprint(ids):
    """Hex SHA-256 of each row's inputs, then its targets, as little-endian uint32."""
    pairs = np.concatenate([ids[:, :-1], ids[:, 1:]], axis=1)
    return hashlib.sha256(pairs.astype("<u4").tobytes()).hexdigest()


def byte_columns(ids, supplied, raw):
    """int64 (rows, 3): supplied bytes, raw bytes and number of the targets with positive supplied bytes, a row."""
    targets = ids[:, 1:]
    counted = supplied[targets] > 0
    columns = [supplied[targets], raw[targets] * counted, counted]
    return np.stack([column.astype(np.int64).sum(1) for column in columns], axis=1)
