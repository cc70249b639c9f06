"""One file over HTTP(S): resumed, retried, checked by its SHA-256, written beside its place and renamed.

urllib3 repeats requests that fail and waits as the server asks. A connection that breaks in the middle of a file is
resumed here, by Range and If-Range.
"""

import threading

from evidence import InputError, sha256_file, write_atomic

CHUNK_BYTES = 1 << 16
TIMEOUT = 60.0  # seconds without a byte from the server
BREAKS = 8  # broken answers in a row that brought no byte
SHOWN = 80  # characters of a server's words in a message


class WrongDigest(InputError):
    """The file arrived whole and has another SHA-256 than the known one; it was deleted."""


class Broken(Exception):
    """The answer ended early or does not fit the bytes that are here; another request may succeed."""


def retries(total=8, pause=1.0):
    """urllib3's rule: repeat a request `total` times, after `pause` seconds and then twice as long each time.

    At most one minute is waited for a server that asks for more by Retry-After.
    """
    from urllib3 import Retry

    return Retry(total, backoff_factor=pause, backoff_max=30, retry_after_max=60, raise_on_status=False,
                 status_forcelist=(408, 425, 429, 500, 502, 503, 504))


def _size(path):
    return path.stat().st_size if path.exists() else 0


def _validator(part):
    """Path of the entity tag that belongs to the bytes of `part`."""
    return part.with_name(part.name + ".validator")


def _forget(part):
    for path in (part, _validator(part)):
        path.unlink(missing_ok=True)


def is_there(path, known):
    """Whether `path` is a file with the SHA-256 `known`; False when that is None."""
    return known is not None and path.is_file() and sha256_file(path) == known


def _request_headers(part, known):
    """Ask for the rest only where a changed file would be noticed, by its entity tag or by the known SHA-256."""
    headers, validator = {"Accept-Encoding": "identity"}, _validator(part)
    if _size(part) and (validator.exists() or known):
        headers["Range"] = f"bytes={_size(part)}-"
        if validator.exists():
            headers["If-Range"] = validator.read_text()
    return headers


def _keeps_bytes(url, response, part):
    """Whether the answer continues `part`; False when it is the whole file. InputError for a refusal."""
    if response.status_code == 206:
        if response.headers.get("Content-Range", "").startswith(f"bytes {_size(part)}-"):
            return True
        _forget(part)
        raise Broken("the server sent another part of the file than was asked for")
    if response.status_code == 416:
        _forget(part)
        raise Broken("the server has no more bytes than are here")
    if response.status_code != 200:
        raise InputError(f"{url}: HTTP status {response.status_code} {response.reason[:SHOWN]!r}; check the address, "
                         "and run again to resume")
    _validator(part).unlink(missing_ok=True)
    tag = response.headers.get("ETag", "")
    if tag.startswith('"'):
        write_atomic(_validator(part), tag.encode())
    return False


def _append(url, response, part, stop, progress):
    """Write the body as it was sent: an archive that a server calls gzip-encoded must stay compressed."""
    from urllib3.exceptions import HTTPError

    with open(part, "ab" if _keeps_bytes(url, response, part) else "wb") as file:
        try:
            for chunk in response.raw.stream(CHUNK_BYTES, decode_content=False):
                file.write(chunk)
                progress(len(chunk))
                if stop.is_set():
                    raise InputError(f"{url}: stopped; the next run resumes it")
        except (HTTPError, ValueError) as error:  # ValueError: a chunk of a negative size
            raise Broken(str(error)) from None
    stated = response.headers.get("Content-Range", "/*")
    if not stated.endswith((f"/{_size(part)}", "/*")):
        raise Broken(f"{_size(part)} bytes arrived, Content-Range {stated!r}")


def _transfer(session, url, part, known, pause, stop, progress):
    """Append the rest of the file to `part`, with as many requests as it takes."""
    breaks = 0
    while True:
        before = _size(part)
        try:
            with session.get(url, headers=_request_headers(part, known), stream=True, timeout=TIMEOUT) as response:
                return _append(url, response, part, stop, progress)
        except Broken as error:
            breaks = 0 if _size(part) > before else breaks + 1
            if breaks == BREAKS:
                raise InputError(f"{url}: the connection broke {BREAKS} times without a new byte: {error}; run again "
                                 "to resume") from None
            stop.wait(pause * breaks)


def _require_known(url, part, known):
    digest = sha256_file(part)
    if known not in (None, digest):
        with open(part, "rb") as file:
            beginning = file.read(16)
        size = _size(part)
        _forget(part)
        raise WrongDigest(f"{url}: SHA-256 differs: expected {known}, found {digest} ({size} bytes that begin "
                          f"{beginning!r}); the file was deleted, run again")
    return digest


def _download(url, part, known, retry, stop, progress):
    import requests
    from requests.adapters import HTTPAdapter

    retry = retry or retries()
    with requests.Session() as session:
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        try:
            _transfer(session, url, part, known, retry.backoff_factor, stop or threading.Event(), progress)
        except requests.RequestException as error:
            raise InputError(f"{url}: {error}; run again to resume") from None
        except ValueError as error:
            raise InputError(f"{url}: this address, or the one it redirects to, is malformed: {error}") from None


def fetch(url, target, known, retry=None, stop=None, progress=lambda count: None, accept=lambda path: None):
    """Download `url` to the path `target`, resuming `target`.part; return the SHA-256.

    `known` is the expected SHA-256 or None; `retry` a urllib3.Retry; `stop` a threading.Event that ends the download;
    `accept(path)` raises InputError when the content is not of the expected kind. A refused file is deleted, so that
    the next run starts it anew.
    """
    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    if not is_there(part, known):
        _download(url, part, known, retry, stop, progress)
    digest = _require_known(url, part, known)
    try:
        accept(part)
    except InputError:
        _forget(part)
        raise
    part.replace(target)
    _forget(part)
    return digest
