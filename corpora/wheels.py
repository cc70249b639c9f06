"""A corpus of text members of pinned wheels: real text, byte-identical for everybody, ordered by content hash."""

import itertools
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path

from corpora.parts import alone
from corpora.shards import write_shard
from evidence import InputError, require, require_digest, sha256_bytes

PIP_LINES = 8  # of pip's errors: the cause, without the traceback above it


def fetch_wheels(wheels, cache):
    """Make every pinned wheel present in the folder `cache`, by pip where it is missing, and check its SHA-256.

    Studies share the cache, so one process at a time downloads into it, and removes what a killed one left.
    """
    with alone(cache / ".lock"):
        missing = [wheel for wheel in wheels if not (cache / wheel["file"]).exists()]
        if missing:
            print(f"corpus: fetching {len(missing)} of {len(wheels)} wheels")
            _pip_download(missing, cache)
    for wheel in wheels:
        require_digest(cache / wheel["file"], wheel["sha256"])


def _pip_download(wheels, cache):
    lines = [f"{w['name']}=={w['version']} --hash=sha256:{w['sha256']}\n" for w in wheels]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    folder = cache / "partial"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(lines))
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(folder), "--requirement", str(requirements)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        shutil.rmtree(folder)
        said = "\n".join(result.stderr.strip().splitlines()[-PIP_LINES:])
        raise InputError(f"pip download failed. Its last lines:\n{said}")
    for wheel in wheels:
        file = folder / wheel["file"]
        require(file.is_file(), file, f"pip downloaded other files: {sorted(os.listdir(folder))}")
        os.replace(file, cache / wheel["file"])
    shutil.rmtree(folder)


def open_wheel(path):
    """Return (ZipFile, its members that are files) of a wheel whose SHA-256 was checked."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: not a zip file: {error}") from None
    return archive, [info for info in archive.infolist() if not info.is_dir()]


def read_member(archive, info, maximum_bytes):
    """Return the bytes of one member; InputError when they are over `maximum_bytes` or damaged."""
    where = f"{archive.filename}: member {info.filename}"
    try:
        with archive.open(info) as file:
            data = file.read(maximum_bytes + 1)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
        raise InputError(f"{where}: damaged: {error}") from None
    if max(len(data), info.file_size) > maximum_bytes:
        raise InputError(f"{where}: over {maximum_bytes} bytes ({info.file_size} declared)")
    return data


def index_wheels(archives, corpus):
    """Return ({content SHA-256: (document name, archive, member)}, facts) of the documents, without duplicates.

    Of equal contents the one whose name sorts first is kept, whatever the order of the wheels.
    """
    documents, facts = {}, {"not_utf8": [], "too_short": 0, "duplicates": 0}
    for archive, members in archives:
        for info in members:
            if not info.filename.endswith(tuple(corpus["suffixes"])):
                continue
            name = f"{Path(archive.filename).name}/{info.filename}"
            data = read_member(archive, info, corpus["maximum_bytes"])
            if len(data) < corpus["minimum_bytes"]:
                facts["too_short"] += 1
                continue
            try:
                data.decode()
            except UnicodeDecodeError:
                facts["not_utf8"].append(name)
                continue
            digest, entry = sha256_bytes(data), (name, archive, info)
            facts["duplicates"] += digest in documents
            documents[digest] = min(entry, documents.get(digest, entry), key=lambda found: found[0])
    facts["not_utf8"].sort()
    return documents, facts


def write_wheels(staged, corpus, cache):
    """Write the wheels' documents, ordered by content hash, as shards of about equal size; return the facts."""
    fetch_wheels(corpus["wheels"], cache)
    shards = [*corpus["train_shards"], corpus["validation_shard"]]
    with ExitStack() as stack:
        archives = [open_wheel(cache / wheel["file"]) for wheel in corpus["wheels"]]
        for archive, _ in archives:
            stack.enter_context(archive)
        documents, facts = index_wheels(archives, corpus)
        if len(documents) < len(shards):
            raise InputError(f"corpus: {len(documents)} documents cannot fill {len(shards)} shards")
        order = [documents[digest] for digest in sorted(documents)]
        rows = ((read_member(archive, info, corpus["maximum_bytes"]).decode(), name) for name, archive, info in order)
        for index, shard in enumerate(shards):
            share = len(order) * (index + 1) // len(shards) - len(order) * index // len(shards)
            columns = [corpus["text_column"], "name"]
            write_shard(staged / shard, itertools.islice(rows, share), columns, corpus["row_group_documents"])
    return facts
