"""Parts of a prepared corpus: folders built aside and renamed, each with a record of its inputs and its files."""

import os
import shutil
from contextlib import contextmanager

from evidence import InputError, first_difference, read_json, write_json
from files import explain, naming, sha256_file
from manifest import manifest_findings
from surroundings import lock

LAYOUT = 1  # counted up when other bytes are written for the same inputs


@contextmanager
def alone(path):
    """Hold the lock file `path`; InputError when another process holds it, whose unfinished parts must stay."""
    with naming(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    file = lock(path)
    if file is None:
        raise InputError(f"{path}: another prepare.py is at work on this corpus; wait for it or stop it")
    with file:
        yield


def make_part(directory, part, inputs, build, resumable=False):
    """Return the record {"inputs", "facts", "files": {path: SHA-256}} of directory/part, which is built if it must be.

    `build(folder)` writes the files and returns the facts. It works in `part.partial`, which is renamed when it is
    whole and removed when the build fails; a resumable part keeps what an interrupted run left there.
    """
    target, staged, inputs = directory / part, directory / f"{part}.partial", inputs | {"layout": LAYOUT}
    if record := _reusable(target, inputs):
        print(f"{part}: reused")
        return record
    try:
        return _build(directory, target, staged, inputs, build, resumable)
    except OSError as error:
        raise InputError(explain(error, error.filename or staged)) from None
    finally:
        if not resumable:
            shutil.rmtree(staged, ignore_errors=True)


def _build(directory, target, staged, inputs, build, resumable):
    (directory / "prepared.json").unlink(missing_ok=True)
    if resumable and target.exists() and not staged.exists():
        target.rename(staged)
    if not resumable:
        shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True, exist_ok=True)
    (staged / "part.json").unlink(missing_ok=True)
    facts = build(staged)
    files = {path.name: _settled_digest(path) for path in sorted(staged.iterdir()) if not path.name.startswith(".")}
    record = {"inputs": inputs, "facts": facts, "files": files}
    write_json(staged / "part.json", record)
    shutil.rmtree(target, ignore_errors=True)
    staged.rename(target)
    return record


def _reusable(target, inputs):
    """Return the record of a part that is whole and was made from these inputs, or None. Further files do no harm."""
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
    found = [text for text in manifest_findings(record["files"], target) if not text.endswith(": extra")]
    for finding in found:
        print(f"{target.name}/{finding}; built anew")
    return None if found else record


def _settled_digest(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return sha256_file(path)
