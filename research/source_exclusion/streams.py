"""What an audit is of: document lengths in arrival order, the policy that packs them, and how far it runs.

A stream may be dealt to ranks, each with a buffer of its own.
"""

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from evidence import InputError, read_json
from loaders.accounting import ARRIVAL, COUNT, ROW, START, Loader, validated
from loaders.best_fit_crop import joined

# Policy: its loader file, and whether the proposition of the paper's section 3 speaks about it.
POLICIES = {
    "baseline": ("best_fit_crop", True),
    "random_crop": ("random_span", True),
    "segmented": ("segment_first", False),
    "lossless": ("lossless", True),
    "backfill": ("backfill", False),
    "backfill_lossless": ("backfill_lossless", False),
}
ENDLESS = 2**62  # rows: more than any horizon
RETAINING = {loader for loader, retains in POLICIES.values() if retains}


class AuditedStream(NamedTuple):
    """One pass of a corpus as one loader reads it.

    lengths: int64 (documents,), tokens with BOS; refill: int64 (batches,), documents a batch; documents: int64
    (documents,), their numbers in the whole corpus, or None when the stream is the whole corpus.
    """

    lengths: np.ndarray
    refill: np.ndarray
    documents: np.ndarray | None


class Packing(NamedTuple):
    """A loader file with its settings.

    name: of the file in loaders/; loader: its LOADER; capacity: tokens a row; buffer_size: entries; seed: of random
    spans.
    """

    name: str
    loader: Loader
    capacity: int
    buffer_size: int
    seed: int

    @property
    def retains(self):
        """Whether the proposition holds: the longest buffer_size - 1 documents over a row cannot have started."""
        return self.name in RETAINING

    def entries(self, lengths):
        """Return int64 (documents,): the buffer entries that each document becomes."""
        return self.loader.entries(lengths, self.capacity)

    def plan(self, stream, rows):
        """Return int64 (segments, 5), the loader's plan of `rows` rows; InputError when it refuses its arguments."""
        return joined(self.blocks(stream, rows))

    def blocks(self, stream, rows):
        """Yield the plan of `rows` rows in pieces, int64 (at most BLOCK, 5), one of them planned ahead by a thread."""
        try:
            arguments = validated(stream.lengths, stream.refill, capacity=self.capacity, rows=rows,
                                  buffer_size=self.buffer_size)
        except ValueError as error:
            raise InputError(f"{self.name}: {error}") from None
        return _one_ahead(self.loader.pieces(*arguments, self.seed))


def _one_ahead(items):
    """Yield the items, each made by another thread while the one before it is used."""
    with ThreadPoolExecutor(1) as planner:
        following = planner.submit(next, items, None)
        while (item := following.result()) is not None:
            following = planner.submit(next, items, None)
            yield item


def make_packing(loader, capacity, buffer_size, seed):
    """Return the Packing of a file in loaders/, by its name; InputError when this audit does not know its rows."""
    try:
        found = importlib.import_module(f"loaders.{loader}").LOADER
    except ModuleNotFoundError:
        raise InputError(f"loaders/{loader}.py: no such loader") from None
    if found.pieces is None:
        raise InputError(f"loaders/{loader}.py: rows that share tokens or are padded are not audited here; "
                         "research/batch_boundaries/count_targets.py counts them")
    return Packing(loader, found, capacity, buffer_size, seed)


def whole_stream(lengths, refill):
    """Return the AuditedStream of a corpus that one loader reads; InputError unless batches hold just its documents."""
    if refill.sum() != len(lengths):
        raise InputError(f"refill: batches hold {refill.sum()} documents, but there are {len(lengths)} lengths")
    return AuditedStream(lengths, refill, None)


def rows_of_passes(stream, packing, passes):
    """Return the whole rows that `passes` passes of the corpus fill, none of a later pass having arrived.

    Before every selection whole refill batches arrive until buffer_size entries are buffered. So the next pass is
    needed as soon as more than all entries less buffer_size have been removed. 0 when no row is full before that.
    """
    removable = passes * int(packing.entries(stream.lengths).sum()) - packing.buffer_size
    removed, rows = 0, 0
    for block in packing.blocks(stream, ENDLESS):
        removals = np.ones(len(block), np.int64)
        if packing.loader.continues:
            text = stream.lengths[block[:, ARRIVAL] % len(stream.lengths)] - 1
            removals = (text == block[:, START] + block[:, COUNT]).astype(np.int64)
        before = removed + np.cumsum(removals) - removals
        later = int(np.searchsorted(before, removable, side="right"))
        if later < len(block):
            rows = int(block[later, ROW])
            break
        removed = int(before[-1] + removals[-1])
    return rows


# -------------------------------------------------------------------------------------------- ranks


def deal(files, ranks):
    """Return [unit numbers of each rank]: the units (row groups) of each file in turn, from rank 0 on at each file."""
    shares = [[] for _ in range(ranks)]
    first = 0
    for units in files:
        for rank in range(ranks):
            shares[rank] += range(first + rank, first + units, ranks)
        first += units
    return shares


def read_deal(path, units):
    """Return a user's own dealing: a JSON list with a list of unit numbers, from 0 on, for each rank."""
    shares = read_json(path)
    if not isinstance(shares, list) or not shares or not all(isinstance(share, list) for share in shares):
        raise InputError(f"{path}: expected a list of lists of unit numbers, one list a rank")
    for rank, share in enumerate(shares):
        for unit in share:
            if type(unit) is not int or not 0 <= unit < units:
                raise InputError(f"{path}: rank {rank}: expected units 0..{units - 1}, found {unit!r}")
    return shares


def rank_streams(stream, units, shares):
    """Return one AuditedStream a rank: the documents of its units, in the order of its share.

    units: int64 (units,), documents in each; no refill batch may cross their ends. InputError when a rank gets nothing.
    """
    if units.sum() != len(stream.lengths):
        raise InputError(f"row groups hold {units.sum()} documents, but there are {len(stream.lengths)} lengths")
    ends, batch_ends = np.cumsum(units), np.cumsum(stream.refill)
    if not np.isin(ends, batch_ends).all():
        raise InputError("refill: a batch crosses the end of a row group; give the batches cut inside each of them")
    last_batch = np.searchsorted(batch_ends, ends) + 1
    batches, streams = np.diff(last_batch, prepend=0), []
    for rank, share in enumerate(shares):
        if not share:
            raise InputError(f"rank {rank} of {len(shares)} is dealt none of the {len(units)} row groups or batches")
        chosen = _ranges((ends - units)[share], units[share])
        refill = stream.refill[_ranges((last_batch - batches)[share], batches[share])]
        streams.append(AuditedStream(stream.lengths[chosen], refill, chosen))
    return streams


def _ranges(starts, sizes):
    """Return int64 (sum of sizes,): the ranges from each start on, one after the other."""
    return np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)


def counted_by_ranks(numbers, total):
    """Return ([numbers of no rank], [numbers of several]) of 0..total-1, sorted, from one list of numbers a rank."""
    ranks = np.zeros(total, np.int32)
    for of_rank in numbers:
        holds = np.zeros(total, bool)
        holds[np.asarray(of_rank, np.int64)] = True
        ranks += holds
    return np.flatnonzero(ranks == 0).tolist(), np.flatnonzero(ranks > 1).tolist()
