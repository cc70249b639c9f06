"""The note's worked example comes out as the note has it, and the same view holds for any texts."""

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import InputError, read_json, write_json
from research.batch_boundaries import show_batch

BOS, EOS, PAD, X, Y, Z = 256, 257, 258, *map(ord, "xyz")
A, B = [BOS, X, Y, EOS], [BOS, Z, EOS]
NOTHING = -100


def note():
    return show_batch.record([np.array(A), np.array(B)], PAD)["views"]


def arrays(view):
    return {key: view[key] for key in ("inputs", "labels", "positions", "segment_ids")}


def test_the_padded_note_has_seven_of_eight_cells_and_five_targets():
    padded = note()["padded"]
    assert arrays(padded) == {
        "inputs": [A, [*B, PAD]],
        "labels": [[NOTHING, X, Y, EOS], [NOTHING, Z, EOS, NOTHING]],
        "positions": [[0, 1, 2, 3], [0, 1, 2, 0]],
        "segment_ids": [[0] * 4, [0, 0, 0, -1]],
    }
    assert padded["reads"] == [["1000", "1100", "1110", "1111"], ["1000", "1100", "1110", "0000"]]
    assert padded["counts"] == {"cells": 8, "non_padding": 7, "effective_targets": 5, "boundary_targets": 0,
                                "readable_pairs": 16}


def test_packed_independently_b_neither_reads_a_nor_is_predicted_by_it():
    packed = note()["independent"]
    assert arrays(packed) == {
        "inputs": [[*A, *B]],
        "labels": [[NOTHING, X, Y, EOS, NOTHING, Z, EOS]],
        "positions": [[0, 1, 2, 3, 0, 1, 2]],
        "segment_ids": [[0, 0, 0, 0, 1, 1, 1]],
    }
    assert packed["reads"][0][4:] == ["0000100", "0000110", "0000111"]
    assert packed["counts"]["effective_targets"] == 5 and packed["counts"]["readable_pairs"] == 10 + 6


def test_as_a_continuous_stream_the_next_bos_is_a_sixth_target_and_b_reads_a():
    packed = note()["continuous"]
    assert packed["labels"] == [[NOTHING, X, Y, EOS, BOS, Z, EOS]] and packed["positions"] == [list(range(7))]
    assert packed["reads"][0] == ["1" * n + "0" * (7 - n) for n in range(1, 8)]
    assert (packed["counts"]["effective_targets"], packed["counts"]["boundary_targets"]) == (6, 1)


def test_padding_with_the_id_of_eos_keeps_the_real_eos_a_target():
    """Case 13: padding is known by length; 6 targets, where ignoring by id would leave 4."""
    documents = [np.array([5, 6, 2]), np.array([7, 8, 9, 10, 2])]
    batch, _ = show_batch.views(documents, 8, 2)["padded"]
    assert batch.labels.tolist() == [[NOTHING, 6, 2, NOTHING, NOTHING], [NOTHING, 8, 9, 10, 2]]
    assert show_batch.effective_targets(batch) == 6


@given(st.lists(st.text(max_size=12), min_size=1, max_size=5), st.integers(0, 20))
def test_the_padded_and_the_independent_view_have_the_same_targets_and_pairs(texts, room):
    """Of any texts and row width; the continuous one adds a target for every document that follows another in a row."""
    documents = [show_batch.Bytes().encode(text) for text in texts]
    laid_out = show_batch.views(documents, max(map(len, documents)) + room, PAD)
    found = {name: show_batch.counts(view) for name, view in laid_out.items()}
    targets = sum(map(len, documents)) - len(documents)
    for name in ("padded", "independent"):
        assert found[name]["effective_targets"] == targets and found[name]["boundary_targets"] == 0
        assert found[name]["readable_pairs"] == sum(len(d) * (len(d) + 1) // 2 for d in documents)
    rows = len(laid_out["continuous"].batch.inputs)
    assert found["continuous"]["effective_targets"] == targets + len(documents) - rows
    assert found["continuous"]["boundary_targets"] == len(documents) - rows


def test_the_tables_show_tokens_documents_labels_and_what_is_read(tmp_path, capsys):
    assert show_batch.main(["--json", str(tmp_path / "batch_note.json")]) == 0
    printed = capsys.readouterr().out
    assert "7/8 = 87.5 %" in printed
    lines = [line.split() for line in printed.split("independent, row 0")[1].splitlines()]
    assert ["4", "256", "BOS", "B", "0", ".", "····■··"] in lines
    assert ["6", "257", "EOS", "B", "2", "EOS", "····■■■"] in lines
    frozen = read_json(tmp_path / "batch_note.json")
    assert frozen["documents"] == [A, B] and frozen["views"] == note()


@pytest.fixture
def tokenizer_folder(tmp_path):
    """A byte tokenizer with the one merge `ab` and one special token, as prepare.py writes it."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab"]
    (tmp_path / "ranks.txt").write_text("".join(f"{base64.b64encode(t).decode()} {r}\n" for r, t in enumerate(tokens)))
    settings = {"vocabulary": 258, "pattern": r"\S+|\s+", "specials": {"<|b|>": 257}, "bos": 257}
    write_json(tmp_path / "tokenizer.json", settings)
    return tmp_path


def test_a_prepared_tokenizer_is_used_and_special_text_stays_text(tokenizer_folder, capsys):
    """Case 32: a special token's name inside a document is ordinary text."""
    tokenizer = show_batch.PreparedTokenizer(tokenizer_folder)
    assert tokenizer.encode("ab").tolist() == [257, 256]
    assert tokenizer.encode("<|b|>").tolist() == [257, *b"<|b|>"]
    assert show_batch.main(["--text", "ab", "é\n", "--tokenizer", str(tokenizer_folder)]) == 0
    printed = capsys.readouterr().out
    assert "BOS" in printed and r"\xc3" in printed and r"\n" in printed and "EOS" not in printed


def test_a_row_too_narrow_and_an_eos_that_is_not_there_are_refused(tokenizer_folder):
    with pytest.raises(InputError, match=r"--width 3: documents\[0\]: expected 1..3 tokens, found 4"):
        show_batch.main(["--width", "3"])
    with pytest.raises(InputError, match="no EOS"):
        show_batch.main(["--tokenizer", str(tokenizer_folder), "--pad-is-eos"])
    with pytest.raises(InputError, match="absent"):
        show_batch.main(["--tokenizer", str(tokenizer_folder / "absent")])
