"""A server's header that says no number where one belongs is as if unsaid: the download still ends whole.

A real HTTP server on this machine (troubled_server.py); ISO 8859-1 has digits that are none, and numbers have no end.
"""

import pytest

from corpora.transfer import Patience, fetch
from tiny.server import CONTENT, DIGEST, server  # noqa: F401, a fixture


@pytest.mark.parametrize("text", ["\xb2", "9" * 5000, "9" * 16, "-1", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"])
@pytest.mark.parametrize("status, name, value", [
    (503, "Retry-After", "%s"), (200, "Content-Length", "%s"),
    *((206, "Content-Range", value) for value in ("bytes %s-9/10", "bytes 327680-%s/10", "bytes 327680-9/%s"))])
def test_a_header_without_its_number_is_as_if_unsaid(server, tmp_path, status, name, value, text):  # noqa: F811
    assert len(CONTENT) // 2 == 327680  # where a cut answer ends and the next request begins
    server.plan = ["cut", (status, {name: value % text}), "good"]
    patience = Patience(attempts=4, pause=0.01, timeout=0.5, longest_wait=5)
    assert fetch(f"{server.url}/file", tmp_path / "file", DIGEST, patience) == DIGEST
    assert (tmp_path / "file").read_bytes() == CONTENT and [path.name for path in tmp_path.iterdir()] == ["file"]
