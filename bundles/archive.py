"""A supplement: a folder of exactly the files that its list names, and an archive of it with the same bytes everywhere.

Used by freeze_supplement.py, fetch_supplement.py, check_manifests.py and verify_all.py, and carried in every
supplement. Standard library only.

supplement_vN/manifest.sha256 lists every other file of the folder. In the repository manifests/supplement_vN.sha256
lists that list and the archive, and so binds the frozen supplement.

The archive is a POSIX ustar file in a gzip frame of *stored* blocks, both written out here: compressed bytes differ
between versions and builds of zlib, and tar headers differ between versions of Python. The price is a larger download
of a few MB.
"""

import stat
import struct
import tarfile
import zlib
from pathlib import Path

from bundles.names import name_findings
from evidence import InputError, sha256_bytes, sha256_file
from manifest import manifest_findings, read_manifest

MANIFEST = "manifest.sha256"
MODIFIED = 946_684_800  # 2000-01-01 UTC: tar warns of 1970
STORED_BLOCK = 65_535
LONGEST_NAME = 100
EVIDENCE = (".json", ".npy", ".png", ".sha256")
UNWANTED_MODE = 0o113  # a file that anybody may execute, or that everybody may write


def gzip_stored(data):
    """Return a gzip file of `data` (bytes) in stored blocks, without a name, a time or compression."""
    blocks = [data[start : start + STORED_BLOCK] for start in range(0, len(data), STORED_BLOCK)] or [b""]
    parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]  # deflate; no flags, no time, no level; system unknown
    for number, block in enumerate(blocks, 1):
        parts += [struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF), block]
    return b"".join([*parts, struct.pack("<II", zlib.crc32(data), len(data) % 2**32)])


def member(name, data):
    """Return a regular file of a ustar archive, header and padded bytes: mode 644, owner 0, one fixed time."""
    path = name.encode("utf-8")
    if len(path) > LONGEST_NAME:
        raise InputError(f"{name}: {len(path)} bytes; a name in the archive has at most {LONGEST_NAME}")
    before = path.ljust(100, b"\0") + b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (0o644, 0, 0, len(data), MODIFIED)
    after = b"0" + bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\x000000000\0" + bytes(167)
    checksum = sum(before) + sum(after) + 8 * ord(" ")
    return b"".join([before, b"%06o\0 " % checksum, after, data, bytes(-len(data) % 512)])


def archive_bytes(files, folder):
    """Return the .tar.gz of {name: bytes} below `folder`: regular files in the order of their names."""
    tar = b"".join(member(f"{folder}/{name}", files[name]) for name in sorted(files)) + bytes(1024)
    return gzip_stored(tar + bytes(-len(tar) % 10_240))


def read_folder(folder):
    """Return {name relative to the folder: bytes} of every file in it."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# ----------------------------------------------------------------------------------------- closed world


def folder_findings(folder):
    """Return (number of files listed, findings): every way in which the folder departs from its own list.

    A finding is a listed name that some system cannot hold; a file that is missing, changed, a link or not listed; a
    folder without a listed file; or a file mode that differs from what was frozen.
    """
    folder = Path(folder)
    listed = read_manifest(folder / MANIFEST)
    departures = [text for text in manifest_findings(listed, folder) if text != f"{MANIFEST}: extra"]
    return len(listed), [*name_findings(listed), *departures, *_empty_folders(folder), *_mode_findings(folder, listed)]


def _empty_folders(folder):
    folders = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
    return [f"{path.relative_to(folder).as_posix()}: extra, an empty folder" for path in sorted(folders)
            if not any(path.iterdir())]


def _mode_findings(folder, listed):
    """Return a finding for each file that anybody may execute or everybody may write.

    Some file systems give such a mode to every file, and then it says nothing about the supplement.
    """
    paths = {name: folder / name for name in sorted({*listed, MANIFEST})}
    modes = {name: stat.S_IMODE(path.stat().st_mode) for name, path in paths.items() if path.is_file()}
    wrong = {name: mode for name, mode in modes.items() if mode & UNWANTED_MODE}
    if len(wrong) == len(modes):
        return []
    return [f"{name}: changed: mode {mode:04o}, expected 0644" for name, mode in wrong.items()]


def record_of(place, name):
    """Return the path of the repository's two-line record of the supplement `name` below `place`."""
    return Path(place) / "manifests" / f"{name}.sha256"


def archive_of(place, name):
    """Return the path of the archive of the supplement `name` below `place`."""
    return Path(place) / "dist" / f"{name}.tar.gz"


def frozen_findings(place, name):
    """Return every way in which the frozen supplement `name` below `place` departs from its record."""
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
    if found[lists] != record[lists]:  # a changed list says nothing about the files
        return findings
    return findings + [f"{name}/{text}" for text in folder_findings(folder)[1]]


# --------------------------------------------------------------------------------------------- unpacking


class Unsound(Exception):
    """An archive is damaged, or its members are not the files that its own list names."""


def _require_listed(members, top, listed):
    """Unsound unless the archive's members are exactly the listed files and the list, each once and a regular file."""
    names = [member.name for member in members]
    expected = {f"{top}/{name}" for name in [*listed, MANIFEST]}
    findings = [f"{member.name!r}: not a regular file" for member in members if not member.isreg()]
    findings += [f"{name!r}: not in the list" for name in sorted(set(names) - expected)]
    findings += [f"{name!r}: missing" for name in sorted(expected - set(names))]
    findings += name_findings(names)
    if findings:
        raise Unsound("; ".join(findings[:10]) + (f"; and {len(findings) - 10} more" if len(findings) > 10 else ""))


def unpack(archive, folder):
    """Unpack the .tar.gz at `archive` into the existing folder `folder`, and return (its top folder, files listed).

    The SHA-256 of the archive must have been checked before. Nothing but the list is unpacked until the members are
    known to be those that it names. Unsound says what is wrong, and may leave files in `folder`.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = tar.getmembers()
            top = members[0].name.split("/")[0] if members else ""
            tar.extract(f"{top}/{MANIFEST}", folder, filter="data")
            listed = read_manifest(folder / top / MANIFEST)
            _require_listed(members, top, listed)
            tar.extractall(folder, filter="data")
    except KeyError:
        raise Unsound(f"no member {top}/{MANIFEST}") from None
    except (tarfile.TarError, EOFError, zlib.error, InputError) as error:
        raise Unsound(str(error).replace(f"{folder}/", "")) from None
    findings = folder_findings(folder / top)[1]
    if findings:
        raise Unsound("; ".join(findings[:10]))
    return folder / top, len(listed)
