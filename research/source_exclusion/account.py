"""The exact account of one stream: an Account follows the segments of a plan, block by block, and closes balanced.

Its memory grows with the corpus and by 16 bytes a segment (`curve`), not with the plan.
"""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from loaders.best_fit_crop import read_only
from research.source_exclusion.account_ends import union, waiting_tokens
from research.source_exclusion.account_kernels import follow
from research.source_exclusion.account_state import (
    ARRIVED,
    BLOCK,
    COUNTERS,
    CROPPED,
    DISCARDED,
    EMITTED,
    FILLED,
    LAST_ROW,
    LISTED_CROPS,
    LISTED_PROTECTED,
    LISTED_SLICES,
    SELECTED,
    SYNTHETIC,
    TENTHS,
    TOKENS,
    State,
)

PARTS = 200


class Unbalanced(Exception):
    """A plan does not balance, or it holds a segment that cannot be."""


class Sums(NamedTuple):
    """What adds up over the streams of several ranks.

    arrived (strata, 3), fates (strata, 6), longer (4,), relative (2, 10, 2), absolute (strata, 2): int64 as in State;
    protected: int64 (documents, tokens, documents started, tokens buffered) of the longest arrived documents.
    """

    arrived: np.ndarray
    fates: np.ndarray
    longer: np.ndarray
    relative: np.ndarray
    absolute: np.ndarray
    protected: np.ndarray


class Account:
    """What became of every token and document of a stream, after `follow`.

    sums: Sums; state: State; selections: int; parts: int64 (200, 4), the sums over equal parts of the selections of
    the entries held that fit a row, of all held, and of the tokens discarded and emitted; first, least and most held
    (`first_held`, ...); slices: int32 (n, 3), emitted (document, from, to) that do not begin at a document's start.
    """

    def __init__(self, stream, packing, edges):
        documents = len(stream.lengths)
        entries = packing.entries(stream.lengths)
        chunked = bool(entries.max() > 1)
        first_entry = np.concatenate([[0], np.cumsum(entries)]) if chunked else np.zeros(1, np.int64)
        selected = np.zeros(int(first_entry[-1]) if chunked else documents, np.int32)
        strata, capacity = len(edges) + 1, packing.capacity
        spans = 4 * (packing.buffer_size + int(stream.refill.max())) if packing.loader.continues else 1
        self.stream, self.packing = stream, packing
        self.state = State(
            counters=np.zeros(COUNTERS, np.int64), arrived=np.zeros((strata, 3), np.int64),
            fates=np.zeros((strata, 6), np.int64), longer=np.zeros(4, np.int64),
            relative=np.zeros((2, TENTHS, 2), np.int64), absolute=np.zeros((strata, 2), np.int64),
            kept=np.zeros(capacity + 1, np.int64), first_long=np.full(4, -1, np.int64),
            guard=np.zeros((packing.buffer_size - 1, 2), np.int64), selected=selected,
            started=np.zeros(documents, np.int32) if chunked else selected, prefix=np.full(documents, -1, np.int32),
            spans=np.full((spans, 2), -1, np.int64), slices=np.empty((BLOCK, 3), np.int32),
            crops=np.empty(BLOCK, np.int64), protected=np.empty((BLOCK, 3), np.int64),
            lengths=read_only(stream.lengths), refill=read_only(stream.refill),
            first_entry=first_entry, edges=np.array(edges, np.int64))
        self.state.counters[[LAST_ROW, FILLED]] = -1, capacity
        self._digest, self._curves = hashlib.sha256(), []
        self._slices, self._crops, self._protected = [], [], []

    def follow(self, blocks):
        """Account for all blocks, int64 (at most BLOCK, 5) each, of a plan that ends with a whole row; return self.

        Unbalanced names a segment that cannot be, or says what does not add up at the end.
        """
        with ThreadPoolExecutor(1) as hasher:
            for block in blocks:
                hashing = hasher.submit(self._digest.update, np.ascontiguousarray(block, "<i8"))
                self._add(block)
                hashing.result()
        self._close()
        return self

    def _add(self, block):
        state, packing = self.state, self.packing
        curve = np.empty((len(block), 4), np.int32)
        reached = follow(block, curve, state, packing.capacity, packing.buffer_size, packing.loader.continues)
        if reached < len(block):
            raise Unbalanced(f"segment {block[reached].tolist()} (row, arrival, bos, start, count) cannot be")
        self._curves.append(curve)
        for place, lines, kept in ((LISTED_SLICES, state.slices, self._slices),
                                   (LISTED_CROPS, state.crops, self._crops),
                                   (LISTED_PROTECTED, state.protected, self._protected)):
            kept.append(lines[: state.counters[place]].copy())
            state.counters[place] = 0

    # ----------------------------------------------------------------------------------------- the end

    def _close(self):
        state = self.state
        if state.counters[FILLED] != self.packing.capacity:
            raise Unbalanced(f"row {state.counters[LAST_ROW]} has {state.counters[FILLED]} tokens, expected "
                             f"{self.packing.capacity}")
        self.arrived, self.selections = int(state.counters[ARRIVED]), int(state.counters[SELECTED])
        self.rows = int(state.counters[LAST_ROW]) + 1
        self.slices = np.concatenate(self._slices)
        cropped = np.unique(np.concatenate(self._crops)) % len(state.lengths)
        np.add.at(state.fates[:, CROPPED], np.searchsorted(state.edges, state.lengths[cropped]), 1)
        self.sums = Sums(state.arrived, state.fates, state.longer, state.relative, state.absolute,
                         self._protected_sums())
        self._balance()
        self._sum_curves()

    def _balance(self):
        """Compare the tokens of what was never selected with what the balance leaves."""
        state, arrived = self.state, self.sums.arrived[:, [TOKENS, SYNTHETIC]].sum()
        emitted, discarded = self.sums.fates[:, [EMITTED, DISCARDED]].sum(axis=0)
        waiting = waiting_tokens(state, self.packing.capacity)
        waiting += int(state.spans[state.spans[:, 0] >= 0, 1].sum())
        if arrived != emitted + discarded + waiting:
            raise Unbalanced(f"{arrived} tokens arrived, but {emitted} were emitted, {discarded} discarded and "
                             f"{waiting} are buffered")

    def _protected_sums(self):
        """Return int64 (4,): documents, tokens, documents started and tokens buffered of the protected set."""
        length, arrival = self.protected_keys()
        lines = np.concatenate(self._protected)
        lines = lines[np.isin(lines[:, 0], arrival)]
        document = arrival % len(self.state.lengths)
        tokens = int((length + self.packing.entries(self.state.lengths[document]) - 1).sum()) if len(arrival) else 0
        return np.array([len(arrival), length.sum(), len(np.unique(lines[:, 0])), tokens - lines[:, 1:].sum()])

    def protected_keys(self):
        """Return (lengths, arrivals), int64, of the longest min(buffer_size - 1, all) arrivals over a row."""
        guard = self.state.guard
        return guard[guard[:, 0] > 0].T

    def _sum_curves(self):
        edges = self.selections * np.arange(PARTS + 1) // PARTS
        self.parts, at = np.zeros((PARTS, 4), np.int64), 0
        self.first_fitting, self.first_held = self._curves[0][0, :2].tolist()
        self.least_fitting = min(int(curve[:, 0].min()) for curve in self._curves)
        self.most_held = max(int(curve[:, 1].max()) for curve in self._curves)
        for curve in self._curves:
            reached = np.concatenate([np.zeros((1, 4), np.int64), np.cumsum(curve, axis=0, dtype=np.int64)])
            self.parts += np.diff(reached[np.clip(edges - at, 0, len(curve))], axis=0)
            at += len(curve)
        self._curves.clear()

    def plan_sha256(self):
        """Return the hex SHA-256 of the plan, as loaders.accounting.plan_sha256 defines it."""
        return self._digest.hexdigest()

    def has_arrived(self):
        """Return bool (documents,): which documents of the stream have arrived at least once."""
        return np.arange(len(self.state.lengths)) < self.arrived


def union_of(prefix, slices):
    """Return int32 (documents,): text positions in a prefix, int32 (documents,), or in a slice, int32 (n, 3)."""
    if not len(slices):
        return prefix
    return union(prefix.copy(), slices[np.lexsort((slices[:, 1], slices[:, 0]))])
