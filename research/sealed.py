"""Evidence that records its own SHA-256 and the time at which it was made, for the gate of the confirmation.

A sealed file is canonical JSON {"content", "sealed_at", "sha256"}. The SHA-256 covers content and time, so neither can
be edited alone. It shows order and integrity but not authorship, because anybody who rewrites the whole file can seal
it again. For that reason the SHA-256 of a protocol is published before the protocol is used.
"""

import re
from datetime import UTC, datetime

from evidence import (
    InputError,
    canonical_json,
    first_difference,
    parse_json,
    read_json,
    require,
    require_keys,
    sha256_bytes,
    write_json,
)

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def utc_now():
    """Return the time in UTC to the second, as text that sorts by time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_past(time):
    """Return whether `time` is spelled as `utc_now` spells it and is not in the future."""
    return isinstance(time, str) and TIME.fullmatch(time) is not None and time <= utc_now()


def seal_hash(content, sealed_at):
    """Return the hex SHA-256 of content and time as canonical JSON."""
    return sha256_bytes(canonical_json({"content": content, "sealed_at": sealed_at}))


def read_sealed(path, make_it):
    """Return the sealed record at `path`.

    InputError says so when the file is missing, was edited after it was sealed, or has no time in the past. `make_it`
    is the command that makes the file, for the message.
    """
    require(path.exists(), path, f"missing; make it with: {make_it}")
    record = read_json(path)
    require_keys(record, ("content", "sealed_at", "sha256"), path)
    found = seal_hash(record["content"], record["sealed_at"])
    require(found == record["sha256"], f"{path}: sha256",
            f"the file was edited after it was sealed: it states {record['sha256']}, content and time give {found}")
    require(is_past(record["sealed_at"]), f"{path}: sealed_at",
            f"expected a time like {utc_now()} that is not in the future, found {record['sealed_at']!r}")
    return record


def write_sealed(path, content, make_it, replace=False):
    """Seal `content`, write it to `path` and return the record.

    Where `path` already holds the same content, the old record stays, with its time. Other content is replaced if
    `replace` is true; otherwise InputError names the first difference.
    """
    content = parse_json(canonical_json(content), path)  # the types of JSON: torch.__version__ is not a plain str
    if path.exists():
        old = read_sealed(path, make_it)
        difference = first_difference(old["content"], content)
        if difference is None:
            return old
        if not replace:
            raise InputError(f"{path}: sealed at {old['sealed_at']}, and the new content differs at {difference}")
    sealed_at = utc_now()
    record = {"content": content, "sealed_at": sealed_at, "sha256": seal_hash(content, sealed_at)}
    write_json(path, record)
    return record
