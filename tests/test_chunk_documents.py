"""Every way of cutting counts each token as a walk along the document does; totals say what is lost or repeated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import InputError, read_json
from research.batch_boundaries import chunk_documents
from research.batch_boundaries.chunk_documents import DESIGNS, account, one_document, total
from tiny import corpus as tiny_corpus

# Of the note's document, by hand: times an input, times a target.
NOTE = {
    "drop_rest": ([1] * 8 + [0, 0], [0, 1, 1, 1, 0, 1, 1, 1, 0, 0]),
    "pad_last": ([1] * 10, [0, 1, 1, 1, 0, 1, 1, 1, 0, 1]),
    "shared_boundary": ([1] * 9 + [0], [0] + [1] * 9),
    "overlapping": ([1, 1, 2, 2, 2, 2, 2, 2, 1, 1], [0, 1, 1, 2, 1, 2, 1, 2, 1, 1]),
    "overlapping_new": ([1, 1, 2, 2, 2, 2, 2, 2, 1, 1], [0] + [1] * 9),
}


def walk(design, length, block, stride):
    """(times an input, times a target) of each token, with lists and one window after the other."""
    tokens, inputs, targets = list(range(length)), [0] * length, [0] * length
    step = stride if design.startswith("overlapping") else block
    reach = block + (design == "shared_boundary")
    start = 0
    while True:
        window = tokens[start : start + reach]
        cut_short = design == "drop_rest" and len(window) < block
        if cut_short or not window or (design == "shared_boundary" and len(window) == 1):
            return inputs, targets
        for p in window[:-1] if design == "shared_boundary" else window:
            inputs[p] += 1
        for p in window[1:]:
            targets[p] += not (design == "overlapping_new" and targets[p])
        if design.startswith("overlapping") and window[-1] == length - 1:
            return inputs, targets
        start += step


def test_the_notes_document_counts_as_by_hand():
    found = one_document(10, 4, 2)["designs"]
    assert {design: (found[design]["times_input"], found[design]["times_target"]) for design in DESIGNS} == NOTE
    never = {design: found[design]["targets_never_scored"] for design in DESIGNS}
    assert never == {"drop_rest": 3, "pad_last": 2, "shared_boundary": 0, "overlapping": 0, "overlapping_new": 0}
    assert found["drop_rest"]["tokens_never_input"] == 2 and found["overlapping"]["targets_scored_more_than_once"] == 3


@given(st.integers(1, 60), st.integers(2, 12), st.data())
def test_every_count_is_that_of_a_walk_along_the_document(length, block, data):
    stride = data.draw(st.integers(1, block - 1))
    found = one_document(length, block, stride)["designs"]
    for design in DESIGNS:
        inputs, targets = walk(design, length, block, stride)
        counts = found[design]
        assert (counts["times_input"], counts["times_target"]) == (inputs, targets)
        assert counts["scorings"] == sum(targets) and counts["targets"] == length - 1
        assert counts["targets_never_scored"] == targets[1:].count(0)
        assert counts["targets_scored_once"] == targets.count(1)
        assert counts["targets_scored_more_than_once"] == sum(n > 1 for n in targets)
        assert counts["tokens_never_input"] == inputs.count(0)
        assert counts["positions"] - counts["padding"] == sum(inputs) and counts["padding"] >= 0
        assert counts["documents_with_last_token_never_scored"] == (length > 1 and targets[-1] == 0)


@given(st.integers(2, 80), st.integers(2, 12))
def test_overlapping_by_one_token_is_the_shared_boundary(length, block):
    """Windows of T + 1 tokens sharing one score what windows of T + 1 at stride T do."""
    shared, overlap = one_document(length, block, 1), one_document(length, block + 1, block)
    assert shared["designs"]["shared_boundary"]["times_target"] == overlap["designs"]["overlapping"]["times_target"]


@given(st.integers(2, 80), st.integers(2, 12))
def test_the_whole_prefix_is_seen_in_the_first_window_alone(length, block):
    for design, first in {"pad_last": block - 1, "shared_boundary": block}.items():
        assert account(design, length, block, 1)["targets_with_whole_prefix"] == min(first, length - 1)


def test_a_corpus_is_the_sum_of_its_documents():
    lengths = np.random.default_rng(3).integers(1, 40, 200).tolist()
    histogram = chunk_documents.lengths_histogram(np.array(lengths))
    for design in DESIGNS:
        each = [account(design, length, 8, 4) for length in lengths]
        assert total(design, histogram, 8, 4) == {key: sum(counts[key] for counts in each) for key in each[0]}


def test_a_study_is_counted_from_its_lengths_and_frozen(tmp_path, capsys):
    folder = tmp_path / "data/demo/train"
    folder.mkdir(parents=True)
    np.save(folder / "lengths.npy", np.array([10, 600, 1300, 10]))
    tiny_corpus.list_prepared(folder.parent)
    arguments = ["--study", "demo", "--data", str(tmp_path / "data"), "--json", str(tmp_path / "chunking_demo.json")]
    assert chunk_documents.main(arguments) == 0 == chunk_documents.main(arguments)
    frozen = read_json(tmp_path / "chunking_demo.json")
    assert frozen["histogram"] == {"10": 2, "600": 1, "1300": 1} and frozen["block"] == 512
    assert frozen["designs"]["drop_rest"]["tokens_never_input"] == 10 + 10 + 88 + 276
    assert frozen["inputs"][0]["path"] == "data/demo/train/lengths.npy"
    np.save(folder / "lengths.npy", np.array([10, 600, 1301, 10]))
    with pytest.raises(InputError, match="lengths.npy: SHA-256 differs"):
        chunk_documents.main(arguments)
    tiny_corpus.list_prepared(folder.parent)
    with pytest.raises(InputError, match="frozen"):
        chunk_documents.main(arguments)
    assert "never scored" in capsys.readouterr().out


def test_lengths_of_ones_own_give_the_same_totals_and_write_nothing(tmp_path, capsys):
    np.save(tmp_path / "lengths.npy", np.array([10]))
    assert chunk_documents.main(["--lengths", str(tmp_path / "lengths.npy")]) == 0
    totals = capsys.readouterr().out
    assert chunk_documents.main(["--length", "10"]) == 0
    assert capsys.readouterr().out.endswith(totals)
    assert [path.name for path in tmp_path.iterdir()] == ["lengths.npy"]


@pytest.mark.parametrize("arguments", [["--block", "1"], ["--block", "4", "--stride", "4"], ["--stride", "0"],
                                       ["--length", "-3"], ["--length", "0"], ["--study", "nothing"],
                                       ["--lengths", "absent.npy"]])
def test_what_cannot_be_cut_is_refused_by_name(arguments):
    with pytest.raises(InputError, match=arguments[-1] if arguments[0] != "--length" else "lengths above 0"):
        chunk_documents.main(arguments)
