"""What a supplement is: a folder that holds exactly what its own list names, and an archive of it with the same bytes everywhere.

Shared by freeze_supplement.py, check_manifests.py and verify_all.py, and carried in every supplement. Standard library only.

supplement_vN/manifest.sha256 lists every other file of the folder. manifests/supplement_vN.sha256, in the repository, lists that
list and the archive: it alone binds a frozen supplement. The repository's own copies of the same files may move on.

The archive is a POSIX ustar file in a gzip frame of *stored* blocks, both written out here or by `tarfile` from fixed fields:
zlib, whose compressed bytes differ between versions and builds, is used for the CRC alone. Equality therefore rests on two
formats that do not change, at the price of a larger download (a few MB).
"""

import io
import struct
import tarfile
import zlib
from pathlib import Path

from evidence import manifest_findings, read_manifest, sha256_bytes, sha256_file

MANIFEST = "manifest.sha256"
MODIFIED = 946_684_800  # 2000-01-01 UTC: tar warns of 1970
STORED_BLOCK = 65_535


def gzip_stored(data):
    """A gzip file of `data` (bytes) in stored blocks: no name, no time, no compression."""
    blocks = [data[start : start + STORED_BLOCK] for start in range(0, len(data), STORED_BLOCK)] or [b""]
    parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]  # deflate; no flags, no time, no level; system unknown
    for number, block in enumerate(blocks, 1):
        parts += [struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF), block]
    return b"".join([*parts, struct.pack("<II", zlib.crc32(data), len(data) % 2**32)])


def archive_bytes(files, folder):
    """The .tar.gz of {name: bytes} below `folder`: sorted members, one mode, owner and time, nothing else."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8", errors="strict") as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mode, member.mtime = len(files[name]), 0o644, MODIFIED
            tar.addfile(member, io.BytesIO(files[name]))
    return gzip_stored(buffer.getvalue())


def read_folder(folder):
    """{name relative to the folder: bytes} of every file in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def folder_findings(folder):
    """(number of files listed, every way the folder departs from its own list)."""
    listed = read_manifest(Path(folder) / MANIFEST)
    return len(listed), [text for text in manifest_findings(listed, folder) if text != f"{MANIFEST}: extra"]


def record_of(place, name):
    """The path of the repository's two-line record of the supplement `name` below `place`."""
    return Path(place) / "manifests" / f"{name}.sha256"


def archive_of(place, name):
    return Path(place) / "dist" / f"{name}.tar.gz"


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
