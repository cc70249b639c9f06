"""An edit moves or replaces exactly the rows that it names: every other row keeps its segments, in its place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders import best_fit_crop, edits
from loaders.accounting import BOS, COUNT, ROW
from tiny.streams import streams


def rows_of(plan):
    """Each row's segments, without the row's number, as tuples."""
    found = [[] for _ in range(int(plan[-1, ROW]) + 1)] if len(plan) else []
    for row, *segment in plan.tolist():
        found[row].append(tuple(segment))
    return found


def planned(rows, capacity=9):
    lengths = np.random.default_rng(4).integers(1, 30, 60)
    return lengths, best_fit_crop.plan(lengths, capacity=capacity, rows=rows, buffer_size=5, refill=[60])


ORDER = {"kind": "order", "block_updates": 4, "generator": "PCG64", "seed": 11}


def ordered(plan, unit, update_rows):
    found, [account] = edits.apply_edits(plan, [{**ORDER, "unit": unit}], lengths=None, capacity=9,
                                         update_rows=update_rows, tables={})
    return found, account


@settings(max_examples=100)
@given(world=streams(), data=st.data())
def test_a_reordered_plan_has_the_rows_of_the_order(world, data):
    lengths, sizes = world
    plan = best_fit_crop.plan(lengths, **sizes)
    order = np.array(data.draw(st.permutations(range(sizes["rows"]))), np.int64)
    found = edits.reordered(plan, order)
    assert found.dtype == np.int64 and (np.diff(found[:, ROW]) >= 0).all()
    assert rows_of(found) == [rows_of(plan)[old] for old in order]


@pytest.mark.parametrize("unit, keeps_updates", [("row", False), ("update", True)])
def test_rows_stay_in_their_block_and_updates_keep_their_rows_where_they_move_whole(unit, keeps_updates):
    """14 updates of 3 rows in blocks of 4 updates: the last block has 2."""
    _, plan = planned(42)
    found, account = ordered(plan, unit, 3)
    old, new = rows_of(plan), rows_of(found)
    for first in range(0, 42, 12):
        assert sorted(new[first : first + 12]) == sorted(old[first : first + 12])
    updates = {tuple(map(tuple, old[row : row + 3])) for row in range(0, 42, 3)}
    kept = [tuple(map(tuple, new[row : row + 3])) in updates for row in range(0, 42, 3)]
    assert all(kept) == keeps_updates
    assert 0 < account["rows_moved"] <= 42


def test_the_order_is_that_of_one_generator_which_permutes_each_block_in_turn():
    random, expected = np.random.Generator(np.random.PCG64(11)), []
    for first, size in ((0, 12), (12, 12), (24, 6)):
        expected += (first + random.permutation(size)).tolist()
    assert edits.block_order(30, unit=1, block=12, generator="PCG64", seed=11).tolist() == expected


def test_a_substitution_opens_the_named_documents_and_leaves_every_other_row():
    lengths, plan = planned(12)
    long = np.flatnonzero(lengths >= 9)[:3]
    table = {"rows": [3, 7, 11], "documents": long.tolist()}
    edit = {"kind": "substitute", "table": "substitution_a.json", "sha256": "0" * 64}
    found, [account] = edits.apply_edits(plan, [edit], lengths=lengths, capacity=9, update_rows=1,
                                         tables={"substitution_a.json": table})
    old, new = rows_of(plan), rows_of(found)
    for row in range(12):
        assert new[row] == ([(int(long[row // 4]), 1, 0, 8)] if row % 4 == 3 else old[row])
    assert account["rows"] == 3 and account["tokens_replaced"] == 27
    assert (np.bincount(found[:, ROW], found[:, BOS] + found[:, COUNT]) == 9).all()


@pytest.mark.parametrize("rows, documents, named", [
    ([3, 3], [0, 1], "rows"), ([4, 3], [0, 1], "rows"), ([12], [0], "rows"), ([-1], [0], "rows"), ([1], [0, 1], "rows"),
    ([1], [60], "documents: 60"), ([1], [-1], "documents: -1"), ([1], [2], "documents: 2 has 8 tokens"),
])
def test_a_row_or_document_that_cannot_be_is_named(rows, documents, named):
    lengths, plan = planned(12)
    lengths[:3] = 9, 9, 8
    with pytest.raises(ValueError, match=named):
        edits.substituted(plan, rows, documents, lengths, 9)


def test_edits_are_made_in_their_order_and_have_digests_that_follow_their_content():
    _, plan = planned(24)
    both, accounts = edits.apply_edits(plan, [{**ORDER, "unit": "row"}, {**ORDER, "unit": "update", "seed": 12}],
                                       lengths=None, capacity=9, update_rows=2, tables={})
    once, first = ordered(plan, "row", 2)
    twice = edits.reordered(once, edits.block_order(24, unit=2, block=8, generator="PCG64", seed=12))
    assert np.array_equal(both, twice) and accounts[0] == first
    assert accounts[0]["order_sha256"] != accounts[1]["order_sha256"]
