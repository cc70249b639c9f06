"""Turn a plan into rows of token ids, and rows into (inputs, targets) batches on a device.

Row k of a plan is always row k: a reader has no position, so a run resumes at any row without a saved state. The input
of a row is its first `capacity - 1` tokens, the target its last `capacity - 1`. Rows of independent documents, or with
padding, also have positions and segment ids.
"""

import functools
import hashlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch

from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, START, positive_integers, row_targets
from loaders.batches import lay_out, shifted

AHEAD = 2


def text_offsets(lengths):
    """Return int64 (documents + 1,): the place of each document's text in the flat tokens, and their number."""
    return np.concatenate([[0], np.cumsum(positive_integers("lengths", lengths) - 1)])


class RowReader:
    """Rows of one plan over flat text tokens.

    plan: int64 (segments, 5). tokens: uint16 or uint32 (text tokens of all documents,), which may be memory-mapped.
    lengths: int64 (documents,), BOS included. bos: id of the BOS token. ValueError when they do not belong together.
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

    def segments(self, first, last):
        """Return (flat ids in the type of `tokens`, segments) of rows first..last-1; ValueError beyond the plan."""
        if not 0 <= first <= last <= self.count:
            raise ValueError(f"rows {first}..{last}: the plan has {self.count}")
        begin, end = np.searchsorted(self.plan[:, ROW], [first, last])
        plan = self.plan[begin:end]
        ids = np.empty(int(plan[:, [BOS, COUNT]].sum()), dtype=self.tokens.dtype)
        written = 0
        for source, bos, count in np.stack([self.sources[begin:end], plan[:, BOS], plan[:, COUNT]], axis=1).tolist():
            if bos:
                ids[written] = self.bos
            written += bos + count
            ids[written - count : written] = self.tokens[source : source + count]
        return ids, plan

    def rows(self, first, last):
        """Return full rows first..last-1, (rows, capacity), in the type of `tokens`; ValueError beyond the plan."""
        ids, _ = self.segments(first, last)
        if ids.size != (full := (last - first) * self.capacity):
            raise ValueError(f"rows {first}..{last}: {ids.size} tokens planned, {full} fill them")
        return ids.reshape(-1, self.capacity)


def full_rows(reader, first, last):
    """Return (rows as read, inputs, targets) of continuous rows, in which every token after the first is a target."""
    rows = reader.rows(first, last)
    ids = rows.astype(np.int64)
    return rows, ids[:, :-1], ids[:, 1:]


def document_rows(reader, first, last, *, independent, width):
    """Return (flat ids as read, inputs, targets, positions, segment ids) of rows with documents or padding.

    width: tokens of a row as it is laid out; None for those of the longest row. Segments that are not independent read
    each other.
    """
    ids, plan = reader.segments(first, last)
    sizes, rows = plan[:, BOS] + plan[:, COUNT], plan[:, ROW] - first
    width = width or max(2, int(np.bincount(rows, sizes).max()))
    *batch, segment_ids = shifted(lay_out(ids, rows, sizes, width=width, pad=reader.bos, independent=independent))
    return ids, *batch, segment_ids if independent else np.minimum(segment_ids, 0)


def positions(plan, microbatch, width):
    """Return the input positions of all rows of a plan, as int, in microbatches of `microbatch` rows.

    width: tokens of every row as it is laid out; None if each microbatch is as wide as its longest row.
    """
    tokens = np.bincount(plan[:, ROW], plan[:, BOS] + plan[:, COUNT]).astype(np.int64)
    if width:
        return len(tokens) * (width - 1)
    longest = np.maximum.reduceat(tokens, np.arange(0, len(tokens), microbatch))
    rows = np.minimum(microbatch, len(tokens) - np.arange(0, len(tokens), microbatch))
    return int(((np.maximum(2, longest) - 1) * rows).sum())


class Split:
    """One split of a prepared corpus: the plan of its first `row_count` rows by one loader, edited where asked for.

    `plan` is the loader's own; `reader`, `targets` (int64 (rows,), effective targets of each row) and `positions` (an
    int, of all rows as they are laid out) follow the edits, of which `edits_made` has the accounts.
    """

    def __init__(self, directory, split, loader, config, row_count, edit=None):
        packing, training = config["packing"], config["training"]
        lengths, refill = np.load(directory / split / "lengths.npy"), np.load(directory / split / "refill.npy")
        capacity, tokens = packing["context"] + 1, np.load(directory / split / "tokens.npy", mmap_mode="r")
        self.plan = loader.plan(lengths, capacity=capacity, rows=row_count, buffer_size=packing["buffer_size"],
                                refill=refill, seed=packing["span_seed"])
        plan, self.edits_made = edit(self.plan, lengths) if edit else (self.plan, [])
        self.reader = RowReader(plan, tokens, lengths, config["bos"], capacity)
        self.targets, self.collate = row_targets(plan, independent=loader.independent), full_rows
        width = capacity if loader.fills or training["compile"] else None  # compiled code has one width
        if loader.independent or not loader.fills:
            self.collate = functools.partial(document_rows, independent=loader.independent, width=width)
        self.positions = positions(plan, training["microbatch"], width)


def stream(reader, ranges, device, collate=full_rows):
    """Yield `collate(reader, first, last)` for each (first, last) of `ranges`.

    Its first array is passed on for the digest of the consumed rows; the others, int64 (rows, context), are copied to
    `device`. On CUDA a thread reads ahead into pinned memory and the copies do not block; elsewhere each batch is read
    when it is asked for.
    """
    device = torch.device(device)
    cuda = device.type == "cuda"

    def read(span):
        consumed, *arrays = collate(reader, *span)
        tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        return consumed, [tensor.pin_memory() if cuda else tensor for tensor in tensors]

    for consumed, tensors in read_ahead(read, ranges) if cuda else map(read, ranges):
        yield consumed, *(tensor.to(device, non_blocking=True) for tensor in tensors)


def read_ahead(read, items):
    """Yield read(item) in order while one thread reads AHEAD items further; an error is raised at its item."""
    items = iter(items)
    with ThreadPoolExecutor(1) as worker:
        begun = deque(worker.submit(read, item) for item in islice(items, AHEAD))
        while begun:
            result = begun.popleft().result()
            begun.extend(worker.submit(read, item) for item in islice(items, 1))
            yield result


def digest(rows):
    """Return the hex SHA-256 of row ids as little-endian uint32, row by row, which no storage type changes."""
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<u4")).hexdigest()


def chain(previous, digests):
    """Return the SHA-256 of `previous` ("" at the start) and an update's microbatch digests, as hex digits."""
    return hashlib.sha256("".join([previous, *digests]).encode()).hexdigest()
