"""A corpus of wheels holds the text members of pinned wheels, each once, in the order of their hashes."""

import hashlib

import pyarrow.parquet as pq
import pytest

from corpora.wheels import fetch_wheels, index_wheels, open_wheel, read_member, write_wheels
from evidence import InputError
from files import sha256_file
from tiny.documents import tree, wheel

MEMBERS = {"suffixes": [".py", ".txt"], "minimum_bytes": 8, "maximum_bytes": 5000, "text_column": "text"}


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = wheel(tmp_path / "a.whl", [("a.py", b"some words " * 9)])
    data = path.read_bytes()
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
    (tmp_path / "empty/partial").mkdir(parents=True)
    (tmp_path / "empty/partial/half.whl").write_text("left by a killed download")
    installable(tmp_path / "other", b"b = 2")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "other"))
    with pytest.raises(InputError, match="pip download failed(.|\n)*MATCH THE HASHES"):
        fetch_wheels([pinned], tmp_path / "empty")
    assert [path.name for path in (tmp_path / "empty").iterdir()] == [".lock"]
