"""Errors that name their file, and files that are written whole or not at all. Standard library only."""

import contextlib
import errno
import hashlib
import os
import secrets
from pathlib import Path

REMEDIES = {
    errno.ENOSPC: "make room on this disk and run it again",
    errno.EDQUOT: "make room within your quota and run it again",
    errno.EFBIG: "make room or raise the limit of file sizes (ulimit -f), and run it again",
    errno.EROFS: "this file system is read-only; name a folder that you may write to",
    errno.EACCES: "check who may read and write it",
    errno.EPERM: "check who may read and write it",
    errno.EMFILE: "raise the limit of open files (ulimit -n) and run it again",
}


class InputError(Exception):
    """A file, key or argument is wrong, so nothing was checked or written."""


def require(holds, where, text):
    """Raise InputError with "where: text" unless `holds`."""
    if not holds:
        raise InputError(f"{where}: {text}")


def explain(error, path=None):
    """Return one line about an error: for an OSError the file (`path`, or else the error's own), why and what to do."""
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}; close other programs, or run it where more memory is free"
    if not isinstance(error, OSError):
        return str(error)
    where, why = path or error.filename, error.strerror or str(error)
    text = f"{where}: {why}" if where else why
    return f"{text}; {REMEDIES[error.errno]}" if error.errno in REMEDIES else text


@contextlib.contextmanager
def naming(path):
    """Raise an OSError of the block as an InputError that names `path` and says what to do."""
    try:
        yield
    except OSError as error:
        raise InputError(explain(error, path)) from None


def sha256_file(path):
    """Return the lower-case hex SHA-256 of a file's bytes; InputError when it cannot be read."""
    with naming(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sweep(path):
    """Remove the temporary files of `path` whose writers were killed before they could rename them."""
    for old in path.parent.glob(f".{path.name}.*.part"):
        writer = old.name.split(".")[-3]
        if writer.isdecimal() and int(writer) != os.getpid():
            try:
                os.kill(int(writer), 0)
            except ProcessLookupError:
                old.unlink(missing_ok=True)
            except PermissionError:
                pass  # the process of another user lives


def write_atomic(path, data):
    """Write bytes beside `path`, flush them to disk and rename them: a reader sees the old file or the whole new one.

    InputError names the file when it cannot be written; nothing of the new one remains then.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
