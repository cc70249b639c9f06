"""A hostile answer, or a link where a download would be written, is refused in words that a terminal only shows.

A real HTTP server on this machine (troubled_server.py).
"""

import os

import pytest

import fetch_supplement
from corpora.transfer import Patience, fetch
from evidence import InputError
from tiny.server import CONTENT, DIGEST, server  # noqa: F401, a fixture
from tiny.supplement import arguments, names_in, published  # noqa: F401, a fixture


def get(server, folder):  # noqa: F811
    return fetch(f"{server.url}/file", folder / "file", DIGEST, Patience(4, 0.01, 0.5, 5))


@pytest.mark.parametrize("mood", ["no address", "no text"])
def test_a_redirect_to_what_is_no_address_is_refused_at_once_and_what_came_stays(server, tmp_path, mood):  # noqa: F811
    server.plan = ["cut", mood]
    with pytest.raises(InputError, match=f"{server.url}/file: it, or where it redirects to, is no address: .*check"):
        get(server, tmp_path)
    assert len(server.requests) == 2 and (tmp_path / "file.part").stat().st_size == len(CONTENT) // 2


def test_a_server_that_only_states_impossible_sizes_is_given_up(server, tmp_path):  # noqa: F811
    server.plan = ["negative chunk"]
    with pytest.raises(InputError, match="given up after 4 tries: the answer states a size that is none"):
        get(server, tmp_path)
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:len(CONTENT) // 2]


def test_what_a_server_says_reaches_no_terminal_as_an_escape_sequence(server, tmp_path):  # noqa: F811
    server.plan = ["painted"]
    with pytest.raises(InputError, match="HTTP status 404 ") as caught:
        get(server, tmp_path)
    assert r"'\x1b[31mNot here'" in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["file.part", "file.part.validator"])
@pytest.mark.parametrize("make", [
    lambda path, other: path.symlink_to(other), lambda path, other: path.symlink_to("nowhere"),
    lambda path, other: os.mkfifo(path), lambda path, other: path.mkdir()])
def test_no_file_is_written_or_read_through_a_link_or_pipe(server, tmp_path, name, make):  # noqa: F811
    (tmp_path / "mine").write_bytes(CONTENT[:9])
    make(tmp_path / name, tmp_path / "mine")
    with pytest.raises(InputError, match=f"{name}: a link or no plain file; move it away"):
        get(server, tmp_path)
    assert server.requests == [] and (tmp_path / "mine").read_bytes() == CONTENT[:9]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "mine"]


def test_a_download_is_not_written_through_a_link(published):  # noqa: F811
    server, folder = published  # noqa: F811
    (folder / "mine").write_bytes(b"mine")
    (folder / "out.tar.gz.part").symlink_to("mine")
    with pytest.raises(InputError, match="out.tar.gz.part: a link or no plain file"):
        fetch_supplement.main(arguments(f"{server.url}/v1.tar.gz", folder / "out"))
    assert (folder / "mine").read_bytes() == b"mine" and names_in(folder) == ["mine", "out.tar.gz.part"]
