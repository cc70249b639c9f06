"""The shards of a corpus arrive from a troubled server, have the recorded SHA-256, and are fetched once."""

import hashlib

import pytest

import prepare
from corpora.downloads import fetch_all, write_downloads
from corpora.shards import write_shard
from corpora.transfer import retries
from evidence import InputError
from manifest import format_manifest, read_manifest
from tiny.server import DIGEST

QUICK = retries(3, 0.01)


def test_all_files_come_and_unknown_hashes_are_recorded_once_and_checked_from_then_on(server, tmp_path, capsys):
    server.files = {f"f{i}": bytes([i]) * 1000 * i for i in range(1, 9)}
    names, first_use = sorted(server.files), tmp_path / "first_use.sha256"
    expected = {name: hashlib.sha256(server.files[name]).hexdigest() for name in names}

    def fetch_them(known):
        return fetch_all(server.url, names, tmp_path / "in", known, first_use, lambda path: None, QUICK)

    assert fetch_them({"f1": expected["f1"]}) == expected
    assert read_manifest(first_use) == {name: expected[name] for name in names if name != "f1"}
    assert capsys.readouterr().out.count("recorded on first use") == 7
    assert fetch_them({"f1": expected["f1"]}) == expected
    assert len(server.requests) == 8
    (tmp_path / "in" / "f3").write_bytes(b"damaged")
    assert fetch_them({"f1": expected["f1"]}) == expected
    assert (tmp_path / "in" / "f3").read_bytes() == server.files["f3"]
    (tmp_path / "in" / "f4").unlink()
    server.files["f4"] = b"changed upstream"
    with pytest.raises(InputError, match="f4: SHA-256 differs"):
        fetch_them({"f1": expected["f1"]})


def test_one_refusal_stops_the_others_and_keeps_what_came(server, tmp_path):
    names = [f"f{i}" for i in range(20)]
    server.plan = ["good", "good", 404]
    with pytest.raises(InputError, match="404"):
        fetch_all(server.url, names, tmp_path, {}, tmp_path / "first_use.sha256", lambda path: None, QUICK, threads=1)
    assert len(server.requests) < 20
    assert set(read_manifest(tmp_path / "first_use.sha256").values()) == {DIGEST}


def test_a_truncated_shard_is_refused_before_its_hash_is_trusted(server, tmp_path):
    write_shard(tmp_path / "good", [("one",), ("two",)], ["text"], 2)
    whole = (tmp_path / "good").read_bytes()
    server.files = {"a.parquet": whole, "b.parquet": whole[:-10]}
    corpus = {"base_url": server.url, "text_column": "text",
              "train_shards": ["a.parquet"], "validation_shard": "b.parquet"}
    staged = tmp_path / "staged"
    staged.mkdir()
    (staged / "stray.parquet").write_bytes(b"from an older protocol")
    with pytest.raises(InputError, match="b.parquet.*not a readable parquet"):
        write_downloads(staged, corpus, {}, tmp_path / "first_use.sha256", QUICK)
    first_use = tmp_path / "first_use.sha256"
    assert not first_use.exists() or set(read_manifest(first_use)) == {"a.parquet"}
    server.files["b.parquet"] = whole
    assert write_downloads(staged, corpus, {}, first_use, QUICK) == {}
    assert set(read_manifest(first_use)) == {"a.parquet", "b.parquet"}
    assert sorted(path.name for path in staged.iterdir()) == ["a.parquet", "b.parquet"]


def test_a_manifest_wins_over_what_was_recorded_on_first_use(server, tmp_path):
    first_use = tmp_path / "first_use.sha256"
    first_use.write_bytes(format_manifest({"file": "1" * 64}))
    known = {"file": DIGEST}
    assert fetch_all(server.url, ["file"], tmp_path, known, first_use, lambda path: None, QUICK) == known


def test_a_study_is_prepared_from_a_server_and_only_a_changed_shard_comes_again(server, tmp_path, capsys):
    for name, first in [("a.parquet", 0), ("b.parquet", 50)]:
        write_shard(tmp_path / name, [(f"document {i} of many words",) for i in range(first, first + 50)], ["text"], 9)
        server.files[name] = (tmp_path / name).read_bytes()
    corpus = {"kind": "download", "base_url": server.url, "text_column": "text",
              "train_shards": ["a.parquet"], "validation_shard": "b.parquet"}
    paper = prepare.read_protocol("climbmix")
    spec = paper | {"name": "tiny", "corpus": corpus, "tokenizer": paper["tokenizer"] | {"vocabulary": 265}}
    listed = {"corpus/a.parquet": hashlib.sha256(server.files["a.parquet"]).hexdigest()}
    first, directory = prepare.prepare(spec, tmp_path, listed, 1)
    assert {name: counts["documents"] for name, counts in first["splits"].items()} == {"train": 50, "validation": 50}
    assert set(read_manifest(directory / "first_use.sha256")) == {"b.parquet"}
    (directory / "corpus/b.parquet").write_bytes(b"damaged")
    assert prepare.prepare(spec, tmp_path, listed, 1)[0] == first
    assert [path for path, _, _ in server.requests].count("/a.parquet") == 1
    assert [path for path, _, _ in server.requests].count("/b.parquet") == 2
    assert "corpus/b.parquet: changed" in capsys.readouterr().out
