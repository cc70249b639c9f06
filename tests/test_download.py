"""A download ends with the whole right file or with a refusal that names the address, whatever the server does.

A real HTTP server on this machine is slow, cuts, truncates, lies, answers 404, 429 and 503, redirects, ignores or
honours ranges (troubled_server.py).
"""

import hashlib

import pytest

import prepare
from corpora.downloads import fetch_all, write_downloads
from corpora.shards import write_shard
from corpora.transfer import CHUNK_BYTES, Patience, WrongDigest, fetch
from evidence import InputError, format_manifest, read_manifest
from tiny.server import CONTENT, DIGEST, server  # noqa: F401, a fixture

QUICK = Patience(attempts=4, pause=0.01, timeout=0.5, longest_wait=5)


def get(server, folder, known=DIGEST, **options):
    return fetch(f"{server.url}/file", folder / "file", known, QUICK, **options)


@pytest.mark.parametrize("plan", [
    ["good"], ["cut", "good"], ["cut", "cut", "cut", "cut", "cut", "cut", "good"], ["slow", "good"], [503, 500, "good"],
    ["cut", "short", "good"], ["cut", "ignore"], [408, "cut", 502, "good"], ["redirect", "redirect", "good"],
    ["cut", "redirect", "good"], ["unsized"], ["cut", "unsized"], ["encoded"], ["cut", "encoded"], ["untagged"],
    ["negative chunk", "good"], ["cut", "negative chunk", "good"]])
def test_a_troubled_server_still_gives_the_whole_file(server, tmp_path, plan):
    server.plan = plan
    assert get(server, tmp_path) == DIGEST
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_cut_download_resumes_where_it_stopped_also_in_a_later_run(server, tmp_path):
    server.plan = ["cut", 404]
    with pytest.raises(InputError, match="404"):
        get(server, tmp_path)
    half = len(CONTENT) // 2
    assert (tmp_path / "file.part").stat().st_size == half
    server.plan, seen = ["good"], []
    assert get(server, tmp_path, progress=seen.append) == DIGEST
    assert server.requests[-1][1] == f"bytes={half}-"
    assert sum(seen) == len(CONTENT) - half


def test_a_file_that_changed_on_the_server_is_never_spliced(server, tmp_path):
    """With an entity tag the resumed request gets the new file whole; with none and no known hash it starts anew."""
    server.plan = ["cut", 404]
    with pytest.raises(InputError):
        get(server, tmp_path, known=None)
    other = bytes(reversed(CONTENT))
    server.plan, server.tag, server.files = ["good"], '"two"', {"file": other}
    get(server, tmp_path, known=None)
    assert (tmp_path / "file").read_bytes() == other
    (tmp_path / "other.part").write_bytes(CONTENT[:1000])
    server.plan = ["untagged"]
    fetch(f"{server.url}/other", tmp_path / "other", None, QUICK)
    assert server.requests[-1][1] is None
    assert (tmp_path / "other").read_bytes() == CONTENT


def test_a_part_that_is_already_too_long_is_started_anew(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    assert get(server, tmp_path) == DIGEST


def test_a_lying_content_range_is_never_spliced_and_the_next_request_starts_anew(server, tmp_path):
    server.plan, half = ["cut", "lie"], len(CONTENT) // 2
    assert get(server, tmp_path) == DIGEST
    assert [asked for _, asked, _ in server.requests] == [None, f"bytes={half}-", None]


def test_a_server_that_only_lies_is_given_up_with_what_it_said(server, tmp_path):
    server.plan, half = ["cut", "lie", "cut", "lie"], len(CONTENT) // 2
    with pytest.raises(InputError, match=f"2 tries: asked for bytes {half} .* Content-Range 'bytes {half + 5}-"):
        fetch(f"{server.url}/file", tmp_path / "file", DIGEST, QUICK._replace(attempts=2))
    assert not (tmp_path / "file").exists()


def test_a_body_from_elsewhere_than_its_range_is_refused_and_the_next_run_starts_anew(server, tmp_path):
    server.plan = ["cut", "splice"]
    with pytest.raises(WrongDigest, match=f"expected {DIGEST}"):
        get(server, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert get(server, tmp_path) == DIGEST


def test_a_cut_that_no_length_betrays_is_refused_by_the_hash(server, tmp_path):
    server.plan = ["unsized cut"]
    with pytest.raises(WrongDigest, match=f"{len(CONTENT) // 2} bytes that begin"):
        get(server, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mood, received", [("good", 0), ("endless", 1)])
def test_more_bytes_than_the_bound_are_not_taken_and_not_kept(server, tmp_path, mood, received):
    """With the size declared nothing of it is read; without, no more than the bound."""
    server.plan, seen = [mood], []
    with pytest.raises(InputError, match=f"over the bound of {len(CONTENT) - 1}"):
        get(server, tmp_path, progress=seen.append, largest=len(CONTENT) - 1)
    assert received * (len(CONTENT) - CHUNK_BYTES) <= sum(seen) <= received * len(CONTENT)
    assert list(tmp_path.iterdir()) == []
    server.plan = ["good"]
    assert get(server, tmp_path, largest=len(CONTENT)) == DIGEST


def test_a_download_killed_before_its_renaming_needs_no_request(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    (tmp_path / "file.part.validator").write_text(server.tag)
    assert get(server, tmp_path) == DIGEST
    assert server.requests == [] and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_redirects_without_end_are_refused(server, tmp_path):
    server.plan = ["redirect"]
    with pytest.raises(InputError, match=f"{server.url}/file: .*redirect"):
        get(server, tmp_path)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_fails_at_once_with_the_address(server, tmp_path, status):
    server.plan = [status]
    with pytest.raises(InputError, match=f"{server.url}/file: HTTP status {status}"):
        get(server, tmp_path)
    assert len(server.requests) == 1


def test_too_many_requests_waits_as_long_as_the_server_says(server, tmp_path):
    server.plan = [429, "good"]
    assert get(server, tmp_path) == DIGEST
    assert server.requests[1][2] - server.requests[0][2] >= 1.0


def test_a_wait_that_is_too_long_is_named_instead_of_slept(server, tmp_path):
    server.plan = [429]
    with pytest.raises(InputError, match="asks to wait 1 s"):
        fetch(f"{server.url}/file", tmp_path / "file", None, QUICK._replace(longest_wait=0.5))


@pytest.mark.parametrize("mood", [503, "slow"])
def test_a_server_that_never_recovers_is_given_up_after_the_stated_tries(server, tmp_path, mood):
    server.plan = [mood]
    with pytest.raises(InputError, match="given up after 2 tries"):
        fetch(f"{server.url}/file", tmp_path / "file", DIGEST, QUICK._replace(attempts=2, timeout=0.1))
    assert len(server.requests) == 2


def test_the_pause_doubles_with_each_failure(server, tmp_path):
    server.plan = [503]
    with pytest.raises(InputError):
        fetch(f"{server.url}/file", tmp_path / "file", None, QUICK._replace(attempts=4, pause=0.05))
    times = [moment for _, _, moment in server.requests]
    assert all(after - before >= pause for before, after, pause in zip(times, times[1:], [0.05, 0.1, 0.2]))


def test_no_server_at_all_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match="http://127.0.0.1:9/x: given up"):
        fetch("http://127.0.0.1:9/x", tmp_path / "x", None, QUICK._replace(attempts=2))
    with pytest.raises(InputError, match="nonsense"):
        fetch("nonsense/x", tmp_path / "x", None, QUICK)


def test_wrong_content_is_refused_and_deleted(server, tmp_path):
    with pytest.raises(InputError, match=f"expected {'0' * 64}, found {DIGEST}"):
        get(server, tmp_path, known="0" * 64)
    assert list(tmp_path.iterdir()) == []


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
