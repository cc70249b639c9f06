"""Turn a plan into rows of token ids, and rows into (inputs, targets) batches on a device.

Row k of a plan is row k, always: a reader holds no position, so resuming at any row needs nothing saved. The input
of a row is its first `capacity - 1` tokens, the target its last `capacity - 1`.
"""

import hashlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch

from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, START, positive_integers

AHEAD = 2


def text_offsets(lengths):
    """int64 (documents + 1,): where each document's text begins in the flat tokens; the last is their number."""
    return np.concatenate([[0], np.cumsum(positive_integers("lengths", lengths) - 1)])


class RowReader:
    """Rows of one plan over flat text tokens.

    plan: int64 (segments, 5); tokens: uint16 or uint32 (text tokens of all documents,), may be memory-mapped;
    lengths: int64 (documents,), BOS included; bos: id of the BOS token. ValueError when they do not belong together.
    """

    def __init__(self, plan, tokens, lengths, bos, capacity):
        offsets = text_offsets(lengths)
        if len(tokens) != offsets[-1]:
            raise ValueError(f"tokens: {len(tokens)} ids, but the lengths count {offsets[-1]} text tokens")
        if not 0 <= bos <= np.iinfo(tokens.dtype).max:
            raise ValueError(f"bos: {bos} is not an id of type {tokens.dtype}")
        self.plan, self.tokens, self.bos, self.capacity = plan, np.asarray(tokens), bos, capacity
        self.sources = offsets[plan[:, ARRIVAL] % len(lengths)] + plan[:, START]
        self.count = int(plan[-1, ROW]) + 1 if len(plan) else 0

    def rows(self, first, last):
        """Rows first..last-1, (last - first, capacity), in the type of `tokens`; ValueError beyond the plan."""
        if not 0 <= first <= last <= self.count:
            raise ValueError(f"rows {first}..{last}: the plan has {self.count}")
        begin, end = np.searchsorted(self.plan[:, ROW], [first, last])
        ids = np.empty((last - first) * self.capacity, dtype=self.tokens.dtype)
        written = 0
        for source, (bos, count) in zip(self.sources[begin:end].tolist(), self.plan[begin:end, [BOS, COUNT]].tolist()):
            if bos:
                ids[written] = self.bos
            written += bos + count
            ids[written - count : written] = self.tokens[source : source + count]
        if written != ids.size:
            raise ValueError(f"rows {first}..{last}: {written} tokens planned, {ids.size} fill them")
        return ids.reshape(-1, self.capacity)


def stream(reader, ranges, device):
    """Yield (rows, inputs, targets) for each (first, last) of `ranges`.

    rows: the ids as read, for hashing what was consumed; inputs, targets: int64 (rows, context) on `device`. On CUDA a
    thread reads ahead into pinned memory and the copies do not block; elsewhere batches are read as they are asked for.
    """
    device = torch.device(device)
    cuda = device.type == "cuda"

    def read(span):
        rows = reader.rows(*span)
        ids = torch.from_numpy(rows.astype(np.int64))
        return rows, ids.pin_memory() if cuda else ids

    for rows, ids in read_ahead(read, ranges) if cuda else map(read, ranges):
        ids = ids.to(device, non_blocking=True)
        yield rows, ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def read_ahead(read, items):
    """Yield read(item) in order, with AHEAD of them already begun in one thread; an error is raised at its item."""
    items = iter(items)
    with ThreadPoolExecutor(1) as worker:
        begun = deque(worker.submit(read, item) for item in islice(items, AHEAD))
        while begun:
            result = begun.popleft().result()
            begun.extend(worker.submit(read, item) for item in islice(items, 1))
            yield result


def digest(rows):
    """Hex SHA-256 of row ids as little-endian uint32, row by row: the same for every storage type."""
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<u4")).hexdigest()


def chain(previous, digests):
    """Hex SHA-256 that stands for all rows so far: of `previous` ("" at the start) and an update's microbatch digests."""
    return hashlib.sha256("".join([previous, *digests]).encode()).hexdigest()
