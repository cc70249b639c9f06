"""A download ends with the whole right file or with an error that names the address, whatever the server does.

A real HTTP server on this machine is slow, cuts, lies, redirects, refuses, and ignores or honours ranges.
"""

import pytest

from corpora import transfer
from corpora.transfer import WrongDigest, fetch, retries
from evidence import InputError
from tiny.server import CONTENT, DIGEST

QUICK = retries(3, 0.01)
HALF = len(CONTENT) // 2


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(transfer, "TIMEOUT", 0.5)
    monkeypatch.setattr(transfer, "BREAKS", 3)


def get(server, folder, known=DIGEST, **options):
    return fetch(f"{server.url}/file", folder / "file", known, QUICK, **options)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("plan", [
    ["good"], ["cut", "good"], ["cut", "cut", "cut", "cut", "cut", "cut", "good"], ["slow", "good"], [503, 500, "good"],
    ["cut", "short", "good"], ["cut", "ignore"], [408, "cut", 502, "good"], ["redirect", "redirect", "good"],
    ["cut", "redirect", "good"], ["unsized"], ["cut", "unsized"], ["encoded"], ["cut", "encoded"], ["untagged"],
    ["negative chunk", "good"], ["cut", "negative chunk", "good"]])
def test_a_troubled_server_still_gives_the_whole_file(server, tmp_path, plan):
    server.plan = plan
    assert get(server, tmp_path) == DIGEST
    assert (tmp_path / "file").read_bytes() == CONTENT and names_in(tmp_path) == ["file"]


def test_a_cut_download_resumes_where_it_stopped_also_in_a_later_run(server, tmp_path):
    server.plan = ["cut", 404]
    with pytest.raises(InputError, match="404"):
        get(server, tmp_path)
    size = (tmp_path / "file.part").stat().st_size
    assert 0 < size <= HALF
    server.plan, seen = ["good"], []
    assert get(server, tmp_path, progress=seen.append) == DIGEST
    assert server.requests[-1][1] == f"bytes={size}-" and sum(seen) == len(CONTENT) - size


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
    assert server.requests[-1][1] is None and (tmp_path / "other").read_bytes() == CONTENT


def test_a_part_that_is_already_too_long_is_started_anew(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    assert get(server, tmp_path) == DIGEST


def test_a_lying_content_range_is_never_spliced_and_the_next_request_starts_anew(server, tmp_path):
    server.plan = ["cut", "lie"]
    assert get(server, tmp_path) == DIGEST
    assert [asked for _, asked, _ in server.requests] == [None, f"bytes={HALF}-", None]


@pytest.mark.parametrize("text", ["\xb2", "9" * 5000, "-1"])
@pytest.mark.parametrize("status, name, value", [
    (200, "Content-Length", "%s"), *((206, "Content-Range", value) for value in ("bytes %s-9/10", "items 1-2/%s"))])
def test_a_header_without_its_number_does_not_spoil_the_file(server, tmp_path, status, name, value, text):
    server.plan = ["cut", (status, {name: value % text}), "good"]
    try:
        assert get(server, tmp_path) == DIGEST
    except InputError as error:
        assert f"{server.url}/file: " in str(error) and not (tmp_path / "file").exists()
    assert get(server, tmp_path) == DIGEST and (tmp_path / "file").read_bytes() == CONTENT


def test_a_body_from_elsewhere_than_its_range_is_refused_and_the_next_run_starts_anew(server, tmp_path):
    server.plan = ["cut", "splice"]
    with pytest.raises(WrongDigest, match=f"expected {DIGEST}"):
        get(server, tmp_path)
    assert names_in(tmp_path) == []
    assert get(server, tmp_path) == DIGEST


def test_a_cut_that_no_length_betrays_is_refused_by_the_hash(server, tmp_path):
    server.plan = ["unsized cut"]
    with pytest.raises(WrongDigest, match=f"{HALF} bytes that begin"):
        get(server, tmp_path)
    assert names_in(tmp_path) == []


def test_a_download_killed_before_its_renaming_needs_no_request(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    (tmp_path / "file.part.validator").write_text(server.tag)
    assert get(server, tmp_path) == DIGEST and server.requests == [] and names_in(tmp_path) == ["file"]


@pytest.mark.parametrize("mood, reason", [
    ("redirect", "redirect"), ("no address", "malformed"), ("no text", "malformed")])
def test_a_redirect_that_leads_nowhere_is_refused_and_what_arrived_stays(server, tmp_path, mood, reason):
    server.plan = ["cut", mood]
    with pytest.raises(InputError, match=f"{server.url}/file: .*{reason}"):
        get(server, tmp_path)
    assert (tmp_path / "file.part").stat().st_size == HALF


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_fails_at_once_with_the_address(server, tmp_path, status):
    server.plan = [status]
    with pytest.raises(InputError, match=f"{server.url}/file: HTTP status {status}"):
        get(server, tmp_path)
    assert len(server.requests) == 1


def test_what_a_server_says_reaches_no_terminal_as_an_escape_sequence(server, tmp_path):
    server.plan = ["painted"]
    with pytest.raises(InputError, match="HTTP status 404 ") as caught:
        get(server, tmp_path)
    assert r"'\x1b[31mNot here'" in str(caught.value) and str(caught.value).isprintable()


def test_too_many_requests_waits_as_long_as_the_server_says(server, tmp_path):
    server.plan = [429, "good"]
    assert get(server, tmp_path) == DIGEST
    assert server.requests[1][2] - server.requests[0][2] >= 1.0


@pytest.mark.parametrize("mood, requests, reason", [
    (503, 4, "HTTP status 503"), ("negative chunk", 4, "broke 3 times")])
def test_a_server_that_never_recovers_is_given_up(server, tmp_path, mood, requests, reason):
    server.plan = [mood]
    with pytest.raises(InputError, match=f"{server.url}/file: .*{reason}.* run again to resume"):
        get(server, tmp_path)
    assert len(server.requests) == requests


def test_no_server_at_all_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match="http://127.0.0.1:9/x: .*run again to resume"):
        fetch("http://127.0.0.1:9/x", tmp_path / "x", None, retries(1, 0.01))
    with pytest.raises(InputError, match="nonsense/x: "):
        fetch("nonsense/x", tmp_path / "x", None, QUICK)


def test_wrong_content_is_refused_and_deleted(server, tmp_path):
    with pytest.raises(WrongDigest, match=f"expected {'0' * 64}, found {DIGEST}"):
        get(server, tmp_path, known="0" * 64)
    assert names_in(tmp_path) == []


def test_content_of_another_kind_is_refused_and_deleted(server, tmp_path):
    def refuse(path):
        raise InputError(f"{path}: not a parquet file")

    with pytest.raises(InputError, match="not a parquet file"):
        get(server, tmp_path, accept=refuse)
    assert names_in(tmp_path) == []
