"""The confirmation's stream, packed again for the verifiers by the reference packer and not by loaders/.

Standard library and NumPy, with nothing of the scripts that made the evidence.
"""

import numpy as np

from evidence import sha256_bytes
from research.reference_packer import ReferencePacker


def prepared_name(protocol):
    """Return the frozen protocol's prepared study: the folder of its inputs in data/."""
    return next(entry["path"].split("/")[1] for entry in protocol["inputs"] if entry["path"].startswith("data/"))


def read_lengths(root, study):
    """Return (lengths, refill) of a prepared study's validation split, each int64 (n,), or None where they are missing.

    They are read from the prepared data, or else from the copies that research/source_exclusion freezes.
    """
    for place in ("data/{study}/validation/{name}.npy", "research/source_exclusion/{study}_validation_{name}.npy"):
        paths = [root / place.format(study=study, name=name) for name in ("lengths", "refill")]
        if all(path.exists() for path in paths):
            return tuple(np.load(path, allow_pickle=False).astype(np.int64) for path in paths)
    print(f"left out what follows from the lengths of the validation documents: {paths[0]} is not here")
    return None


def remaining_batches(refill, first, last, excluded):
    """Return (documents int64 (n,), refill int64 (batches,)) of documents first..last-1 without the excluded ones."""
    ends, gone = np.cumsum(refill).tolist(), set(excluded)
    batches = [range(max(end - size, first), min(end, last)) for size, end in zip(refill.tolist(), ends, strict=True)]
    kept = [[document for document in batch if document not in gone] for batch in batches]
    kept = [batch for batch in kept if batch]
    return np.concatenate(kept), np.array([len(batch) for batch in kept])


def pack(lengths, refill, packing, rows):
    """Return (plan, documents arrived); the plan is int64 (segments, 5): row, arrival, bos, start, count."""
    packer = ReferencePacker(lengths.tolist(), refill.tolist(), capacity=packing["context"] + 1,
                             buffer_size=packing["buffer_size"])
    plan = np.array([selection[:5] for selection in packer.select_rows(rows)], np.int64)
    return plan, packer.arrived


def pack_reserved(lengths, refill, protocol):
    """Return (plan, arrived, documents, batches) of a frozen protocol; the plan's arrivals are validation documents."""
    first, last = protocol["evaluation"]["confirmation"]["documents"]
    documents, batches = remaining_batches(refill, first, last, protocol["excluded"])
    plan, arrived = pack(lengths[documents], batches, protocol["packing"], protocol["stream"]["rows"])
    plan[:, 1] = documents[plan[:, 1] % len(documents)]
    return plan, arrived, documents, batches


def plan_sha256(plan):
    """Return the hex SHA-256 of a plan as little-endian int64."""
    return sha256_bytes(plan.astype("<i8").tobytes())


def stream_facts(plan, arrived, documents, batches, lengths, capacity):
    """Return the counts and the plan's SHA-256 that a frozen protocol states of its stream."""
    started, sizes = lengths[np.unique(plan[:, 1])], batches.tolist()
    return {
        "documents": len(documents), "batches": {str(size): sizes.count(size) for size in sorted(set(sizes))},
        "rows": int(plan[-1, 0]) + 1, "segments": len(plan), "arrived": arrived, "started": len(started),
        "longest_started": int(started.max()), "over_capacity": int((lengths[documents] > capacity).sum()),
        "over_capacity_started": int((started > capacity).sum()), "text_tokens": int(plan[:, 4].sum()),
        "plan_sha256": plan_sha256(plan),
    }


# --------------------------------------------------------------------------------------------- rows


def row_ids(plan, tokens, lengths, bos, capacity):
    """Return int64 (rows, capacity): the token ids of every row."""
    offsets = np.cumsum(lengths - 1) - (lengths - 1)
    parts = []
    for _, document, _, _, count in plan.tolist():
        parts += [[bos], tokens[offsets[document] : offsets[document] + count]]
    return np.concatenate(parts).astype(np.int64).reshape(-1, capacity)


def fingerprint(ids):
    """Return the hex SHA-256 of each row's inputs, then its targets, as little-endian uint32."""
    pairs = np.concatenate([ids[:, :-1], ids[:, 1:]], axis=1)
    return sha256_bytes(pairs.astype("<u4").tobytes())


def byte_columns(ids, supplied, raw):
    """Return int64 (rows, 3): supplied bytes, raw bytes and number of a row's targets with positive supplied bytes."""
    targets = ids[:, 1:]
    counted = supplied[targets] > 0
    columns = [supplied[targets], raw[targets] * counted, counted]
    return np.stack([column.astype(np.int64).sum(1) for column in columns], axis=1)
