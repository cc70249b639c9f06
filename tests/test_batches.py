"""Batches hold every document's tokens, label each target once at its own input, and know padding by length alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders import accounting, batches, best_fit_crop, concatenated, document_masked, padded, rows
from loaders import ledger as books
from loaders.batches import IGNORED, PADDING
from research.batch_boundaries import grouping, layouts
from tiny.streams import streams

A, B = np.array([1, 11, 12, 2]), np.array([1, 21, 2])


def slow_batch(rows, width, pad, independent):
    """Batch of rows of documents, token by token."""
    inputs, labels, positions, segments = [], [], [], []
    for row in rows:
        ids = [token for document in row for token in document]
        place = [(number, n) for number, document in enumerate(row) for n in range(len(document))]
        empty = width - len(ids)
        scored = [n > 0 if independent else column > 0 for column, (_, n) in enumerate(place)]
        inputs.append(ids + [pad] * empty)
        labels.append([token if kept else IGNORED for token, kept in zip(ids, scored)] + [IGNORED] * empty)
        positions.append([n if independent else column for column, (_, n) in enumerate(place)] + [0] * empty)
        segments.append([number for number, _ in place] + [PADDING] * empty)
    return inputs, labels, positions, segments


DOCUMENTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6).map(np.array), min_size=1, max_size=8)


@settings(max_examples=200)
@given(documents=DOCUMENTS, spare=st.integers(0, 9), pad=st.integers(0, 3), independent=st.booleans())
def test_packing_puts_whole_documents_in_order_and_labels_them_as_a_loop_does(documents, spare, pad, independent):
    width, rows = 6 + spare, [[]]
    for document in documents:
        if sum(map(len, rows[-1])) + len(document) > width:
            rows.append([])
        rows[-1].append(document.tolist())
    batch = layouts.pack_documents(documents, width, pad=pad, independent=independent)
    assert tuple(array.tolist() for array in batch) == slow_batch(rows, width, pad, independent)
    assert all(array.dtype == np.int64 for array in batch)


@settings(max_examples=200)
@given(documents=DOCUMENTS, pad=st.integers(0, 3))
def test_padding_puts_one_document_a_row_as_wide_as_the_longest(documents, pad):
    batch = layouts.pad_documents(documents, pad=pad)
    expected = slow_batch([[d.tolist()] for d in documents], max(map(len, documents)), pad, True)
    assert tuple(array.tolist() for array in batch) == expected
    assert layouts.effective_targets(batch) == sum(len(d) - 1 for d in documents)


def test_the_notes_two_documents_have_five_targets_padded_and_packed_and_six_as_one_stream():
    padded, packed = layouts.pad_documents([A, B], pad=0), layouts.pack_documents([A, B], 7, pad=0)
    assert (padded.segment_ids != PADDING).mean() == 7 / 8
    assert [layouts.effective_targets(batch) for batch in (padded, packed)] == [5, 5]
    assert packed.positions.tolist() == [[0, 1, 2, 3, 0, 1, 2]]
    assert packed.labels.tolist() == [[IGNORED, 11, 12, 2, IGNORED, 21, 2]]
    stream = layouts.pack_documents([A, B], 7, pad=0, independent=False)
    assert stream.labels.tolist() == [[IGNORED, 11, 12, 2, 1, 21, 2]] and stream.positions.tolist() == [list(range(7))]
    assert layouts.effective_targets(stream) == 6 and stream.segment_ids.tolist() == packed.segment_ids.tolist()


def test_case_13_a_real_end_marker_stays_a_target_when_padding_has_its_id():
    batch = layouts.pad_documents([np.array([5, 6, 2]), np.array([7, 8, 9, 10, 2])], pad=2, width=6)
    assert batch.inputs.tolist() == [[5, 6, 2, 2, 2, 2], [7, 8, 9, 10, 2, 2]]
    assert batch.labels[:, 1:].tolist() == [[6, 2, *[IGNORED] * 3], [8, 9, 10, 2, IGNORED]]
    assert (batch.segment_ids != PADDING).sum(1).tolist() == [3, 5] and layouts.effective_targets(batch) == 6
    middle = layouts.pad_documents([np.array([5, 2, 6])], pad=2)
    assert middle.labels.tolist() == [[IGNORED, 2, 6]]


def test_case_14_the_shift_stops_at_a_packed_boundary():
    batch = layouts.pack_documents([np.array([1, 11, 12]), np.array([1, 21, 22, 23])], 7, pad=0)
    _, targets, positions, segments = batches.shifted(batch)
    assert targets.tolist() == [[11, 12, IGNORED, 21, 22, 23]]
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1, 2, 3]] and layouts.effective_targets(batch) == 5
    assert positions.shape == segments.shape == (1, 6)
    assert layouts.allowed(batch).sum() == 6 + 10
    assert layouts.allowed(batch, independent=False).sum() == 28


@settings(max_examples=100)
@given(documents=DOCUMENTS, spare=st.integers(0, 4))
def test_a_query_reads_earlier_tokens_of_its_own_document_and_no_padding(documents, spare):
    batch = layouts.pack_documents(documents, 6 + spare, pad=0)
    found = layouts.allowed(batch)
    for row, ids in enumerate(batch.segment_ids.tolist()):
        expected = [[j <= i and ids[i] == ids[j] != -1 for j in range(len(ids))] for i in range(len(ids))]
        assert found[row].tolist() == expected


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int32])
def test_ignored_labels_survive_unsigned_ids(dtype):
    batch = layouts.pack_documents([A.astype(dtype), B.astype(dtype)], 8, pad=0)
    assert batch.labels.tolist() == [[IGNORED, 11, 12, 2, IGNORED, 21, 2, IGNORED]]


def test_a_second_shift_is_detected_with_its_row_and_position():
    batch = layouts.pack_documents([A, B], 7, pad=0)
    layouts.require_unshifted(batch)
    inputs, targets, *rest = batches.shifted(batch)
    with pytest.raises(ValueError, match=r"labels\[0, 0\]: 11 on input 1: every label is the next input: shifted al"):
        layouts.require_unshifted(batches.Batch(inputs, targets, *rest))
    wrong = batch._replace(labels=np.where(batch.inputs == 12, 99, batch.labels))
    with pytest.raises(ValueError, match=r"labels\[0, 2\]: 99 on input 12: not its own"):
        layouts.require_unshifted(wrong)


@pytest.mark.parametrize(("documents", "text"), [
    ([A, np.arange(8)], r"documents\[1\]: expected 1..7 tokens, found 8"),
    ([A[:0]], r"documents\[0\]: expected 1..7 tokens, found 0"),
    ([], "at least one"),
])
def test_documents_that_fit_no_row_are_refused_by_number(documents, text):
    for make in (lambda: layouts.pack_documents(documents, 7, pad=0),
                 lambda: layouts.pad_documents(documents, pad=0, width=7)):
        with pytest.raises(ValueError, match=text):
            make()


# ------------------------------------------------------------------------------------------- loaders

NEW = pytest.mark.parametrize("loader", [concatenated, padded])


def slow_rows(loader, lengths, capacity, count):
    """Rows of (arrival, token of the document), written from the rule in words over real tokens."""
    found, arrival, pending = [], 0, []
    while len(found) < count:
        document = [(arrival, n) for n in range(lengths[arrival % len(lengths)])]
        arrival += 1
        pending = pending + document if loader is concatenated else document
        while len(pending) >= capacity:
            found.append(pending[:capacity])
            pending = pending[capacity - 1 :]
        if loader is padded and (len(pending) > 1 or len(document) == 1):
            found.append(pending)
    return found[:count]


def expand(plan):
    found = [[] for _ in range(plan[-1, 0] + 1)] if len(plan) else []
    for row, arrival, bos, start, count in plan.tolist():
        found[row] += [(arrival, 0)] * bos + [(arrival, start + 1 + n) for n in range(count)]
    return found


@NEW
@settings(max_examples=300)
@given(world=streams())
def test_rows_in_order_equal_a_loop_over_tokens_and_score_every_target_once(loader, world):
    lengths, sizes = world
    plan = loader.plan(lengths, **sizes)
    assert plan.dtype == np.int64 and plan.flags.c_contiguous
    found = expand(plan)
    assert found == slow_rows(loader, lengths, sizes["capacity"], sizes["rows"])
    scored = [token for row in found for token in row[1:]]
    assert len(scored) == len(set(scored))
    if found:
        last = found[-1][-1]
        every = [(a, n) for a in range(last[0] + 1) for n in range(lengths[a % len(lengths)]) if (a, n) <= last]
        unscored = range(1 if loader is concatenated else last[0] + 1)
        assert set(every) - set(scored) == {(arrival, 0) for arrival in unscored}


@NEW
@settings(max_examples=200)
@given(world=streams())
def test_the_ledger_counts_shared_tokens_apart_and_balances(loader, world):
    lengths, sizes = world
    plan = loader.plan(lengths, **sizes)
    known = {key: sizes[key] for key in ("capacity", "buffer_size")}
    ledger = books.ledger(plan, lengths, sizes["refill"], loader=loader.LOADER, **known)
    tokens, documents = ledger["tokens"], ledger["documents"]
    seen = [token for row in expand(plan) for token in row]
    assert tokens["emitted"] == len(seen) and tokens["repeated"] == len(seen) - len(set(seen))
    assert tokens["discarded"] == 0 and tokens["arrived"] == len(set(seen)) + tokens["buffered"]
    assert documents["arrived"] == sum(documents[state] for state in ("unstarted", "whole", "cropped", "split"))
    if len(plan) > 1:
        torn = plan.copy()
        torn[len(plan) // 2, accounting.START] += 1
        with pytest.raises(ValueError, match="does not balance"):
            books.ledger(torn, lengths, sizes["refill"], loader=loader.LOADER, **known)


def test_case_9c_overlapping_rows_have_every_later_token_as_a_target_once():
    plan = concatenated.plan([13], capacity=5, rows=3, buffer_size=1, refill=[1])
    assert expand(plan) == [[(0, n) for n in range(k, k + 5)] for k in (0, 4, 8)]
    assert accounting.row_targets(plan, independent=False).tolist() == [4, 4, 4]


def test_masked_documents_lie_in_the_baselines_rows():
    world = {"capacity": 11, "rows": 40, "buffer_size": 4, "refill": [5]}
    lengths = [9, 30, 14, 20, 6]
    assert np.array_equal(document_masked.plan(lengths, **world), best_fit_crop.plan(lengths, **world))


@settings(max_examples=200)
@given(world=streams(), data=st.data())
def test_planned_targets_are_those_of_the_batches_read(world, data):
    """The divisor of an update comes from the plan; the labels that are scored come from the rows."""
    loader = data.draw(st.sampled_from([document_masked, padded]))
    lengths, sizes = world
    plan, text = loader.plan(lengths, **sizes), np.arange(sum(lengths) - len(lengths), dtype=np.uint16)
    reader = rows.RowReader(plan, text, lengths, 60_000, sizes["capacity"])
    planned = accounting.row_targets(plan, independent=True)
    assert len(planned) == sizes["rows"]
    for row in range(sizes["rows"]):
        ids, *arrays = rows.document_rows(reader, row, row + 1, independent=True, width=None)
        scored = arrays[1][arrays[1] != IGNORED]
        assert len(scored) == planned[row] and (scored < 60_000).all()
        assert all(array.shape == (1, max(1, len(ids) - 1)) for array in arrays)


def test_grouping_by_length_pads_less_and_reports_its_bias():
    lengths = [3, 40, 5, 38, 4, 41, 6, 39]
    plan = padded.plan(lengths, capacity=50, rows=8, buffer_size=1, refill=[8])
    grouped = grouping.grouped(plan, 8)
    assert grouped[:, accounting.ARRIVAL].tolist() == [0, 4, 2, 6, 3, 7, 1, 5]
    assert grouped[:, accounting.ROW].tolist() == list(range(8))
    bias = grouping.order_bias(plan, 8, 2)
    assert bias["padding"] == [[140, 316], [4, 180]] and bias["moved"] == 6
    before, after = bias["place_length_correlation"]
    assert before < 0.5 and after > 0.85
    assert grouping.order_bias(plan, 1, 2)["moved"] == 0
    alike = padded.plan([4, 4], capacity=5, rows=2, buffer_size=1, refill=[2])
    assert grouping.order_bias(alike, 2, 2)["place_length_correlation"] == [None, None]
