"""Parts of a prepared corpus: folders built aside and renamed, each with a record of its inputs and its files."""

import fcntl
import os
import shutil
from contextlib import contextmanager

from evidence import InputError, first_difference, read_json, sha256_file, write_json
from manifest import manifest_findings

LAYOUT = 1  # counted up when other bytes are written for the same inputs


@contextmanager
def alone(path):
    """Hold the lock file `path`; InputError when another process does: two would take each other's half-made parts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path}: another prepare.py is at work on this corpus; wait for it or stop it") from None
        yield


def make_part(directory, part, inputs, build, resumable=False):
    """The record {"inputs", "facts", "files": {path: SHA-256}} of directory/part, built only when it must be.

    `build(folder)` writes the files and returns the facts. It works in `part.partial`, renamed when whole and removed
    when the build fails; a resumable part keeps what an interrupted run left there.
    """
    target, staged, inputs = directory / part, directory / f"{part}.partial", inputs | {"layout": LAYOUT}
    if record := _reusable(target, inputs):
        print(f"{part}: reused")
        return record
    (directory / "prepared.json").unlink(missing_ok=True)
    if resumable and target.exists() and not staged.exists():
        target.rename(staged)
    if not resumable:
        shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True, exist_ok=True)
    (staged / "part.json").unlink(missing_ok=True)
    try:
        facts = build(staged)
    except BaseException:
        if not resumable:
            shutil.rmtree(staged, ignore_errors=True)
        raise
    record = {"inputs": inputs, "facts": facts, "files": {p.name: _settled_digest(p) for p in sorted(staged.iterdir())}}
    write_json(staged / "part.json", record)
    shutil.rmtree(target, ignore_errors=True)
    staged.rename(target)
    return record


def _reusable(target, inputs):
    if not target.exists():
        return None
    try:
        record = read_json(target / "part.json")
    except InputError as error:
        print(f"{error}; built anew")
        return None
    if difference := first_difference(record["inputs"], inputs):
        print(f"{target.name}: other inputs than before, built anew: {difference}")
        return None
    found = manifest_findings(record["files"] | {"part.json": sha256_file(target / "part.json")}, target)
    for finding in found:
        print(f"{target.name}/{finding}; built anew")
    return None if found else record


def _settled_digest(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return sha256_file(path)
