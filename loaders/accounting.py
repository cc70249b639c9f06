"""What a plan is, what a loader says of itself, and what both the trainer and the ledger count.

A plan is an int64 table (segments, 5) with the columns ROW, ARRIVAL, BOS, START, COUNT in row order. `arrival` is
pass * documents + document; `bos` is 1 when the segment begins with a BOS token; `start, count` is the slice of the
document's text tokens. The buffer of a loader holds *entries*: whole documents, or the chunks of a document that is cut
before insertion. Each loader file describes itself by its `LOADER`.
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
    pieces: the function (lengths, refill, capacity, rows, buffer_size, seed), all valid, that yields the same plan in
    pieces, so that memory does not grow with it; None for a loader that plans at once.
    entries: the function (lengths, capacity) -> int64 (documents,), the buffer entries that each document becomes.
    continues: what a selected entry leaves over stays in the buffer; otherwise it is discarded.
    shared: tokens that a document repeats where it goes on in another row.
    fills: every row has exactly `capacity` tokens; otherwise rows may be shorter.
    independent: no target is predicted from another segment.
    """

    plan: Callable
    pieces: Callable | None
    entries: Callable
    continues: bool
    shared: int
    fills: bool
    independent: bool


# --------------------------------------------------------------------------------------- validation


def integer_at_least(name, value, least):
    """Return `value` as int; ValueError unless it is an integer of at least `least`."""
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
    """Return both as contiguous int64; ValueError unless they are positive and refill sums to the documents."""
    lengths, refill = positive_integers("lengths", lengths), positive_integers("refill", refill)
    if refill.sum() != len(lengths):
        raise ValueError(f"refill: batches hold {refill.sum()} documents, lengths has {len(lengths)}")
    return lengths, refill


def validated(lengths, refill, *, capacity, rows, buffer_size):
    """Return (lengths, refill, capacity, rows, buffer_size), checked: every `plan` accepts these and nothing else."""
    return (*validated_stream(lengths, refill), integer_at_least("capacity", capacity, 2),
            integer_at_least("rows", rows, 0), integer_at_least("buffer_size", buffer_size, 1))


# ------------------------------------------------------------------------------------------ entries


def batch_sums(values, refill):
    """Return int64 (batches,): the sum of a per-document array over each refill batch."""
    return np.add.reduceat(values, np.cumsum(refill) - refill)


def entry_lengths(lengths, entries, capacity):
    """Return int64 (sum of entries,): tokens of every entry, BOS included, in document and chunk order.

    A document of one entry is that entry. Of several entries, all but the last fill a row; each begins with a BOS.
    """
    tokens = np.full(int(entries.sum()), capacity, dtype=np.int64)
    tokens[np.cumsum(entries) - 1] = lengths - (entries - 1) * (capacity - 1)
    return tokens


def row_targets(plan, *, independent):
    """Return int64 (rows,): the effective targets of each row.

    They are its tokens less one, or less one for each segment where segments are independent.
    """
    begins = np.flatnonzero(np.diff(plan[:, ROW], prepend=-1))
    unscored = np.diff(begins, append=len(plan)) if independent else 1
    return np.add.reduceat(plan[:, BOS] + plan[:, COUNT], begins) - unscored if len(plan) else begins


def plan_sha256(plan):
    """Return the hex SHA-256 of the plan's little-endian int64 bytes, row by row."""
    return hashlib.sha256(np.ascontiguousarray(plan, dtype="<i8")).hexdigest()
