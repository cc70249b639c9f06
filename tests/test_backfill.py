"""Backfill packs as its rule says, loses no token, and starts every document within its bound, which is sharp."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from loaders import backfill, backfill_lossless
from loaders.accounting import ARRIVAL, ROW
from loaders.ledger import ledger
from research.reference_packer import BackfillPacker
from tiny.streams import streams

LOADERS = {"backfill": (backfill.LOADER, False), "backfill_lossless": (backfill_lossless.LOADER, True)}


def waits(packer, rows):
    """[rows from the row of its arrival to the row of its start] of every document that starts in `rows` rows."""
    arrived, found = {}, []
    while packer.row < rows:
        packer.refill()
        for arrival in range(len(arrived), packer.arrived):
            arrived[arrival] = packer.row
        row, arrival, bos, *_ = packer.select()
        if bos:
            found.append(row - arrived[arrival])
    return found


@pytest.mark.parametrize("name", LOADERS)
@settings(max_examples=300)
@given(stream=streams())
def test_the_plan_is_that_of_the_rule_in_words(name, stream):
    (lengths, sizes), (loader, lossless) = stream, LOADERS[name]
    plan = loader.plan(np.array(lengths), **sizes)
    options = {key: sizes[key] for key in ("capacity", "buffer_size")}
    packer = BackfillPacker(lengths, sizes["refill"], lossless=lossless, **options)
    assert plan.tolist() == [list(selection[:5]) for selection in packer.select_rows(sizes["rows"])]


@pytest.mark.parametrize("name", LOADERS)
@settings(max_examples=200)
@given(stream=streams())
def test_the_ledger_balances_and_lossless_discards_nothing(name, stream):
    (lengths, sizes), (loader, lossless) = stream, LOADERS[name]
    if not sizes["rows"]:
        return
    settings_ = {key: sizes[key] for key in ("capacity", "buffer_size")}
    plan = loader.plan(np.array(lengths), **sizes)
    account = ledger(plan, np.array(lengths), sizes["refill"], loader=loader, **settings_)
    tokens = account["tokens"]
    assert tokens["arrived"] == tokens["emitted"] + tokens["discarded"] + tokens["buffered"]
    assert not (lossless and tokens["discarded"])


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("buffer_size, largest", list(itertools.product(range(1, 5), repeat=2)))
def test_no_document_waits_longer_than_its_bound_and_some_wait_as_long(name, buffer_size, largest):
    """Every stream of four documents in a row of two tokens, in every division into batches of at most `largest`."""
    longest, lossless = 0, LOADERS[name][1]
    for lengths in itertools.product((1, 2, 3), repeat=4):
        for cut in itertools.product(range(1, largest + 1), repeat=4):
            refill = list(itertools.takewhile(lambda end: end <= 4, itertools.accumulate(cut)))
            if not refill or refill[-1] != 4 or max(np.diff([0, *refill])) != largest:
                continue
            sizes = np.diff([0, *refill]).tolist()
            packer = BackfillPacker(list(lengths), sizes, capacity=2, buffer_size=buffer_size, lossless=lossless)
            longest = max(longest, *waits(packer, 12))
    assert longest == buffer_size + largest - 2


def test_the_longest_document_starts_though_nothing_fits_and_much_arrives():
    """Under the baseline a document of 100 tokens waits for ever here (cases: crop the shortest)."""
    plan = backfill.LOADER.plan(np.array([100] + [4] * 30), capacity=8, rows=5, buffer_size=3, refill=[31])
    assert plan[0, ARRIVAL] == 0 and plan[0, ROW] == 0
