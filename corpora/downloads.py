"""Shards over HTTP(S): parallel, resumed, retried with backoff, checked by SHA-256, written aside and renamed.

A file whose SHA-256 is known must have it; another one's is recorded on first
use in a sha256sum list and checked from then on.
"""

import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from corpora.shards import open_parquet
from evidence import InputError, format_manifest, read_manifest, sha256_file, write_atomic

CHUNK_BYTES = 1 << 14  # small, because a chunk cut short is lost
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class Patience(NamedTuple):
    """`attempts` without progress before giving up; `pause` seconds doubled at each; socket `timeout` in seconds;
    the longest Retry-After obeyed, in seconds."""

    attempts: int = 8
    pause: float = 1.0
    timeout: float = 60.0
    longest_wait: float = 600.0


class Interrupted(Exception):
    """Worth another try, after `wait` seconds when the server says how long."""

    def __init__(self, reason, wait=None):
        super().__init__(reason)
        self.wait = wait


def _retry_after(response):
    value = response.headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError):
        return None


def _size(path):
    return path.stat().st_size if path.exists() else 0


def _resume_headers(part, validator, known):
    """Ask for the rest only when a change of the file would be noticed: by If-Range, or by the known SHA-256."""
    headers = {"Accept-Encoding": "identity"}
    if _size(part) and (validator.exists() or known):
        headers["Range"] = f"bytes={_size(part)}-"
        if validator.exists():
            headers["If-Range"] = validator.read_text()
    return headers


def _expected_span(url, response, asked):
    """(first byte, size of the whole file or None) of a good answer; other answers raise."""
    status = response.status_code
    if status == 206:
        span = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not span or int(span[1]) != asked or int(span[2]) + 1 != int(span[3]):
            found = response.headers.get("Content-Range")
            raise InputError(f"{url}: asked for bytes {asked} to the end, the answer says Content-Range {found!r}")
        return asked, int(span[3])
    if status == 200:
        return 0, int(response.headers["Content-Length"]) if "Content-Length" in response.headers else None
    if status in (408, 416, 425, 429) or status >= 500:
        raise Interrupted(f"HTTP status {status}", _retry_after(response))
    raise InputError(f"{url}: HTTP status {status} {response.reason}; check the address")


def _require_running(url, stop):
    if stop.is_set():
        raise InputError(f"{url}: stopped; the next run resumes it")


def _transfer(url, part, known, timeout, stop, progress):
    """One request: append the rest of the file to `part`, or write it anew when the server sends all of it."""
    import requests

    validator = part.with_name(part.name + ".validator")
    headers = _resume_headers(part, validator, known)
    asked = _size(part) if "Range" in headers else 0
    with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
        if response.status_code == 416:
            part.unlink(missing_ok=True)
        first, size = _expected_span(url, response, asked)
        tag = response.headers.get("ETag", "")
        if first == 0 and tag.startswith('"'):
            write_atomic(validator, tag.encode())
        elif first == 0:
            validator.unlink(missing_ok=True)
        with open(part, "ab" if first else "wb") as file:
            for chunk in response.iter_content(CHUNK_BYTES):
                file.write(chunk)
                progress(len(chunk))
                _require_running(url, stop)
    if size is not None and _size(part) != size:
        raise Interrupted(f"{_size(part)} of {size} bytes came")


def _transfer_until_whole(url, part, known, patience, stop, progress):
    import requests

    failures, furthest = 0, _size(part)
    transient = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError, Interrupted)
    while True:
        _require_running(url, stop)
        try:
            return _transfer(url, part, known, patience.timeout, stop, progress)
        except transient as error:
            failures = 1 if _size(part) > furthest else failures + 1
            furthest = max(furthest, _size(part))
            wait = getattr(error, "wait", None)
            if failures >= patience.attempts:
                raise InputError(f"{url}: given up after {failures} tries: {error}; run again to resume") from None
            if (wait or 0) > patience.longest_wait:
                raise InputError(f"{url}: the server asks to wait {wait:.0f} s ({error}); run again later") from None
            stop.wait(patience.pause * 2 ** (failures - 1) if wait is None else wait)


def fetch(url, target, known, patience=Patience(), stop=None, progress=lambda count: None, accept=lambda path: None):
    """Download `url` to `target`, resuming `target`.part; return the SHA-256.

    `known` is the expected SHA-256 or None; `accept(path)` raises InputError when the content is not what it must be.
    A refused file is deleted, so that the next run starts it anew.
    """
    import requests

    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _transfer_until_whole(url, part, known, patience, stop or threading.Event(), progress)
    except requests.RequestException as error:
        raise InputError(f"{url}: {error}") from None
    digest = sha256_file(part)
    try:
        if known not in (None, digest):
            raise InputError(f"{url}: SHA-256 differs: expected {known}, found {digest}; deleted, run again")
        accept(part)
    except InputError:
        part.unlink()
        raise
    finally:
        part.with_name(part.name + ".validator").unlink(missing_ok=True)
    part.replace(target)
    return digest


def _progress_bar(count):
    if sys.stderr.isatty():
        from tqdm import tqdm

        return tqdm(desc=f"downloading {count} files", unit="B", unit_scale=True)
    return None


def fetch_all(base_url, names, folder, known, first_use, accept, patience=Patience(), threads=4):
    """Make every file of `names` present in `folder`; {name: SHA-256}.

    `known` {name: SHA-256} comes from a manifest; what it does not list is looked up in the list `first_use`, and
    recorded there when it is new. Files already there with the right SHA-256 are not fetched again.
    """
    recorded = read_manifest(first_use) if first_use.exists() else {}
    lock, stop = threading.Lock(), threading.Event()
    known = recorded | known
    missing = [name for name in names if not _is_there(folder / name, known.get(name))]
    bar = _progress_bar(len(missing))

    def fetch_one(name):
        progress = bar.update if bar else lambda count: None
        digest = fetch(f"{base_url}/{name}", folder / name, known.get(name), patience, stop, progress, accept)
        with lock:
            print(f"corpus: {name} downloaded", flush=True)
            if name not in known:
                recorded[name] = digest
                write_atomic(first_use, format_manifest(recorded))
                print(f"corpus: {name}: SHA-256 {digest} recorded on first use in {first_use}", flush=True)
        return name, digest

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(fetch_one, name) for name in missing]
        try:
            done = dict(future.result() for future in as_completed(futures))
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            if bar:
                bar.close()
    return {name: done.get(name) or known[name] for name in names}


def _is_there(path, known):
    return known is not None and path.is_file() and sha256_file(path) == known


def write_downloads(staged, corpus, known, first_use, patience=Patience()):
    """Make the folder hold the corpus's shards and nothing else; there are no facts to report beyond their hashes."""
    wanted = [*corpus["train_shards"], corpus["validation_shard"]]
    for stray in staged.iterdir():
        if not any(stray.name.startswith(name) for name in wanted):
            stray.unlink()
    fetch_all(corpus["base_url"], wanted, staged, known, first_use,
              lambda path: open_parquet(path, corpus["text_column"]), patience)
    return {}
