"""Evidence that carries its own hash and the time it was made: what a gate may rely on.

A sealed file is canonical JSON {"content", "sealed_at", "sha256"}: the SHA-256 covers content and time, so that neither
can be edited alone. It shows order and integrity, not authorship: whoever rewrites a file whole can seal it again. That
is why the hash of a protocol is published before it is used.
"""

from datetime import datetime, timezone

from evidence import (
    InputError,
    canonical_json,
    first_difference,
    parse_json,
    read_json,
    require_keys,
    sha256_bytes,
    write_json,
)

TIME = "%Y-%m-%dT%H:%M:%SZ"


def _is_time(text):
    """Whether it is spelled as utc_now does: strptime also takes 2026-1-1T0:0:0Z, which sorts elsewhere."""
    try:
        return datetime.strptime(text, TIME).strftime(TIME) == text
    except (TypeError, ValueError):
        return False


def utc_now():
    """The time in UTC to the second, as text whose order is the order in time."""
    return datetime.now(timezone.utc).strftime(TIME)


def seal_hash(content, sealed_at):
    """Hex SHA-256 of content and time as canonical JSON."""
    return sha256_bytes(canonical_json({"content": content, "sealed_at": sealed_at}))


def read_sealed(path, make_it):
    """The sealed record at `path`; InputError when it is missing, edited after sealing, or dated in the future.

    make_it: the command that makes the file, for the message.
    """
    if not path.exists():
        raise InputError(f"{path}: missing; make it with: {make_it}")
    record = read_json(path)
    require_keys(record, ("content", "sealed_at", "sha256"), path)
    found = seal_hash(record["content"], record["sealed_at"])
    if found != record["sha256"]:
        raise InputError(f"{path}: edited after it was sealed: its sha256 says {record['sha256']}, its content and "
                         f"time give {found}")
    if not _is_time(record["sealed_at"]):
        raise InputError(f"{path}: sealed_at: expected a time like {utc_now()}, found {record['sealed_at']!r}")
    if record["sealed_at"] > (now := utc_now()):
        raise InputError(f"{path}: post-dated: sealed at {record['sealed_at']}, but now it is {now}")
    return record


def write_sealed(path, content, make_it, replace=False):
    """Seal `content` now and write it; return the record. The same content keeps its first time.

    Other content at `path` is replaced where `replace` allows it, else InputError names the first difference.
    """
    content = parse_json(canonical_json(content), path)  # as it is read again: torch.__version__ is no plain str
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
