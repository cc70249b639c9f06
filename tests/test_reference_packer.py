"""The reference packer does what was worked out by hand, and what the rule in words does on unsorted lists."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.reference_packer import ReferencePacker, pieces
from research.theorem.packers import UnsortedPacker

BOTH = pytest.mark.parametrize("packer_type", [ReferencePacker, UnsortedPacker])
# Ten documents, and one of 1,000 tokens in place of the end of the stream: it fills the buffer and is never chosen.
TEN_DOCUMENTS = [9, 30, 14, 20, 6, 5, 12, 3, 25, 4, 1000]


@st.composite
def streams(draw):
    """(lengths, refill, settings) of a small stream with many equal lengths."""
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=14))
    cuts = sorted(draw(st.sets(st.integers(1, len(lengths) - 1)))) if len(lengths) > 1 else []
    refill = np.diff([0, *cuts, len(lengths)]).tolist()
    return lengths, refill, {"capacity": draw(st.integers(2, 16)), "buffer_size": draw(st.integers(1, 8))}


def rows_of(packer_type, lengths, refill, capacity, buffer_size, rows, lossless=False):
    """The first rows, each a list of (document, bos, text start, text tokens)."""
    packer = packer_type(lengths, refill, capacity=capacity, buffer_size=buffer_size, lossless=lossless)
    table = [[] for _ in range(rows)]
    while packer.row < rows:
        packer.refill()
        row, *segment = packer.select()
        table[row].append(tuple(segment[:4]))
    return table


@BOTH
def test_the_shortest_document_is_cropped_when_none_fits(packer_type):
    """Space 7, lengths 23, 12, 9, 31: the 9 gives 7 tokens and loses 2."""
    packer = packer_type([23, 12, 9, 31], [4], capacity=7, buffer_size=4)
    packer.refill()
    assert packer.select() == (0, 2, 1, 0, 6, 2)


@BOTH
def test_four_rows_worked_by_hand_are_packed(packer_type):
    """Capacity 11, buffer 4, one document a batch."""
    table = rows_of(packer_type, TEN_DOCUMENTS, [1] * 11, 11, 4, 4)
    assert [[(document, bos + count) for document, bos, _, count in row] for row in table] == [
        [(0, 9), (4, 2)], [(5, 5), (6, 6)], [(7, 3), (2, 8)], [(9, 4), (3, 7)]]


@BOTH
def test_lossless_continuation_emits_every_token_once_and_in_order(packer_type):
    """Lengths 7, 3, 5, 1 in rows of 4, all buffered at once: four full rows and no token lost."""
    table = rows_of(packer_type, [7, 3, 5, 1], [4], 4, 1, 4, lossless=True)
    assert table == [[(1, 1, 0, 2), (3, 1, 0, 0)], [(2, 1, 0, 3)], [(2, 0, 3, 1), (0, 1, 0, 2)], [(0, 0, 2, 4)]]


@BOTH
def test_a_continued_document_keeps_its_place_among_equals(packer_type):
    """The first document of 5 leaves 2 tokens; they go before a document of 2 that arrived later."""
    packer = packer_type([5, 9, 2], [2, 1], capacity=3, buffer_size=2, lossless=True)
    packer.refill()
    assert packer.select() == (0, 0, 1, 0, 2, 2)
    packer.buffer_size = 3
    packer.refill()
    assert packer.select() == (1, 0, 0, 2, 2, 0)


@settings(max_examples=400)
@given(stream=streams(), lossless=st.booleans())
def test_both_packers_select_and_buffer_the_same_at_every_step(stream, lossless):
    lengths, refill, sizes = stream
    fast, slow = (kind(lengths, refill, lossless=lossless, **sizes) for kind in (ReferencePacker, UnsortedPacker))
    for _ in range(60):
        fast.refill()
        slow.refill()
        assert (fast.arrived, fast.buffered()) == (slow.arrived, slow.buffered())
        assert fast.select() == slow.select() and (fast.row, fast.space) == (slow.row, slow.space)


@settings(max_examples=200)
@given(stream=streams())
def test_chunks_are_packed_as_documents_of_their_own(stream):
    """A corpus whose documents were cut beforehand gives the same rows, chunk for chunk."""
    lengths, refill, sizes = stream
    capacity, ends = sizes["capacity"], np.cumsum(refill)
    cut = [list(pieces(n, capacity)) if n > capacity else [(0, n)] for n in lengths]
    flat = [(document, start, n) for document, parts in enumerate(cut) for start, n in parts]
    batches = [sum(map(len, cut[end - size:end])) for size, end in zip(refill, ends.tolist(), strict=True)]
    chunked = ReferencePacker(lengths, refill, chunk=True, **sizes)
    plain = ReferencePacker([n for _, _, n in flat], batches, **sizes)
    for (row, arrival, bos, start, count, rest), other in zip(
            chunked.select_rows(9), plain.select_rows(9), strict=True):
        passes, place = divmod(other[1], len(flat))
        document, first, _ = flat[place]
        assert (row, arrival, bos, start) == (other[0], passes * len(lengths) + document, 1, first)
        assert (count, rest) == other[4:]


def test_pieces_of_a_document_share_out_its_text():
    assert list(pieces(10, 4)) == [(0, 4), (3, 4), (6, 4)] and list(pieces(5, 4)) == [(0, 4), (3, 2)]
    assert list(pieces(1, 4)) == [(0, 1)]


@settings(max_examples=100)
@given(stream=streams(), lossless=st.booleans())
def test_equal_states_have_equal_futures(stream, lossless):
    lengths, refill, sizes = stream
    packer, following = ReferencePacker(lengths, refill, lossless=lossless, **sizes), {}
    for _ in range(40):
        state, emitted = packer.state(), []
        for _ in refill:
            packer.arrive()
            while len(packer.keys) >= packer.buffer_size:
                _, arrival, *rest = packer.select()
                emitted.append((arrival % len(lengths), *rest))
        assert following.setdefault(state, emitted) == emitted
