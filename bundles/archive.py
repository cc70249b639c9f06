"""What a supplement is: a folder of exactly what its list names, and an archive of it with the same bytes everywhere.

For freeze_supplement.py, check_manifests.py and verify_all.py; carried in every supplement. Standard library only.

supplement_vN/manifest.sha256 lists every other file of the folder. manifests/supplement_vN.sha256, in the repository,
lists that list and the archive: it alone binds a frozen supplement. The repository's own copies of its files may move
on; they are the same bytes at the freeze, and a later version may hold others only by an erratum.

The archive is a POSIX ustar file in a gzip frame of *stored* blocks, both written out here. Compressed bytes differ
between versions and builds of zlib, and tar headers between versions of Python; here zlib gives the CRC alone. Equality
rests on the two formats and the files' names and bytes, at the price of a larger download (a few MB).
"""

import struct
import zlib
from contextlib import contextmanager
from pathlib import Path

from bundles.names import name_findings
from evidence import InputError, manifest_findings, read_manifest, sha256_bytes, sha256_file

MANIFEST = "manifest.sha256"
MODIFIED = 946_684_800  # 2000-01-01 UTC: tar warns of 1970
STORED_BLOCK = 65_535
LONGEST_NAME = 100


def gzip_stored(data):
    """A gzip file of `data` (bytes) in stored blocks: no name, no time, no compression."""
    blocks = [data[start : start + STORED_BLOCK] for start in range(0, len(data), STORED_BLOCK)] or [b""]
    parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]  # deflate; no flags, no time, no level; system unknown
    for number, block in enumerate(blocks, 1):
        parts += [struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF), block]
    return b"".join([*parts, struct.pack("<II", zlib.crc32(data), len(data) % 2**32)])


def member(name, data):
    """A regular file of a ustar archive, header and padded bytes: mode 644, owner 0 without a name, one fixed time."""
    path = name.encode("utf-8")
    if len(path) > LONGEST_NAME:
        raise InputError(f"{name}: {len(path)} bytes; a name in the archive has at most {LONGEST_NAME}")
    before = path.ljust(100, b"\0") + b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (0o644, 0, 0, len(data), MODIFIED)
    after = b"0" + bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\x000000000\0" + bytes(167)
    checksum = sum(before) + sum(after) + 8 * ord(" ")
    return b"".join([before, b"%06o\0 " % checksum, after, data, bytes(-len(data) % 512)])


def archive_bytes(files, folder):
    """The .tar.gz of {name: bytes} below `folder`: regular files in the order of their names, and nothing else."""
    tar = b"".join(member(f"{folder}/{name}", files[name]) for name in sorted(files)) + bytes(1024)
    return gzip_stored(tar + bytes(-len(tar) % 10_240))


def read_folder(folder):
    """{name relative to the folder: bytes} of every file in it."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def folder_findings(folder):
    """(number of files listed, every name that no list may hold and every way the folder departs from its own list)."""
    listed = read_manifest(Path(folder) / MANIFEST)
    departures = [text for text in manifest_findings(listed, folder) if text != f"{MANIFEST}: extra"]
    return len(listed), name_findings(listed) + departures


def record_of(place, name):
    """The path of the repository's two-line record of the supplement `name` below `place`."""
    return Path(place) / "manifests" / f"{name}.sha256"


def archive_of(place, name):
    return Path(place) / "dist" / f"{name}.tar.gz"


@contextmanager
def naming(path):
    """A full disk and the like say which file they met."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: {reason}; make room or choose another --out, and run again") from None


def frozen_findings(place, name):
    """Every way the frozen supplement `name` below `place` departs from its record: list, files, archive."""
    folder, record = Path(place) / name, read_manifest(record_of(place, name))
    lists, archive = f"{name}/{MANIFEST}", f"dist/{name}.tar.gz"
    if set(record) != {lists, archive}:
        return [f"{record_of(place, name)}: expected {lists} and {archive}, found {', '.join(sorted(record))}"]
    if not (folder / MANIFEST).is_file():
        return [f"{lists}: missing"]
    found = {lists: sha256_file(folder / MANIFEST), archive: sha256_bytes(archive_bytes(read_folder(folder), name))}
    findings = [f"{what}: changed: expected {record[what]}, found {digest}"
                for what, digest in found.items() if digest != record[what]]
    kept = archive_of(place, name)
    if kept.exists() and (digest := sha256_file(kept)) != record[archive]:
        findings.append(f"{kept}: changed: expected {record[archive]}, found {digest}")
    unlisted = found[lists] != record[lists]  # a changed list says nothing about the files
    return findings if unlisted else findings + [f"{name}/{text}" for text in folder_findings(folder)[1]]
