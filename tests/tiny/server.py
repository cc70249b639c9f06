"""A real HTTP server on this machine: slow, cutting, stalling, lying, misdirecting, misspelling, refusing, or good."""

import hashlib
import random
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from corpora.transfer import CHUNK_BYTES

CONTENT = random.Random(1).randbytes(40 * CHUNK_BYTES)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


PAGE = b"<!DOCTYPE html><title>Please log in</title>"
CLOSING = ("cut", "slow", "stall", "unsized", "unsized cut")
LOCATIONS = {"no address": "http://[", "no text": "/\xff"}


class Server(ThreadingHTTPServer):
    """Answers by `plan`: a list of moods used one a request, the last one for ever; keeps what was asked.

    A stalled answer goes on when `released` is set.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan, self.requests, self.files, self.tag = ["good"], [], {}, '"one"'
        self.released = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """A client that hangs up is part of these tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server, asked = self.server, self.headers.get("Range")
        server.requests.append((self.path, asked, time.monotonic()))
        mood = server.plan.pop(0) if len(server.plan) > 1 else server.plan[0]
        content = server.files.get(self.path.lstrip("/"), CONTENT)
        if isinstance(mood, tuple):  # a status, and headers that may say anything
            self.answer(mood[0], content, mood[1], "unsized")
        elif isinstance(mood, int):
            self.answer(mood, b"no", {"Retry-After": "1"} if mood == 429 else {})
        elif mood == "redirect" or mood in LOCATIONS:
            self.answer(302, b"", {"Location": LOCATIONS.get(mood, self.path)})
        elif mood == "painted":
            self.answer(404, b"no", {}, reason="\x1b[31mNot here")
        elif mood == "negative chunk":
            self.break_off(content)
        elif mood == "page":
            self.answer(200, PAGE, {"Content-Type": "text/html"})
        else:
            self.answer_from(content, mood, asked)

    def answer_from(self, content, mood, asked):
        """Answer a request for all of the content, or for its rest, as a server in this mood does."""
        server = self.server
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked else 0
        if mood in ("ignore", "unsized", "unsized cut") or self.headers.get("If-Range", server.tag) != server.tag:
            start = 0
        if start >= len(content):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        lie = 5 if mood == "lie" else 0
        headers = {"Content-Range": f"bytes {start + lie}-{len(content) - 1}/{len(content)}"} if start else {}
        headers |= {} if mood == "untagged" else {"ETag": server.tag}
        headers |= {"Content-Encoding": "gzip"} if mood == "encoded" else {}
        content = content[:-100] if mood == "short" else content
        body = content[:-start] if mood == "splice" and start else content[start:]
        self.answer(206 if start else 200, body, headers, mood)

    def answer(self, status, body, headers, mood="good", reason=None):
        self.send_response(status, reason)
        for key, value in headers.items():
            self.send_header(key, value)
        if "unsized" not in str(mood):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = mood in CLOSING
        if mood == "slow":
            time.sleep(1)
        self.wfile.write(body[:len(body) // 2] if mood in ("cut", "stall", "unsized cut") else body)
        if mood == "stall":
            self.server.released.wait()

    def break_off(self, content):
        """Half in one chunk, then one of a size that none has."""
        self.send_response(200)
        for header in (("Transfer-Encoding", "chunked"), ("ETag", self.server.tag)):
            self.send_header(*header)
        self.end_headers()
        self.close_connection = True
        half = content[:len(content) // 2]
        self.wfile.write(b"%x\r\n%s\r\n-5\r\n" % (len(half), half))


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()
