"""A user's files give exactly their documents; what cannot be read is named by file and row or line."""

import errno
import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora import files, shards
from corpora.files import expand, located_documents, read_documents
from corpora.shards import open_parquet, row_group_texts, write_shard
from evidence import InputError
from tiny.documents import lines_of


def read_bytes(tmp_path, name, data, column="text"):
    (tmp_path / name).write_bytes(data)
    return list(read_documents([tmp_path / name], column))


@pytest.mark.parametrize("pack, ending", [(bytes, "jsonl"), (gzip.compress, "jsonl.gz"), (gzip.compress, "json.gz")])
@pytest.mark.parametrize("data, texts", [
    (b'\xef\xbb\xbf{"text":"x"}\n{"text":"\xef\xbb\xbfy"}', ["x", "\ufeffy"]),
    ('{"text":"a\u2028b"}\n{"text":"c\u0085d"}\n'.encode(), ["a\u2028b", "c\u0085d"]),
    (b'{"text":"a"}\r\n{"text":"b"}\r\n{"text":""}', ["a", "b", ""]),
    (b'{"text":"a\\nb", "other": [1, null]}\n', ["a\nb"]),
    (b'{"text":"a"}\n\n{"text":"b"}\n \t\r\n\n', ["a", "b"]),
    (b'{"text":"a","n":NaN,"m":1e999,"k":1,"k":2,"big":' + b"9" * 5000 + b'}\n', ["a"]),
    (b"", []), (b"\n", [])])
def test_json_lines_end_at_newline_only_and_blank_ones_and_other_fields_do_not_matter(
        tmp_path, pack, ending, data, texts):
    """Case 31."""
    assert read_bytes(tmp_path, f"a.{ending}", pack(data)) == texts


@pytest.mark.parametrize("line, message", [
    (b'{"text": "a"', "not JSON"), (b'[{"text": "a"},', "not JSON: .*jq"), (b'{"text": null}', "string under 'text'"),
    (b'{"other": "a"}', "found 0; the keys are other"), (b'["a"]', "expected an object"), (b'{"text": 5}', "a string"),
    (b'{"text": "\xff"}', "not JSON"), (b'{"text": NaN}', "a string under"), (b'{"text": {"a": "b"}}', "a string"),
    (b'\xef\xbb\xbf{"text": "a"}', "not JSON"), (b'{"text": "\\ud800"}', "not Unicode text"),
    (b'{"text": "a", "text": "b"}', "found 2"), (b"[" * 100_000, "too deeply")])
def test_a_broken_line_is_named_by_file_and_number(tmp_path, line, message):
    with pytest.raises(InputError, match=f"a.jsonl:2: .*{message}"):
        read_bytes(tmp_path, "a.jsonl", b'{"text":"fine"}\n' + line + b'\n{"text":"fine"}\n')


def test_blank_lines_count_in_the_numbers_of_lines(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\n{"text":"a"}\n\n{"text":"b"}\n')
    assert [where for where, _ in located_documents([tmp_path / "a.jsonl"], "text")] == [
        f"{tmp_path}/a.jsonl:2", f"{tmp_path}/a.jsonl:4"]


@pytest.mark.parametrize("name, pack", [("a.jsonl", bytes), ("a.jsonl.gz", gzip.compress), ("a.txt", bytes)])
def test_a_document_without_end_is_refused_by_its_place(tmp_path, monkeypatch, name, pack):
    """Such as a gzip bomb, whose one line would fill the memory."""
    monkeypatch.setattr(files, "LARGEST_TEXT", 1000)
    with pytest.raises(InputError, match=f"{name}.*: .*over 4,000 bytes; split the document"):
        read_bytes(tmp_path, name, pack(b" " * 1_000_000))


@pytest.mark.parametrize("data", [
    gzip.compress(lines_of(map(str, range(999))))[:-20], b"plain", gzip.compress(b"x", mtime=0)[:-8] + b"12345678"])
def test_a_damaged_gzip_file_is_refused(tmp_path, data):
    with pytest.raises(InputError, match="a.jsonl.gz"):
        read_bytes(tmp_path, "a.jsonl.gz", data)


def test_plain_text_is_one_document_with_its_bytes_untouched(tmp_path):
    assert read_bytes(tmp_path, "a.txt", "\ufeffé\r\n\ufeff\n".encode()) == ["é\r\n\ufeff\n"]
    assert read_bytes(tmp_path, "b.txt", b"") == [""]
    with pytest.raises(InputError, match="c.txt: not UTF-8"):
        read_bytes(tmp_path, "c.txt", b"\xff")
    with pytest.raises(InputError, match="a.csv: unknown kind of file; expected one of .parquet"):
        read_bytes(tmp_path, "a.csv", b"a")


@pytest.mark.parametrize("kind", [
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_any_text_column_of_a_parquet_file_is_read_whatever_its_row_groups(tmp_path, kind):
    texts = [f"t{i}" for i in range(2500)]
    table = pa.table({"id": range(2500), "body": pa.array(texts).cast(kind)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=999)
    assert list(read_documents([tmp_path / "a.parquet"], "body")) == texts


def test_bad_parquet_is_named_by_file_and_row(tmp_path):
    path = tmp_path / "a.parquet"

    def refused(column, message, name="text"):
        pq.write_table(pa.table({"text": column}), path, row_group_size=700)
        with pytest.raises(InputError, match=f"a.parquet: {message}"):
            list(read_documents([path], name))

    refused(pa.array(["a"] * 1500 + [None]), "row 1500: the text is null")
    refused(pa.array(["a"]), "no column 'body'; it has text", "body")
    refused(pa.array([1, 2]), "column 'text' holds int64")
    refused(pa.array([b"\xff"]), "column 'text' holds binary")
    invalid = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff"))
    refused(invalid, "row 1: not UTF-8")
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="a.parquet: not a readable parquet"):
        list(read_documents([path], "text"))


def test_a_damaged_page_is_named_by_file(tmp_path):
    """The footer is whole, so that the file opens."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"text {i}" for i in range(500)]}), path)
    for damage in (slice(4, 40), slice(60, 90)):
        data = bytearray(path.read_bytes())
        data[damage] = b"\xff" * len(data[damage])
        path.write_bytes(data)
        with pytest.raises(InputError, match="a.parquet: not a readable parquet"):
            list(read_documents([path], "text"))


def test_a_text_that_is_too_long_is_named_by_row(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "LARGEST_TEXT", 10)
    pq.write_table(pa.table({"text": ["a" * 10, "b" * 11]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="a.parquet: row 1: 11 characters, over 10; split"):
        list(read_documents([tmp_path / "a.parquet"], "text"))


def test_a_lack_of_memory_is_called_one(tmp_path):
    path = tmp_path / "a.parquet"
    with pytest.raises(MemoryError, match="a.parquet: realloc of size 9 failed"), shards.reading(path):
        raise pa.ArrowMemoryError("realloc of size 9 failed")


# ------------------------------------------------------------------------------------------------ shards


@pytest.mark.parametrize("batch", [1, 100, 1 << 20])
def test_a_row_group_is_read_in_batches_with_the_numbers_of_its_rows(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(shards, "BATCH_BYTES", batch)
    texts = [f"text {number} " * (number % 5) for number in range(40)]
    pq.write_table(pa.table({"id": range(40), "text": texts}), tmp_path / "a", row_group_size=15)
    file = open_parquet(tmp_path / "a", "text")
    found = [pair for group in range(3) for pair in row_group_texts(file, tmp_path / "a", group, "text")]
    assert found == list(enumerate(texts))


def test_a_written_row_group_is_closed_by_rows_and_by_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "GROUP_CHARACTERS", 100)
    rows = [("x" * size,) for size in (1, 1, 1, 99, 1, 50, 60, 7, 200, 3)]
    assert write_shard(tmp_path / "a", rows, ["text"], 3) == 10
    metadata = pq.ParquetFile(tmp_path / "a").metadata
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [3, 2, 2, 2, 1]


# ---------------------------------------------------------------------------------------- files and folders


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Text and data sets at several depths, given relative to the current folder."""
    for name in ("a.md", "deep/b.txt", "deep/er/c.md", ".git/d.md", "set/part.parquet", "set/README.md",
                 "set/x/p.parquet", "lines/a.jsonl", "lines/README.md", "other/a.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("names, found", [
    (["a.md"], ["a.md"]), (["deep"], ["deep/b.txt", "deep/er/c.md"]), (["*.md"], ["a.md"]),
    (["deep/**/*.md"], ["deep/er/c.md"]), (["**/*.md"], ["a.md", "deep/er/c.md", "lines/README.md", "set/README.md"]),
    (["set"], ["set/part.parquet", "set/x/p.parquet"]), (["lines", "a.md"], ["lines/a.jsonl", "a.md"]),
])
def test_files_folders_and_patterns_of_any_depth_are_expanded_in_order(folder, names, found):
    assert [str(path) for path in expand(names)] == found


@pytest.mark.parametrize("names, message", [
    (["none.md"], "none.md: No such file"), (["*.csv"], r"\*.csv: no file matches this pattern"),
    (["other"], "other: none of its 1 files is of a known kind"), (["a.md", "*.md"], "a.md: named more than once")])
def test_what_names_no_file_or_one_twice_is_refused(folder, names, message):
    with pytest.raises(InputError, match=message):
        expand(names)


@pytest.mark.parametrize("ending", files.TEXT_KINDS)
def test_plain_text_of_every_kind_is_one_document(tmp_path, ending):
    assert read_bytes(tmp_path, f"a{ending.upper()}", b"text") == ["text"]


def test_an_error_of_the_operating_system_names_the_file(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_bytes(lines_of(["a"]))

    def failing(path, mode):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("builtins.open", failing)
    with pytest.raises(InputError, match="a.jsonl: Input/output error"):
        list(read_documents([tmp_path / "a.jsonl"], "text"))
