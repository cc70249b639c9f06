"""The audit's quantities equal a list loader's count of single tokens, and a plan that does not balance is found out.

Cases 1, 6 (what a loader keeps instead of discarding) and 12 of cases that tools of this kind got wrong.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders.accounting import ARRIVAL, COUNT, ROW, START, plan_sha256
from loaders.ledger import ledger
from research.source_exclusion.account import Account, Unbalanced
from research.source_exclusion.account_state import BLOCK
from research.source_exclusion.audit_records import stream_record
from research.source_exclusion.streams import POLICIES, make_packing, rows_of_passes, whole_stream
from tiny.packed_tokens import PackedTokens

CASE_1B = [9, 30, 14, 20, 6, 5, 12, 3, 25, 4, 40]  # the 40 keeps the second pass out of the way
EDGES = [4, 12]


def followed(plan, stream, packing):
    """The closed Account of a plan, and its curve: int32 (segments, 4)."""
    account, curves = Account(stream, packing, EDGES), []
    account._sum_curves, honest = lambda: (curves.extend(account._curves), honest()), account._sum_curves
    return account.follow([plan]), curves[0]


def audited(policy, lengths, refill, capacity, buffer_size, rows, seed=7):
    """The record of one stream, with its plan."""
    packing = make_packing(POLICIES[policy][0], capacity, buffer_size, seed)
    stream = whole_stream(np.array(lengths), np.array(refill))
    plan = packing.plan(stream, rows)
    return stream_record(followed(plan, stream, packing)[0], stream.lengths, EDGES), plan, stream, packing


@st.composite
def worlds(draw):
    """(lengths, refill, capacity, buffer_size, rows) of a small stream, long and empty documents among them."""
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=8))
    cuts = sorted(draw(st.sets(st.integers(1, len(lengths) - 1)))) if len(lengths) > 1 else []
    refill = np.diff([0, *cuts, len(lengths)]).tolist()
    return lengths, refill, draw(st.integers(2, 9)), draw(st.integers(1, 5)), draw(st.integers(1, 8))


def packed(policy, world):
    lengths, refill, capacity, buffer_size, rows = world
    return PackedTokens(lengths, refill=refill, capacity=capacity, buffer_size=buffer_size, rows=rows,
                        policy=POLICIES[policy][0], seed=7)


every_policy = pytest.mark.parametrize("policy", POLICIES)


@every_policy
@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_usable_buffer_and_arrivals_equal_those_of_the_reference_packer_at_every_selection(policy, world):
    _, plan, stream, packing = audited(policy, *world)
    account, curve = followed(plan, stream, packing)
    slow = packed(policy, world)
    assert curve[:, :2].tolist() == [[fitting, held] for fitting, held, _ in slow.seen]
    assert account.arrived == slow.arrived
    assert account.parts.sum(axis=0).tolist() == curve.sum(axis=0).tolist()


@every_policy
@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_the_account_equals_the_ledger_of_the_whole_plan(policy, world):
    record, plan, stream, packing = audited(policy, *world)
    found = ledger(plan, stream.lengths, stream.refill, capacity=packing.capacity, buffer_size=packing.buffer_size,
                   loader=packing.loader)
    for table in ("tokens", "documents"):
        assert {key: record[table].get(key, value) for key, value in found[table].items()} == found[table]
    kept = packed(policy, world).crops
    assert record["crops"] == {"events": len(kept), "bos_only": kept.count(1),
                               "median_kept": float(np.median(kept)) if len(kept) else None}
    assert record["plan_sha256"] == plan_sha256(plan)


@every_policy
def test_a_plan_in_pieces_is_the_plan_and_its_account_the_account(policy):
    lengths = np.maximum(np.random.default_rng(3).lognormal(3, 1.5, 3000), 1).astype(np.int64)
    record, plan, stream, packing = audited(policy, lengths, np.full(600, 5), 40, 30, 2000)
    account = Account(stream, packing, EDGES).follow(plan[at : at + 77] for at in range(0, len(plan), 77))
    assert stream_record(account, stream.lengths, EDGES) == record
    pieces = list(packing.blocks(stream, 2000))
    assert all(0 < len(piece) <= BLOCK for piece in pieces) and np.array_equal(np.concatenate(pieces), plan)


@every_policy
@settings(max_examples=60, deadline=None)
@given(world=worlds(), passes=st.integers(1, 3))
def test_whole_passes_end_with_the_last_row_before_the_next_pass_arrives(policy, world, passes):
    lengths, refill, capacity, buffer_size, _ = world
    packing, stream = make_packing(POLICIES[policy][0], capacity, buffer_size, 7), whole_stream(
        np.array(lengths), np.array(refill))
    rows = rows_of_passes(stream, packing, passes)
    arrived = [followed(packing.plan(stream, count), stream, packing)[0].arrived for count in (rows, rows + 1) if count]
    assert arrived[-1] > passes * len(lengths) and all(count <= passes * len(lengths) for count in arrived[:-1])


@every_policy
@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_strata_and_positions_equal_a_count_of_single_tokens(policy, world):
    lengths, _, capacity, *_ = world
    record, slow = audited(policy, *world)[0], packed(policy, world)
    shown = {token for row in slow.rows for token in row}
    length = [lengths[a % len(lengths)] for a in range(slow.arrived)]
    for low, high, stratum in zip([0, *EDGES], [*EDGES, 10**9], record["strata"]):
        inside = {a for a, size in enumerate(length) if low < size <= high}
        assert stratum["documents"]["arrived"] == len(inside)
        assert stratum["documents"]["started"] == len({a for a, _ in shown} & inside)
        assert stratum["tokens"]["emitted"] == sum(a in inside for row in slow.rows for a, _ in row)
        assert stratum["tokens"]["buffered"] == sum(a in inside for span in slow.buffer for a, _ in span)
        assert stratum["tokens"]["discarded"] == sum(a in inside for a, _ in slow.discarded)
    text = [(a, n - 1) for a, n in shown if n != "bos" and n > 0]
    for name, fits in (("fits_a_row", True), ("longer_than_a_row", False)):
        tenths = [10 * p // (length[a] - 1) for a, p in text if (length[a] <= capacity) is fits]
        assert [emitted for _, emitted in record["positions"]["relative"][name]] == [tenths.count(t) for t in range(10)]
    for low, high, found in zip([0, *EDGES], [*EDGES, 10**9], record["positions"]["absolute"]):
        assert found["emitted"] == sum(low <= p < high for _, p in text)
        assert found["arrived"] == sum(low <= p < high for size in length for p in range(size - 1))


@every_policy
@settings(max_examples=120, deadline=None)
@given(world=worlds())
def test_documents_are_sorted_by_the_share_of_positions_seen_over_all_passes(policy, world):
    lengths = world[0]
    record, slow = audited(policy, *world)[0], packed(policy, world)
    seen = {(a % len(lengths), n) for row in slow.rows for a, n in row if n != "bos" and n > 0}
    expected = dict.fromkeys(record["positions"]["documents_by_share_seen"], 0)
    for document in range(min(len(lengths), slow.arrived)):
        text, count = lengths[document] - 1, sum(d == document for d, _ in seen)
        quarters = {"up_to_a_quarter": 0.25, "up_to_a_half": 0.5, "up_to_three_quarters": 0.75, "more_but_not_all": 1}
        name = ("without_text" if text == 0 else "nothing" if count == 0 else "everything" if count == text
                else next(name for name, most in quarters.items() if count / text <= most))
        expected[name] += 1
    assert record["positions"]["documents_by_share_seen"] == expected


def test_case_1b_account_and_never_started_documents():
    record, *_ = audited("baseline", CASE_1B, [1] * 11, 11, 4, 4)
    tokens = {name: record["tokens"][name] for name in ("arrived", "emitted", "discarded", "buffered")}
    assert tokens == {"arrived": 128 + 40, "emitted": 44, "discarded": 29, "buffered": 55 + 40}
    assert record["documents"]["cropped"] == 4 and record["documents"]["unstarted"] == 2 + 1
    first = {"segment": 3, "arrival": 6, "length": 12, "target_offset": 10 + 5 - 1}
    assert record["first_over_capacity_start"] == first


def test_case_1c_a_document_drawn_first_and_never_started_is_not_called_dropped():
    record, *_ = audited("baseline", [100] + [4] * 30, [1] * 31, 8, 3, 5)
    assert record["tokens"] == {"arrived": 144, "synthetic_bos": 0, "emitted": 40, "discarded": 0, "buffered": 104,
                                "utilisation": 1.0}
    assert record["strata"][-1]["documents"]["unstarted"] == 1 and record["strata"][-1]["started_share"] == 0.0
    assert record["protected"]["documents"] == 1 and record["protected"]["started"] == 0
    assert record["first_over_capacity_start"] is None


def test_case_6_lossless_discards_nothing_and_keeps_the_rest_in_the_buffer():
    crop, lossless = (audited(policy, [7, 3, 5, 1], [4], 4, 4, 4)[0]["tokens"] for policy in ("baseline", "lossless"))
    assert crop["discarded"] > 0 and lossless["discarded"] == 0
    assert lossless["arrived"] == lossless["emitted"] + lossless["buffered"]


def test_case_12_totals_and_offsets_beyond_32_bits_are_exact():
    record, *_ = audited("baseline", [1_200_000_000] * 3, [3], 2049, 4, 2)
    assert record["tokens"]["arrived"] == 6 * 1_200_000_000
    assert record["tokens"]["discarded"] == 2 * (1_200_000_000 - 2049)
    assert record["positions"]["relative"]["longer_than_a_row"][9][0] == sum(
        1_199_999_999 - -(-9 * 1_199_999_999 // 10) for _ in range(6))


def test_a_plan_that_reads_past_a_document_or_one_not_yet_there_is_found_out():
    _, plan, stream, packing = audited("baseline", CASE_1B, [1] * 11, 11, 4, 4)
    for column, change in ((START, 30), (ARRIVAL, 11), (COUNT, -1), (COUNT, 1), (ROW, 1)):
        broken = plan.copy()
        broken[0, column] += change
        with pytest.raises(Unbalanced, match="cannot be"):
            Account(stream, packing, EDGES).follow([broken])
