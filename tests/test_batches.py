"""Batches hold every document's tokens, label each target once at its own input, and know padding by length alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders import batches
from loaders.batches import IGNORED, PADDING

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


@settings(max_examples=200, deadline=None)
@given(documents=DOCUMENTS, spare=st.integers(0, 9), pad=st.integers(0, 3), independent=st.booleans())
def test_packing_puts_whole_documents_in_order_and_labels_them_as_a_loop_does(documents, spare, pad, independent):
    width, rows = 6 + spare, [[]]
    for document in documents:
        if sum(map(len, rows[-1])) + len(document) > width:
            rows.append([])
        rows[-1].append(document.tolist())
    batch = batches.pack_documents(documents, width, pad=pad, independent=independent)
    assert tuple(array.tolist() for array in batch) == slow_batch(rows, width, pad, independent)
    assert all(array.dtype == np.int64 for array in batch)


@settings(max_examples=200, deadline=None)
@given(documents=DOCUMENTS, pad=st.integers(0, 3))
def test_padding_puts_one_document_a_row_as_wide_as_the_longest(documents, pad):
    batch = batches.pad_documents(documents, pad=pad)
    expected = slow_batch([[d.tolist()] for d in documents], max(map(len, documents)), pad, True)
    assert tuple(array.tolist() for array in batch) == expected
    assert batches.effective_targets(batch) == sum(len(d) - 1 for d in documents)


def test_the_notes_two_documents_have_five_targets_padded_and_packed_and_six_as_one_stream():
    padded, packed = batches.pad_documents([A, B], pad=0), batches.pack_documents([A, B], 7, pad=0)
    assert (padded.segment_ids != PADDING).mean() == 7 / 8
    assert [batches.effective_targets(batch) for batch in (padded, packed)] == [5, 5]
    assert packed.positions.tolist() == [[0, 1, 2, 3, 0, 1, 2]]
    assert packed.labels.tolist() == [[IGNORED, 11, 12, 2, IGNORED, 21, 2]]
    stream = batches.pack_documents([A, B], 7, pad=0, independent=False)
    assert stream.labels.tolist() == [[IGNORED, 11, 12, 2, 1, 21, 2]] and stream.positions.tolist() == [list(range(7))]
    assert batches.effective_targets(stream) == 6 and stream.segment_ids.tolist() == packed.segment_ids.tolist()


def test_case_13_a_real_end_marker_stays_a_target_when_padding_has_its_id():
    batch = batches.pad_documents([np.array([5, 6, 2]), np.array([7, 8, 9, 10, 2])], pad=2, width=6)
    assert batch.inputs.tolist() == [[5, 6, 2, 2, 2, 2], [7, 8, 9, 10, 2, 2]]
    assert batch.labels[:, 1:].tolist() == [[6, 2, *[IGNORED] * 3], [8, 9, 10, 2, IGNORED]]
    assert (batch.segment_ids != PADDING).sum(1).tolist() == [3, 5] and batches.effective_targets(batch) == 6
    middle = batches.pad_documents([np.array([5, 2, 6])], pad=2)
    assert middle.labels.tolist() == [[IGNORED, 2, 6]]


def test_case_14_the_shift_stops_at_a_packed_boundary():
    batch = batches.pack_documents([np.array([1, 11, 12]), np.array([1, 21, 22, 23])], 7, pad=0)
    _, targets, positions, segments = batches.shifted(batch)
    assert targets.tolist() == [[11, 12, IGNORED, 21, 22, 23]]
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1, 2, 3]] and batches.effective_targets(batch) == 5
    assert positions.shape == segments.shape == (1, 6)
    assert batches.allowed(batch).sum() == 6 + 10
    assert batches.allowed(batch, independent=False).sum() == 28


@settings(max_examples=100, deadline=None)
@given(documents=DOCUMENTS, spare=st.integers(0, 4))
def test_a_query_reads_earlier_tokens_of_its_own_document_and_no_padding(documents, spare):
    batch = batches.pack_documents(documents, 6 + spare, pad=0)
    found = batches.allowed(batch)
    for row, ids in enumerate(batch.segment_ids.tolist()):
        expected = [[j <= i and ids[i] == ids[j] != -1 for j in range(len(ids))] for i in range(len(ids))]
        assert found[row].tolist() == expected


@settings(max_examples=100, deadline=None)
@given(documents=DOCUMENTS, spare=st.integers(0, 4))
def test_labels_shifted_outside_come_back_with_the_same_targets(documents, spare):
    inputs, targets, positions, segments = batches.shifted(batches.pack_documents(documents, 6 + spare, pad=0))
    batch = batches.from_shifted_targets(inputs, targets, positions, segments, pad=0)
    batches.require_unshifted(batch)
    again = batches.shifted(batch)
    assert all(np.array_equal(one, two) for one, two in zip(again, (inputs, targets, positions, segments)))
    assert batches.effective_targets(batch) == np.count_nonzero(targets != IGNORED)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int32])
def test_ignored_labels_survive_unsigned_ids(dtype):
    batch = batches.pack_documents([A.astype(dtype), B.astype(dtype)], 8, pad=0)
    assert batch.labels.tolist() == [[IGNORED, 11, 12, 2, IGNORED, 21, 2, IGNORED]]


def test_labels_that_were_not_shifted_are_refused_as_shifted_targets():
    batch = batches.pack_documents([A, B], 7, pad=0)
    with pytest.raises(ValueError, match=r"targets\[0, 1\]: 11, but the next input is 12"):
        batches.from_shifted_targets(batch.inputs, batch.labels, batch.positions, batch.segment_ids, pad=0)


def test_a_second_shift_is_detected_with_its_row_and_position():
    batch = batches.pack_documents([A, B], 7, pad=0)
    batches.require_unshifted(batch)
    inputs, targets, *rest = batches.shifted(batch)
    with pytest.raises(ValueError, match=r"labels\[0, 0\]: 11 on input 1: every label is the next input: shifted al"):
        batches.require_unshifted(batches.Batch(inputs, targets, *rest))
    wrong = batch._replace(labels=np.where(batch.inputs == 12, 99, batch.labels))
    with pytest.raises(ValueError, match=r"labels\[0, 2\]: 99 on input 12: not its own"):
        batches.require_unshifted(wrong)


@pytest.mark.parametrize(("documents", "text"), [
    ([A, np.arange(8)], r"documents\[1\]: expected 1..7 tokens, found 8"),
    ([A[:0]], r"documents\[0\]: expected 1..7 tokens, found 0"),
    ([], "at least one"),
])
def test_documents_that_fit_no_row_are_refused_by_number(documents, text):
    for make in (lambda: batches.pack_documents(documents, 7, pad=0),
                 lambda: batches.pad_documents(documents, pad=0, width=7)):
        with pytest.raises(ValueError, match=text):
            make()
