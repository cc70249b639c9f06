"""Corpora hold exactly the documents of their sources: broken records are named, hostile wheels refused."""

import gzip
import hashlib
import json
import stat
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora.files import read_documents
from corpora.shards import read_row_group
from corpora.wheels import fetch_wheels, index_wheels, open_wheel, read_member, write_wheels
from evidence import InputError, sha256_file

MEMBERS = {"suffixes": [".py", ".txt"], "minimum_bytes": 8, "maximum_bytes": 5000, "text_column": "text"}


def lines_of(texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def tree(directory):
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def read_bytes(tmp_path, name, data, column="text"):
    (tmp_path / name).write_bytes(data)
    return list(read_documents([tmp_path / name], column))


@pytest.mark.parametrize("pack, ending", [(bytes, "jsonl"), (gzip.compress, "jsonl.gz"), (gzip.compress, "json.gz")])
@pytest.mark.parametrize("data, texts", [
    (b'\xef\xbb\xbf{"text":"x"}\n{"text":"\xef\xbb\xbfy"}', ["x", "\ufeffy"]),
    ('{"text":"a\u2028b"}\n{"text":"c\u0085d"}\n'.encode(), ["a\u2028b", "c\u0085d"]),
    (b'{"text":"a"}\r\n{"text":"b"}\r\n{"text":""}', ["a", "b", ""]),
    (b'{"text":"a\\nb", "other": [1, null]}\n', ["a\nb"]),
    (b"", [])])
def test_json_lines_end_at_newline_only_and_lose_only_the_files_own_mark(tmp_path, pack, ending, data, texts):
    """Case 31."""
    assert read_bytes(tmp_path, f"a.{ending}", pack(data)) == texts


@pytest.mark.parametrize("line, message", [
    (b'{"text": "a"', "not strict JSON"), (b"", "not strict JSON"), (b'{"text": null}', "string under 'text'"),
    (b'{"other": "a"}', "string under 'text'"), (b'["a"]', "expected an object"), (b'{"text": 5}', "a string under"),
    (b'{"text": "\xff"}', "not strict JSON"),
    (b'\xef\xbb\xbf{"text": "a"}', "not strict JSON"), (b'{"text": "\\ud800"}', "not Unicode text"),
    (b'{"text": "a", "text": "b"}', "stands twice"), (b'{"text": "a", "n": NaN}', "NaN"),
    (b"[" * 100_000, "too deeply")])
def test_a_broken_line_is_named_by_file_and_number(tmp_path, line, message):
    with pytest.raises(InputError, match=f"a.jsonl:2: .*{message}"):
        read_bytes(tmp_path, "a.jsonl", b'{"text":"fine"}\n' + line + b'\n{"text":"fine"}\n')


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
    with pytest.raises(InputError, match="a.csv: unknown kind"):
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
        with pytest.raises(InputError, match="a.parquet: not a readable parquet"):
            read_row_group(path, 0, "text")


# --------------------------------------------------------------------------------------------- wheels


def wheel(path, members):
    """A zip at `path` of {member name or ZipInfo: bytes}."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def member(name, mode=0, **fields):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    for key, value in fields.items():
        setattr(info, key, value)
    return info


@pytest.mark.parametrize("bad, message", [
    ([("../a.py", b"x")], "unsafe member path"), ([("/etc/a.py", b"x")], "unsafe member path"),
    ([("a/../../b.py", b"x")], "unsafe member path"), ([("a\\b.py", b"x")], "unsafe member path"),
    ([("C:/a.py", b"x")], "unsafe member path"), ([("a\nb.py", b"x")], "unsafe member path"),
    ([(member("a.py", stat.S_IFLNK | 0o777), b"/etc/passwd")], "link or device"),
    ([(member("a.py", stat.S_IFIFO | 0o777), b"")], "link or device"),
    ([("a.py", b"x"), ("a.py", b"y")], "stands twice")])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_hostile_wheel_is_refused(tmp_path, bad, message):
    path = wheel(tmp_path / "a.whl", [("good.py", b"fine")] + bad)
    with pytest.raises(InputError, match=f"a.whl: .*{message}"):
        open_wheel(path)


def test_encrypted_damaged_and_foreign_files_are_refused(tmp_path):
    path = wheel(tmp_path / "a.whl", [("a.py", b"some words " * 9)])
    data = path.read_bytes()
    central = data.index(b"PK\x01\x02")
    path.write_bytes(data[:central + 8] + b"\x01" + data[central + 9:])
    with pytest.raises(InputError, match="a.py is encrypted"):
        open_wheel(path)
    path.write_bytes(data[:38] + bytes(4) + data[42:])
    archive, members = open_wheel(path)
    with pytest.raises(InputError, match="a.py: damaged"):
        read_member(archive, members[0], 5000)
    path.write_bytes(b"not a zip")
    with pytest.raises(InputError, match="not a zip file"):
        open_wheel(path)


def test_a_member_that_is_too_large_is_refused_whether_it_says_so_or_not(tmp_path):
    path = wheel(tmp_path / "a.whl", [("bomb.py", b"0" * 100_000)])
    data = path.read_bytes()
    archive, members = open_wheel(path)
    with pytest.raises(InputError, match="bomb.py: over 5000 bytes"):
        read_member(archive, members[0], 5000)
    assert len(read_member(archive, members[0], 100_000)) == 100_000
    central = data.index(b"PK\x01\x02")
    for said, limit, message in [(100, 5000, "damaged"), (200_000, 150_000, "over 150000 bytes .200000 declared")]:
        path.write_bytes(data[:central + 24] + said.to_bytes(4, "little") + data[central + 28:])
        archive, members = open_wheel(path)
        with pytest.raises(InputError, match=f"bomb.py: {message}"):
            read_member(archive, members[0], limit)


def test_only_counting_members_become_documents_and_duplicates_go_whatever_the_order(tmp_path):
    first = wheel(tmp_path / "b.whl", [
        ("x/", b""), ("m.py", b"same content"), ("s.py", b"short"), ("i.png", b"no text, by its name"),
        ("l.txt", b"latin \xe9\xe9\xe9\xe9")])
    second = wheel(tmp_path / "a.whl", [("z.txt", b"same content"), ("y.py", "naïve text".encode())])
    both = [open_wheel(first), open_wheel(second)]
    documents, facts = index_wheels(both, MEMBERS)
    assert facts == {"not_utf8": ["b.whl/l.txt"], "too_short": 1, "duplicates": 1}
    assert {name for name, _, _ in documents.values()} == {"a.whl/z.txt", "a.whl/y.py"}
    again, _ = index_wheels(both[::-1], MEMBERS)
    assert {d: name for d, (name, *_) in again.items()} == {d: name for d, (name, *_) in documents.items()}


def test_wheel_shards_hold_all_documents_in_the_order_of_their_hashes(tmp_path):
    contents = [f"content number {i}\r\n".encode() for i in range(23)]
    path = wheel(tmp_path / "cache.whl", [(f"{i}.py", content) for i, content in enumerate(contents)])
    corpus = MEMBERS | {"row_group_documents": 3, "train_shards": ["s0", "s1"], "validation_shard": "s2",
                        "wheels": [{"file": path.name, "sha256": sha256_file(path)}]}
    trees = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        write_wheels(folder, corpus, tmp_path)
        trees.append(tree(folder))
    tables = [pq.read_table(tmp_path / "one" / name) for name in ("s0", "s1", "s2")]
    assert trees[0] == trees[1] and [len(table) for table in tables] == [7, 8, 8]
    ordered = sorted(contents, key=lambda content: hashlib.sha256(content).hexdigest())
    rows = [row for table in tables for row in table.to_pylist()]
    assert [row["text"].encode() for row in rows] == ordered
    assert [row["name"] for row in rows] == [f"cache.whl/{contents.index(content)}.py" for content in ordered]
    assert [pq.ParquetFile(tmp_path / "one/s1").metadata.row_group(i).num_rows for i in range(3)] == [3, 3, 2]
    with pytest.raises(InputError, match="23 documents cannot fill 24 shards"):
        write_wheels(folder, corpus | {"train_shards": ["s"] * 23}, tmp_path)


def installable(folder, body):
    folder.mkdir()
    info = "tiny_corpus-1.0.dist-info/"
    return wheel(folder / "tiny_corpus-1.0-py3-none-any.whl", [
        ("tiny_corpus.py", body), (info + "METADATA", "Metadata-Version: 2.1\nName: tiny-corpus\nVersion: 1.0\n"),
        (info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), (info + "RECORD", "")])


def test_wheels_come_by_pip_only_with_the_pinned_hash(tmp_path, monkeypatch):
    """pip finds the wheel in a local folder, so that the test needs no network."""
    path = installable(tmp_path / "links", b"a = 1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    pinned = {"name": "tiny-corpus", "version": "1.0", "file": path.name, "sha256": sha256_file(path)}
    fetch_wheels([pinned], tmp_path / "cache")
    assert (tmp_path / "cache" / path.name).read_bytes() == path.read_bytes()
    path.unlink()
    fetch_wheels([pinned], tmp_path / "cache")
    (tmp_path / "cache" / path.name).write_bytes(b"changed")
    with pytest.raises(InputError, match=f"{path.name}: SHA-256 differs"):
        fetch_wheels([pinned], tmp_path / "cache")
    installable(tmp_path / "other", b"b = 2")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "other"))
    with pytest.raises(InputError, match="pip download failed(.|\n)*MATCH THE HASHES"):
        fetch_wheels([pinned], tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
