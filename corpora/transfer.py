"""One file over HTTP(S): resumed, retried with backoff, bounded, checked by SHA-256, written aside and renamed."""

import re
import threading
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from evidence import InputError, sha256_file, write_atomic

CHUNK_BYTES = 1 << 14  # small, because a chunk cut short is lost
SHOWN = 80  # characters of what a server says
CONTENT_RANGE = re.compile("bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")


class Patience(NamedTuple):
    """`attempts` without progress before giving up; `pause` seconds doubled at each; socket `timeout` in seconds;
    the longest Retry-After obeyed, in seconds."""

    attempts: int = 8
    pause: float = 1.0
    timeout: float = 60.0
    longest_wait: float = 600.0


class Refused(InputError):
    """What came is not what was asked for, and is deleted: the next run starts anew."""


class WrongDigest(Refused):
    """The whole file came and has another SHA-256 than the known one."""


class Interrupted(Exception):
    """Worth another try, after `wait` seconds when the server says how long."""

    def __init__(self, reason, wait=None):
        super().__init__(reason)
        self.wait = wait


def _whole_number(text):
    """An int of ASCII digits, not too many to be meant; else None."""
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


def _retry_after(response):
    value = response.headers.get("Retry-After", "").strip()
    seconds = _whole_number(value)
    if seconds is not None:
        return float(seconds)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


def _size(path):
    return path.stat().st_size if path.exists() else 0


def _own_files(part):
    """All that a download writes before its end: the bytes, and the entity tag that they belong to."""
    return part, part.with_name(part.name + ".validator")


def _resume_headers(part, validator, known):
    """Ask for the rest only when a change of the file would be noticed: by If-Range, or by the known SHA-256."""
    headers = {"Accept-Encoding": "identity"}
    if _size(part) and (validator.exists() or known):
        headers["Range"] = f"bytes={_size(part)}-"
        if validator.exists():
            headers["If-Range"] = validator.read_text()
    return headers


def _expected_span(url, response, asked):
    """(first byte, size of the whole file or None) of a good answer; other answers raise Interrupted or InputError."""
    status = response.status_code
    if status == 206:
        span = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not span or int(span[1]) != asked or int(span[2]) + 1 != int(span[3]):
            found = response.headers.get("Content-Range")
            raise Interrupted(f"asked for bytes {asked} to the end, the answer says Content-Range {found!r}")
        return asked, int(span[3])
    if status == 200:
        return 0, _whole_number(response.headers.get("Content-Length", ""))
    if status in (408, 416, 425, 429) or status >= 500:
        raise Interrupted(f"HTTP status {status}", _retry_after(response))
    raise InputError(f"{url}: HTTP status {status} {response.reason[:SHOWN]!r}; check the address")


def _require_running(url, stop):
    if stop.is_set():
        raise InputError(f"{url}: stopped; the next run resumes it")


def _require_within(url, size, largest):
    if largest is not None and size is not None and size > largest:
        raise Refused(f"{url}: {size} bytes or more, over the bound of {largest}")


def _start(url, response, part, validator, asked):
    """(first byte, size or None) of an answer. A server that cannot resume truly makes the next request start anew."""
    try:
        first, size = _expected_span(url, response, asked)
    except Interrupted:
        if response.status_code in (206, 416):
            part.unlink(missing_ok=True)
        raise
    tag = response.headers.get("ETag", "")
    if first == 0 and tag.startswith('"'):
        write_atomic(validator, tag.encode())
    elif first == 0:
        validator.unlink(missing_ok=True)
    return first, size


def _get(url, headers, timeout):
    """The answer, its body unread. What requests and the standard library call a ValueError is an address."""
    import requests

    try:
        return requests.get(url, headers=headers, stream=True, timeout=timeout)
    except requests.RequestException:
        raise
    except ValueError as error:
        raise InputError(f"{url}: it, or where it redirects to, is no address: {error}; check the address") from None


def _pieces(response):
    """The body's bytes as sent: a server that names the archive's own gzip a Content-Encoding must not have it undone.

    A chunk whose stated size is none raises Interrupted."""
    try:
        yield from response.raw.stream(CHUNK_BYTES, decode_content=False)
    except ValueError as error:
        raise Interrupted(f"the answer states a size that is none: {error}") from None


def _transfer(url, part, known, timeout, largest, stop, progress):
    """One request: append the rest of the file to `part`, or write it anew when the server sends all of it."""
    validator = _own_files(part)[1]
    headers = _resume_headers(part, validator, known)
    asked = _size(part) if "Range" in headers else 0
    with _get(url, headers, timeout) as response:
        first, size = _start(url, response, part, validator, asked)
        _require_within(url, size, largest)
        with open(part, "ab" if first else "wb") as file:
            for chunk in _pieces(response):
                _require_within(url, file.tell() + len(chunk), largest)
                file.write(chunk)
                progress(len(chunk))
                _require_running(url, stop)
    if size is not None and _size(part) != size:
        raise Interrupted(f"{_size(part)} of {size} bytes came")


def _transfer_until_whole(url, part, known, patience, largest, stop, progress):
    import requests
    import urllib3

    failures, furthest = 0, _size(part)
    transient = (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError, Interrupted)
    while True:
        _require_running(url, stop)
        try:
            return _transfer(url, part, known, patience.timeout, largest, stop, progress)
        except transient as error:
            failures = 1 if _size(part) > furthest else failures + 1
            furthest = max(furthest, _size(part))
            wait = getattr(error, "wait", None)
            if failures >= patience.attempts:
                raise InputError(f"{url}: given up after {failures} tries: {error}; run again to resume") from None
            if (wait or 0) > patience.longest_wait:
                raise InputError(f"{url}: the server asks to wait {wait:.0f} s ({error}); run again later") from None
            stop.wait(patience.pause * 2 ** (failures - 1) if wait is None else wait)


def _require_own(part):
    """InputError when another file would be written through these names, or an endless one read."""
    for path in _own_files(part):
        if path.is_symlink() or path.exists() and not path.is_file():
            raise InputError(f"{path}: a link or no plain file; move it away, and run again")


def _require_known(url, part, known):
    digest = sha256_file(part)
    if known not in (None, digest):
        with open(part, "rb") as file:
            beginning = file.read(16)
        raise WrongDigest(f"{url}: SHA-256 differs: expected {known}, found {digest} "
                          f"({_size(part)} bytes that begin {beginning!r}); deleted, run again")
    return digest


def fetch(url, target, known, patience=Patience(), stop=None, progress=lambda count: None, accept=lambda path: None,
          largest=None):
    """Download `url` to `target`, resuming `target`.part; return the SHA-256.

    `known` is the expected SHA-256 or None; `accept(path)` raises InputError when the content is not what it must be;
    `largest` bounds the file in bytes. A refused file is deleted, so that the next run starts it anew.
    """
    import requests

    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    _require_own(part)
    try:
        if not is_there(part, known):
            _transfer_until_whole(url, part, known, patience, largest, stop or threading.Event(), progress)
    except requests.RequestException as error:
        raise InputError(f"{url}: {error}") from None
    except Refused:
        _forget(part)
        raise
    try:
        digest = _require_known(url, part, known)
        accept(part)
    except InputError:
        _forget(part)
        raise
    part.replace(target)
    _forget(part)
    return digest


def _forget(part):
    for path in _own_files(part):
        path.unlink(missing_ok=True)


def is_there(path, known):
    """Whether the file is there with the known SHA-256; never when that is None."""
    return known is not None and path.is_file() and sha256_file(path) == known
