"""A corpus of text members of pinned wheels: real text, byte-identical for everybody, ordered by content hash."""

import itertools
import os
import stat
import subprocess
import sys
import tempfile
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from corpora.shards import write_shard
from evidence import InputError, require_digest, sha256_bytes

PIP_LINES = 8  # of its errors: the cause, without the traceback above it


def fetch_wheels(wheels, cache):
    """Make every pinned wheel present in the folder `cache`, by pip where missing, and check its SHA-256."""
    cache.mkdir(parents=True, exist_ok=True)
    missing = [wheel for wheel in wheels if not (cache / wheel["file"]).exists()]
    if missing:
        print(f"corpus: fetching {len(missing)} of {len(wheels)} wheels")
        _pip_download(missing, cache)
    for wheel in wheels:
        require_digest(cache / wheel["file"], wheel["sha256"])


def _pip_download(wheels, cache):
    lines = [f"{w['name']}=={w['version']} --hash=sha256:{w['sha256']}\n" for w in wheels]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text("".join(lines))
        command += ["--quiet", "--disable-pip-version-check", "--dest", folder, "--requirement", str(requirements)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            said = "\n".join(result.stderr.strip().splitlines()[-PIP_LINES:])
            raise InputError(f"pip download failed, the end of what it says:\n{said}")
        for wheel in wheels:
            if not Path(folder, wheel["file"]).is_file():
                raise InputError(f"pip download: {wheel['file']} did not come; found {sorted(os.listdir(folder))}")
            os.replace(Path(folder, wheel["file"]), cache / wheel["file"])


def _require_harmless(info, where):
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in path.parts[0] or not name.isprintable():
        raise InputError(f"{where}: unsafe member path {name!r}")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InputError(f"{where}: member {name} is a link or device")
    if info.flag_bits & 1:
        raise InputError(f"{where}: member {name} is encrypted")


def open_wheel(path):
    """(ZipFile, its members that are files); InputError on a hostile path, link, encrypted or repeated member."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: not a zip file: {error}") from None
    seen = set()
    for info in archive.infolist():
        _require_harmless(info, path)
        if info.filename in seen:
            raise InputError(f"{path}: member {info.filename} stands twice")
        seen.add(info.filename)
    return archive, [info for info in archive.infolist() if not info.is_dir()]


def read_member(archive, info, maximum_bytes):
    """Bytes of one member; InputError when it is, or says it is, over `maximum_bytes`, or is damaged."""
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
    """({content SHA-256: (document name, archive, member)}, facts): the documents that count, duplicates removed.

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
    """Write the wheels' documents, ordered by content hash, as shards of equal shares; return the facts."""
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
