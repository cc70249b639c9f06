"""Prepared data are read as prepare.py wrote them, or the error names the file and what to do."""

import numpy as np
import pytest

from corpora.prepared import Prepared, read_counts
from evidence import InputError, read_json, sha256_file, write_json
from tiny import corpus as tiny_corpus


@pytest.fixture
def root(tmp_path):
    write_json(tmp_path / "protocols/tiny.json", tiny_corpus.protocol())
    tiny_corpus.write_corpus(tmp_path / "data", "tiny")
    return tmp_path


def test_the_arrays_of_a_split_fit_each_other(root):
    prepared = Prepared(root, "tiny")
    lengths, offsets, tokens = prepared.lengths("train"), prepared.offsets("train"), prepared.tokens("train")
    assert lengths.dtype == prepared.refill("train").dtype == np.int64 and len(lengths) == 90
    assert prepared.refill("train").sum() == 90 and offsets[-1] == len(tokens)
    assert (np.diff(offsets) + 1).tolist() == lengths.tolist()
    assert prepared.bos == tiny_corpus.BOS
    assert [len(table) for table in prepared.byte_tables] == [tiny_corpus.VOCABULARY] * 2


def test_rows_are_those_of_the_protocol(root):
    prepared = Prepared(root, "tiny")
    assert (prepared.capacity, prepared.training_rows, prepared.scored_rows) == (33, 12 * 2 * 2, 24)


def test_inputs_are_named_as_in_the_repository_wherever_the_data_lie(root):
    (root / "data").rename(root / "elsewhere")
    write_json(root / "other.json", tiny_corpus.protocol())
    prepared = Prepared(root, root / "other.json", root / "elsewhere")
    file = root / "elsewhere/tiny/train/lengths.npy"
    assert prepared.inputs(["train/lengths.npy"], [prepared.protocol_path]) == [
        {"path": "data/tiny/train/lengths.npy", "sha256": sha256_file(file)},
        {"path": "protocols/other.json", "sha256": sha256_file(root / "other.json")}]


def test_a_study_that_is_not_prepared_is_told_how(root):
    (root / "data/tiny/prepared.json").unlink()
    with pytest.raises(InputError, match="prepared.json: missing; run `python prepare.py --study tiny`"):
        Prepared(root, "tiny")


@pytest.mark.parametrize("name", ["train/lengths.npy", "train/refill.npy", "train/tokens.npy",
                                  "tokenizer/tokenizer.json", "tokenizer/bytes_raw.npy"])
def test_a_changed_byte_is_found(root, name):
    path = root / "data/tiny" / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    prepared = Prepared(root, "tiny")
    readers = {"train/lengths.npy": lambda: prepared.lengths("train"),
               "train/refill.npy": lambda: prepared.refill("train"),
               "train/tokens.npy": lambda: prepared.tokens("train"),
               "tokenizer/tokenizer.json": lambda: prepared.bos,
               "tokenizer/bytes_raw.npy": lambda: prepared.byte_tables}
    with pytest.raises(InputError, match=f"{path}: SHA-256 differs"):
        readers[name]()


def test_a_file_without_a_digest_is_named(root):
    listing = root / "data/tiny/prepared.json"
    files = read_json(listing)["files"]
    del files["train/refill.npy"]
    write_json(listing, {"files": files})
    with pytest.raises(InputError, match="prepared.json: files: no SHA-256 of train/refill.npy"):
        Prepared(root, "tiny").refill("train")


@pytest.mark.parametrize("name, reader", [("refill", Prepared.refill), ("tokens", Prepared.tokens)])
def test_arrays_that_do_not_fit_the_lengths_are_refused(root, name, reader):
    path = root / f"data/tiny/train/{name}.npy"
    np.save(path, np.load(path)[:-1])
    tiny_corpus.list_prepared(root / "data/tiny")
    with pytest.raises(InputError, match=f"{name}.npy: expected .* found"):
        reader(Prepared(root, "tiny"), "train")


@pytest.mark.parametrize("values", [[1, 0, 2], [-1], [], [[1]], [1.0], [1 << 31]])
def test_counts_that_are_no_positive_integers_are_refused(tmp_path, values):
    np.save(tmp_path / "lengths.npy", np.array(values, None if values else np.int64))
    with pytest.raises(InputError, match="lengths.npy: .*expected"):
        read_counts(tmp_path / "lengths.npy")


def test_a_file_of_counts_that_is_no_array_is_named(tmp_path):
    (tmp_path / "lengths.txt").write_text("1\n2\n")
    with pytest.raises(InputError, match="lengths.txt: not a readable .npy"):
        read_counts(tmp_path / "lengths.txt")


def test_a_file_of_counts_whose_header_claims_more_than_fits_is_named(tmp_path):
    with open(tmp_path / "lengths.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**13,)})
        file.write(bytes(80))
    with pytest.raises(InputError, match="lengths.npy: not a readable .npy"):
        read_counts(tmp_path / "lengths.npy")
