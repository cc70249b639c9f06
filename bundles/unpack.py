"""What is in this .tar.gz, if nothing in it can do harm? Standard library only; nothing is written.

An archive is taken whole or refused whole: its members lie in one folder, are plain files and folders with names that
every system holds (bundles/names.py), and stay within the sizes that the caller states.
"""

import gzip
import io
import tarfile
import zlib

from bundles.names import name_findings, shown

SHOWN = 10  # findings


class Unsafe(Exception):
    """The archive is refused; the text says where and why."""


def describe(findings):
    """One line of the first findings."""
    more = [f"and {len(findings) - SHOWN} more"] if len(findings) > SHOWN else []
    return "; ".join(findings[:SHOWN] + more)


def read_within(file, largest):
    """The bytes of an open file, or the first more than `largest` of them, in pieces: a high bound costs no memory."""
    pieces, size = [], 0
    while size <= largest and (piece := file.read(1 << 20)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _decompress(data, largest):
    try:
        with gzip.open(io.BytesIO(data)) as file:
            tar = read_within(file, largest)
    except (OSError, EOFError, zlib.error) as error:
        raise Unsafe(f"not a whole .tar.gz: {error}") from None
    if len(tar) > largest:
        raise Unsafe(f"it unpacks to over {largest:,} bytes")
    return tar


def _members(tar, most):
    """Every member of a tar, in order. tarfile takes a broken header for the end, so that only zeros may follow it."""
    members = []
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:") as archive:
            for member in archive:
                members.append(member)
                if archive.pax_headers:  # tarfile keeps a copy of it with each member
                    raise Unsafe("it has a global header, which no supplement needs")
                if len(members) > most:
                    raise Unsafe(f"it has over {most:,} members")
            end = archive.offset
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise Unsafe(f"not a readable tar: {error}") from None
    if tar[end:].strip(b"\0"):
        raise Unsafe(f"not a readable tar: byte {end} begins neither a member nor the end")
    return members


def _is_plain(member):
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.sparse


def _findings(members):
    plain = [member.name for member in members if _is_plain(member)]
    folders = [member.name for member in members if member.isdir()]
    findings = [f"{shown(member.name)}: a link, device or sparse file" for member in members
                if not _is_plain(member) and not member.isdir()]
    findings += [f"{shown(member.name)}: {member.size} bytes" for member in members if member.size < 0]
    findings += name_findings(plain, folders)
    tops = sorted({member.name.split("/")[0] for member in members})
    if len(tops) != 1 or tops[0] in plain:
        findings.append(f"expected one folder that holds all files, found [{', '.join(map(shown, tops[:SHOWN]))}]")
    return findings


def read_archive(data, where, largest, most):
    """({path within the one folder: its bytes}, the folder's name) of a .tar.gz.

    Unsafe, naming `where`, when it is damaged, unpacks to more than `largest` bytes, has more than `most` members, or
    has one that must not be unpacked. Folders without files are left out.
    """
    try:
        tar = _decompress(data, largest)
        members = _members(tar, most)
        findings = _findings(members)
        if findings:
            raise Unsafe(describe(findings))
    except Unsafe as error:
        raise Unsafe(f"{where}: refused: {error}") from None
    top, view = members[0].name.split("/")[0], memoryview(tar)
    return {member.name.removeprefix(f"{top}/"): view[member.offset_data:member.offset_data + member.size]
            for member in members if not member.isdir()}, top
