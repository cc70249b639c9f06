"""What an audit is of: document lengths in arrival order, the policy that packs them, and how far it runs.

A stream may be dealt to ranks, each with a buffer of its own.
"""

import importlib
from dataclasses import dataclass

import numpy as np

from evidence import InputError, read_json
from loaders.accounting import ARRIVAL, COUNT, ROW, START, batch_sums
from loaders.ledger import discards

# Policy: its loader file, and whether the proposition of the paper's section 3 speaks about it.
POLICIES = {
    "baseline": ("best_fit_crop", True),
    "random_crop": ("random_span", True),
    "segmented": ("segment_first", False),
    "lossless": ("lossless", True),
    "backfill": ("backfill", False),
    "backfill_lossless": ("backfill_lossless", False),
}
RETAINING = {loader for loader, retains in POLICIES.values() if retains}


@dataclass(frozen=True)
class Stream:
    """One pass of a corpus as one loader reads it.

    lengths: int64 (documents,), tokens with BOS; refill: int64 (batches,), documents a batch; documents: int64
    (documents,), their numbers in the whole corpus.
    """

    lengths: np.ndarray
    refill: np.ndarray
    documents: np.ndarray


@dataclass(frozen=True)
class Packing:
    """A loader module with its settings; `plan(stream, rows)` is the loader's table of segments."""

    name: str
    loader: object
    capacity: int
    buffer_size: int
    seed: int

    @property
    def retains(self):
        """Whether the longest buffer_size - 1 over-capacity documents must stay unstarted."""
        return self.name in RETAINING

    def entries(self, lengths):
        """int64 (documents,): buffer entries each document becomes."""
        return self.loader.entries(lengths, self.capacity)

    def plan(self, stream, rows):
        """int64 (segments, 5), as the loader says; InputError when it refuses its arguments."""
        try:
            return self.loader.plan(stream.lengths, capacity=self.capacity, rows=rows, buffer_size=self.buffer_size,
                                    refill=stream.refill, seed=self.seed)
        except ValueError as error:
            raise InputError(f"{self.name}: {error}") from None


def make_packing(loader, capacity, buffer_size, seed):
    """The Packing of a file in loaders/, by its name."""
    try:
        found = importlib.import_module(f"loaders.{loader}").LOADER
    except ModuleNotFoundError:
        raise InputError(f"loaders/{loader}.py: no such loader") from None
    if found.shared or not found.fills:
        raise InputError(f"loaders/{loader}.py: rows that share tokens or are padded are not audited here; "
                         "research/batch_boundaries/count_targets.py counts them")
    return Packing(loader, found, capacity, buffer_size, seed)


def whole_stream(lengths, refill):
    """The Stream of a corpus read by one loader; InputError unless the batches hold exactly its documents."""
    if refill.sum() != len(lengths):
        raise InputError(f"refill: batches hold {refill.sum()} documents, but there are {len(lengths)} lengths")
    return Stream(lengths, refill, np.arange(len(lengths)))


# ------------------------------------------------------------------------------------------ horizon


def batches_taken(plan, stream, packing):
    """int64 (segments,): refill batches that have arrived when each segment is selected, over all passes.

    Derived without the planner: whole batches arrive until buffer_size entries are held, before every selection, so
    their entries must reach buffer_size plus what earlier selections removed.
    """
    removes = np.ones(len(plan), np.int64)
    if packing.loader.continues:
        removes = (rests(plan, stream, packing) == 0).astype(np.int64)
    needed = packing.buffer_size + np.cumsum(removes) - removes
    reached = np.cumsum(batch_sums(packing.entries(stream.lengths), stream.refill))
    passes, rest = np.divmod(needed - 1, reached[-1])
    return passes * len(reached) + np.searchsorted(reached, rest, side="right") + 1


def rests(plan, stream, packing):
    """int64 (segments,): tokens that a selected entry leaves over, to be discarded or, by a continuing loader, kept."""
    if packing.loader.continues:
        return stream.lengths[plan[:, ARRIVAL] % len(stream.lengths)] - 1 - plan[:, START] - plan[:, COUNT]
    return discards(plan, stream.lengths, capacity=packing.capacity, loader=packing.loader)


def rows_of_passes(stream, packing, passes):
    """Whole rows that `passes` passes of the corpus fill, none of a later pass having arrived."""
    added = packing.entries(stream.lengths) - 1
    plan = packing.plan(stream, passes * int((stream.lengths + added).sum()) // packing.capacity + 1)
    later = np.searchsorted(batches_taken(plan, stream, packing), passes * len(stream.refill), side="right")
    rows = int(plan[later, ROW])
    if rows == 0:
        raise InputError(f"--passes {passes}: they fill no row; a buffer of {packing.buffer_size} takes more than the "
                         f"{passes * len(stream.lengths)} documents that arrive")
    return rows


# -------------------------------------------------------------------------------------------- ranks


def deal(files, ranks):
    """[unit numbers of each rank]: every file's units (row groups) in turn, starting anew with rank 0 at each file."""
    shares = [[] for _ in range(ranks)]
    first = 0
    for units in files:
        for rank in range(ranks):
            shares[rank] += range(first + rank, first + units, ranks)
        first += units
    return shares


def read_deal(path, units):
    """A user's own dealing: a JSON list with each rank's list of unit numbers, 0-based."""
    shares = read_json(path)
    if not isinstance(shares, list) or not shares or not all(isinstance(share, list) for share in shares):
        raise InputError(f"{path}: expected a list of lists of unit numbers, one list a rank")
    for rank, share in enumerate(shares):
        for unit in share:
            if type(unit) is not int or not 0 <= unit < units:
                raise InputError(f"{path}: rank {rank}: expected units 0..{units - 1}, found {unit!r}")
    return shares


def rank_streams(stream, units, shares):
    """One Stream a rank: the documents of its units, in the order of its share.

    units: int64 (units,), documents in each, refill batches lying inside them. InputError when a rank gets nothing.
    """
    if units.sum() != len(stream.lengths):
        raise InputError(f"row groups hold {units.sum()} documents, but there are {len(stream.lengths)} lengths")
    ends, batch_ends = np.cumsum(units), np.cumsum(stream.refill)
    if not np.isin(ends, batch_ends).all():
        raise InputError("refill: a batch crosses the end of a row group; give the batches cut inside each of them")
    unit_of_batch = np.searchsorted(ends, batch_ends)
    streams = []
    for rank, share in enumerate(shares):
        if not share:
            raise InputError(f"rank {rank} of {len(shares)} is dealt none of the {len(units)} row groups or batches")
        chosen = np.concatenate([np.arange(ends[unit] - units[unit], ends[unit]) for unit in share])
        refill = np.concatenate([stream.refill[unit_of_batch == unit] for unit in share])
        streams.append(Stream(stream.lengths[chosen], refill, stream.documents[chosen]))
    return streams


def counted_by_ranks(numbers, total):
    """(held by no rank, held by several): sorted lists of 0..total-1, from one list of numbers a rank."""
    held = np.zeros(total, np.int64)
    for of_rank in numbers:
        held[np.unique(np.asarray(of_rank, np.int64))] += 1
    return np.flatnonzero(held == 0).tolist(), np.flatnonzero(held > 1).tolist()
