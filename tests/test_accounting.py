"""The ledger equals a count of every single token, the protected set never begins, and a false plan is found out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders import accounting, random_span
from loaders import ledger as books
from loaders.accounting import ARRIVAL, COUNT, START
from tiny.packed_tokens import PackedTokens
from tiny.streams import CASE_1B, EVERY, LOADERS, streams


def account(policy, lengths, sizes, seed=7):
    loader = LOADERS[policy]
    plan = loader.plan(lengths, seed=seed, **sizes)
    known = {key: sizes[key] for key in ("capacity", "buffer_size")}
    return plan, books.ledger(plan, lengths, sizes["refill"], loader=loader, **known)


@EVERY
@settings(max_examples=300)
@given(world=streams())
def test_the_ledger_equals_a_count_of_every_token(policy, world):
    lengths, sizes = world
    tokens, documents = PackedTokens(lengths, policy=policy, seed=7, **sizes).account()
    assert account(policy, lengths, sizes)[1] == {"tokens": tokens, "documents": documents}


@EVERY
@settings(max_examples=150)
@given(world=streams())
def test_tokens_and_documents_balance_at_every_horizon(policy, world):
    lengths, sizes = world
    for rows in range(sizes["rows"] + 1):
        ledger = account(policy, lengths, sizes | {"rows": rows})[1]
        tokens, documents = ledger["tokens"], ledger["documents"]
        assert all(type(count) is int and count >= 0 for part in ledger.values() for count in part.values())
        assert tokens["emitted"] == rows * sizes["capacity"]
        leaves = tokens["emitted"] + tokens["discarded"] + tokens["buffered"]
        assert tokens["arrived"] + tokens["synthetic_bos"] == leaves
        assert documents["arrived"] == sum(documents[state] for state in ("unstarted", "whole", "cropped", "split"))


@pytest.mark.parametrize("policy", ["best_fit_crop", "random_span", "lossless"])
@settings(max_examples=150)
@given(world=streams(), data=st.data())
def test_the_largest_long_documents_are_unstarted_at_every_selection(policy, world, data):
    """Paper section 3: the largest min(B-1, N_long) keys of all that arrived have not begun. Tied lengths included."""
    lengths, sizes = world
    sizes["capacity"] = data.draw(st.integers(2, max(2, max(lengths) - 1)))
    loader, known = LOADERS[policy], {key: sizes[key] for key in ("capacity", "buffer_size")}
    plan = loader.plan(lengths, seed=1, **sizes)
    for placed in range(1, len(plan) + 1):
        seen = plan[:placed]
        arrived = books.arrived_documents(seen, lengths, sizes["refill"], loader=loader, **known)
        keys = sorted(key for a in range(arrived) if (key := (lengths[a % len(lengths)], a))[0] > sizes["capacity"])
        largest = keys[len(keys) - min(sizes["buffer_size"] - 1, len(keys)) :]
        kept = books.protected(lengths, arrived, **known)
        assert kept.tolist() == [arrival for _, arrival in largest]
        assert not np.isin(kept, seen[:, ARRIVAL]).any()


def test_case_1a_emits_seven_of_nine_and_discards_two():
    sizes = {"refill": [5], "capacity": 8, "buffer_size": 4, "rows": 1}
    ledger = account("best_fit_crop", [1, 23, 12, 9, 31], sizes)[1]
    assert ledger["tokens"] == {"arrived": 76, "synthetic_bos": 0, "emitted": 8, "discarded": 2, "buffered": 66}


def test_case_1b_balances_with_the_worked_numbers():
    """128 drawn, 44 emitted, 29 discarded, 55 buffered, and the 40 that keep the buffer full."""
    sizes = {"refill": [1] * 11, "capacity": 11, "buffer_size": 4, "rows": 4}
    plan, ledger = account("best_fit_crop", [*CASE_1B, 40], sizes)
    assert ledger["tokens"] == {
        "arrived": 128 + 40, "synthetic_bos": 0, "emitted": 44, "discarded": 29, "buffered": 55 + 40}
    states = {"unstarted": 3, "whole": 4, "cropped": 4, "split": 0, "bos_apart": 0}
    assert ledger["documents"] == {"arrived": 11, "started": 8, "buffered": 3, **states}
    cut = plan[:, COUNT] < np.array([*CASE_1B, 40])[plan[:, ARRIVAL]] - 1
    assert set(plan[cut, ARRIVAL]) == {2, 3, 4, 6} and set(range(10)) - set(plan[:, ARRIVAL]) == {1, 8}


def test_case_1c_shows_the_first_document_as_never_started():
    lengths, sizes = [100] + [4] * 30, {"refill": [1] * 31, "capacity": 8, "buffer_size": 3, "rows": 5}
    ledger = account("best_fit_crop", lengths, sizes)[1]
    assert ledger["tokens"] == {"arrived": 144, "synthetic_bos": 0, "emitted": 40, "discarded": 0, "buffered": 104}
    assert ledger["documents"]["unstarted"] == 2
    assert books.protected(lengths, 12, capacity=8, buffer_size=3).tolist() == [0]


def test_a_document_whose_bos_ends_a_row_alone_is_split_and_was_whole_in_schema_1():
    sizes = {"refill": [1, 1, 1], "capacity": 4, "buffer_size": 1, "rows": 3}
    documents = account("lossless", [3, 5, 4], sizes)[1]["documents"]
    assert (documents["whole"], documents["split"], documents["bos_apart"]) == (2, 1, 1)
    first = books.of_schema_1(documents)
    assert (first["whole"], first["split"]) == (3, 0) and "bos_apart" not in first


def test_case_6_truncating_discards_what_splitting_keeps():
    """Row 4, lengths 7, 3, 5, 1: no document of the first three rows' worth is lost when the rest is kept."""
    sizes = {"refill": [4], "capacity": 4, "buffer_size": 1, "rows": 3}
    assert account("best_fit_crop", [7, 3, 5, 1], sizes)[1]["tokens"] == {
        "arrived": 16, "synthetic_bos": 0, "emitted": 12, "discarded": 4, "buffered": 0}
    kept = account("lossless", [7, 3, 5, 1], sizes | {"rows": 4})[1]
    assert kept["tokens"] == {"arrived": 16, "synthetic_bos": 0, "emitted": 16, "discarded": 0, "buffered": 0}
    assert kept["documents"] == {
        "arrived": 4, "started": 4, "buffered": 0, "unstarted": 0, "whole": 2, "cropped": 0, "split": 2,
        "bos_apart": 0}
    chunks = account("segment_first", [7, 3, 5, 1], sizes | {"rows": 4})[1]["tokens"]
    assert chunks == {"arrived": 16, "synthetic_bos": 2, "emitted": 16, "discarded": 0, "buffered": 2}


@pytest.mark.parametrize("refill", [[3, 3, 3, 1], [1] * 10, [10]])
def test_case_10a_the_reader_batch_does_not_change_the_account(refill):
    tokens = account("lossless", [7] * 10, {"refill": refill, "capacity": 16, "buffer_size": 1, "rows": 4})[1]["tokens"]
    assert tokens == {"arrived": 70, "synthetic_bos": 0, "emitted": 64, "discarded": 0, "buffered": 6}


def test_case_12a_totals_beyond_32_bits_are_exact():
    lengths = [1_200_000_000] * 3
    ledger = account("best_fit_crop", lengths, {"refill": [3], "capacity": 2049, "buffer_size": 3, "rows": 1})[1]
    assert ledger["tokens"]["arrived"] == 3_600_000_000 and ledger["tokens"]["discarded"] == 1_200_000_000 - 2049



def test_a_plan_of_no_rows_accounts_for_nothing():
    assert books.protected([5, 9], 0, capacity=4, buffer_size=3).size == 0
    ledger = account("segment_first", [5, 9], {"refill": [2], "capacity": 4, "buffer_size": 2, "rows": 0})[1]
    assert set(ledger["tokens"].values()) == set(ledger["documents"].values()) == {0}


def changed(plan, segment, **values):
    plan = plan.copy()
    for name, value in values.items():
        plan[segment, getattr(accounting, name)] = value
    return plan


@pytest.mark.parametrize(("policy", "segment", "values", "text"), [
    ("best_fit_crop", 1, {"ARRIVAL": 0}, "more tokens|twice"),
    ("best_fit_crop", 3, {"COUNT": 6}, "row does not hold"),
    ("best_fit_crop", 2, {"ROW": 2}, "row"),
    ("best_fit_crop", 7, {"ARRIVAL": 11}, "before it arrives"),
    ("best_fit_crop", 1, {"BOS": 0, "COUNT": 2}, "twice|no BOS"),
    ("best_fit_crop", 0, {"START": -1}, "negative"),
    ("segment_first", 1, {"START": 0}, "more tokens|twice"),
    ("random_span", 0, {"START": 1}, "beyond its document"),
    ("lossless", 2, {"START": 0}, "gap or overlaps"),
])
def test_a_false_plan_does_not_balance(policy, segment, values, text):
    loader = LOADERS[policy]
    lengths, sizes = [*CASE_1B, 40], {"capacity": 11, "buffer_size": 4}
    plan = loader.plan(lengths, rows=4, refill=[1] * 11, seed=1, **sizes)
    books.ledger(plan, lengths, [1] * 11, loader=loader, **sizes)
    with pytest.raises(ValueError, match=f"does not balance: .*({text})"):
        books.ledger(changed(plan, segment, **values), lengths, [1] * 11, loader=loader, **sizes)


def test_the_plan_hash_follows_content_not_memory_layout():
    plan = random_span.plan(CASE_1B, capacity=11, rows=4, buffer_size=4, refill=[10], seed=1)
    assert accounting.plan_sha256(plan) == accounting.plan_sha256(np.asfortranarray(plan))
    assert accounting.plan_sha256(plan) != accounting.plan_sha256(changed(plan, 0, START=plan[0, START] + 1))
