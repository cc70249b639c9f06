"""A tokenizer loses nothing: it trains to the same bytes, gives every text back, and counts the bytes of the source."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.shards import write_shard
from corpora.tokenizer import (
    build_tokenizer,
    format_ranks,
    load_encoding,
    make_encoding,
    read_tokenizer,
    train_ranks,
    training_texts,
)
from corpora.tokens import encode_text
from evidence import InputError

PAPER = json.loads((Path(__file__).resolve().parents[1] / "protocols/climbmix.json").read_text())["tokenizer"]
TOKENIZER = PAPER | {"vocabulary": 330}
PATTERN, SPECIALS = TOKENIZER["pattern"], TOKENIZER["specials"]
WORDS = ["the", " packer", " packs", " rows", " of", " tokens", ", 123", "é", " naïve", "\n\n", " 中文", "!?", "ing"]
TEXTS = ["".join(WORDS[(i * j + i // 3) % len(WORDS)] for j in range(1, 40)) for i in range(1, 60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer(folder, lambda: train_ranks(TEXTS, TOKENIZER), TOKENIZER)
    return folder


@pytest.fixture(scope="module")
def encoding(folder):
    return load_encoding(folder, "key")


def test_training_again_gives_the_same_bytes(folder, tmp_path):
    build_tokenizer(tmp_path, lambda: train_ranks(iter(TEXTS), TOKENIZER), TOKENIZER)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["bytes_raw.npy", "bytes_supplied.npy", "ranks.txt", "tokenizer.json"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_the_256_bytes_come_first_and_the_specials_last(folder):
    ranks, document = read_tokenizer(folder)
    assert [bytes([byte]) for byte in range(256)] == sorted(ranks, key=ranks.get)[:256]
    assert sorted(ranks.values()) == list(range(TOKENIZER["vocabulary"] - len(SPECIALS)))
    assert document["specials"] == {name: len(ranks) + index for index, name in enumerate(SPECIALS)}
    assert document["bos"] == len(ranks)


def slow_encode(ranks, text):
    """Reference: in every piece of the split, merge the leftmost neighbours of lowest rank until none can be."""
    ids = []
    for piece in regex.findall(PATTERN, text):
        parts = [bytes([byte]) for byte in piece.encode()]
        while joined := [(ranks[a + b], at) for at, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in ranks]:
            at = min(joined)[1]
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        ids += [ranks[part] for part in parts]
    return ids


@settings(max_examples=150)
@given(text=st.one_of(st.text(), st.lists(st.sampled_from([*WORDS, *SPECIALS, " ", "\r\n", "\u2028"])).map("".join)))
def test_every_text_is_encoded_as_the_slow_reference_does_and_decodes_to_itself(folder, encoding, text):
    ids = encode_text(encoding, text, "here")
    assert ids == slow_encode(read_tokenizer(folder)[0], text)
    assert encoding.decode_bytes(ids) == text.encode()


@pytest.mark.parametrize("text, size", [("a<|endoftext|>b", 15), *((f"a{name}b", len(name) + 2) for name in SPECIALS)])
def test_special_token_text_in_a_document_is_ordinary_text(folder, encoding, text, size):
    """Case 32."""
    ids = encode_text(encoding, text, "here")
    assert max(ids) < TOKENIZER["vocabulary"] - len(SPECIALS)
    assert np.load(folder / "bytes_raw.npy")[ids].sum() == len(text) == size


@pytest.mark.parametrize("text, size", [("Straße ﬁn", 12), ("e\u0301", 3), ("a b", 3), ("", 0), ("\ufeffy", 4)])
def test_bytes_are_those_of_the_source_not_of_a_normalised_text(folder, encoding, text, size):
    """Case 25."""
    ids = encode_text(encoding, text, "here")
    assert np.load(folder / "bytes_raw.npy")[ids].sum() == size == len(text.encode())


def test_byte_tables_follow_their_two_conventions(folder):
    """Raw: the bytes. Supplied: a partial character counts three, as U+FFFD; both are 0 for special tokens."""
    supplied, raw = np.load(folder / "bytes_supplied.npy"), np.load(folder / "bytes_raw.npy")
    ranks, document = read_tokenizer(folder)
    assert supplied.dtype == raw.dtype == np.int32 and len(raw) == len(supplied) == document["vocabulary"]
    assert not supplied[len(ranks):].any() and not raw[len(ranks):].any()
    assert supplied[:128].tolist() == raw[:128].tolist() == [1] * 128
    assert supplied[128:256].tolist() == [3] * 128 and raw[128:256].tolist() == [1] * 128
    whole = 0
    for token, rank in ranks.items():
        assert raw[rank] == len(token)
        if token.isascii() or token in ("é".encode(), " 中文".encode()):
            whole += 1
            assert supplied[rank] == len(token)
    assert whole > 128 and supplied[ranks["é".encode()]] == 2


def test_training_reads_cut_documents_until_it_has_enough_characters(tmp_path):
    write_shard(tmp_path / "a", [("abcdef",), ("",), ("xé",)], ["text"], 2)
    write_shard(tmp_path / "b", [("12345",), ("never",)], ["text"], 2)
    limits = {"document_characters": 4, "train_characters": 7}
    assert list(training_texts([tmp_path / "a", tmp_path / "b"], "text", limits)) == ["abcd", "", "xé", "1234"]
    assert list(training_texts([tmp_path / "a"], "text", limits | {"train_characters": 1})) == ["abcd"]


@pytest.mark.parametrize("change, message", [
    ({"vocabulary": 259}, "room for 256 bytes"), ({"vocabulary": 60000}, "too little text"),
    ({"pattern": "(("}, "pattern")])
def test_a_tokenizer_that_cannot_be_trained_says_why(change, message):
    with pytest.raises(InputError, match=message):
        train_ranks(TEXTS, TOKENIZER | change)


def test_broken_tokenizer_files_are_refused_by_line(folder, tmp_path):
    ranks, good = read_tokenizer(folder)
    document = json.loads((folder / "tokenizer.json").read_text())

    def read(lines, document=document):
        (tmp_path / "ranks.txt").write_bytes(lines)
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        return read_tokenizer(tmp_path)

    lines = format_ranks(ranks).splitlines(keepends=True)
    assert read(b"".join(lines)) == (ranks, good)
    for broken, where in [
            ([*lines[:3], b"?? 3\n"], ":4: expected base64"), ([lines[0], lines[2]], ":2: expected a new token"),
            ([lines[0], lines[0].replace(b" 0", b" 1")], ":2: expected a new token"), (lines[:255], "single byte"),
            (lines[:-1], "special ids must be")]:
        with pytest.raises(InputError, match=where):
            read(b"".join(broken))
    with pytest.raises(InputError, match="bos"):
        read(b"".join(lines), document | {"bos": 3})
    for key, wrong in {"pattern": None, "specials": [], "vocabulary": 300.0, "bos": True}.items():
        with pytest.raises(InputError, match=f"tokenizer.json: {key}: expected"):
            read(b"".join(lines), document | {key: wrong})
    with pytest.raises(InputError, match="tokenizer.json: pattern"):
        make_encoding(ranks, document | {"pattern": "(("})
    with pytest.raises(InputError, match="missing key pattern"):
        read(b"".join(lines), {key: value for key, value in document.items() if key != "pattern"})


def test_a_split_pattern_that_drops_text_is_refused(folder):
    ranks, document = read_tokenizer(folder)
    letters_only = make_encoding(ranks, document | {"pattern": r"\p{L}+"})
    assert encode_text(letters_only, "abc", "here")
    with pytest.raises(InputError, match="shard: row 7: the text is not what its tokens decode to"):
        encode_text(letters_only, "abc 1", "shard: row 7")


def test_a_text_that_breaks_the_tokenizer_is_refused_by_name(encoding, capfd):
    with pytest.raises(InputError, match="shard: row 7: the tokenizer cannot split this text"):
        encode_text(encoding, " " * 3_000_000 + "x", "shard: row 7")
