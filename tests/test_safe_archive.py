"""An archive with one harmful member is refused whole, by that cause, before anything is written; a sound one is read.

The archives are made member by member (tiny_supplement.py) and fetched as files whose hash is right.
"""

import gzip
import io
import random
import struct
import tarfile
import tracemalloc
import zipfile

import pytest

import fetch_supplement
from bundles import unpack as safe_archive
from tiny.supplement import FILES, TOP, bundle_members, make_bundle, make_tar, manifest_of, member, sha256
from tiny.supplement import named_members as named

MB = 10**6


def read(data, largest=2 * MB, most=50):
    return safe_archive.read_archive(data, "a.tar.gz", largest, most)


def fetched(folder, data, monkeypatch, capsys, *options):
    """What fetching these bytes prints; it must fail by a false check, write nothing, and not begin to."""
    monkeypatch.setattr(fetch_supplement, "write_files", lambda files, folder: pytest.fail("it began to write"))
    (folder / "a.tar.gz").write_bytes(data)
    arguments = [str(folder / "a.tar.gz"), "--sha256", sha256(data), "--out", str(folder / "out"), *options]
    assert fetch_supplement.main(arguments) == 1
    assert [path.name for path in folder.iterdir()] == ["a.tar.gz"]
    printed = capsys.readouterr().out
    assert printed.endswith("2 checks, 1 failed\n")
    return printed


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_sound_archive_is_read_in_every_tar_format(form):
    files = FILES | {f"{'long/' * 18}{'n' * 40}.json": b"{}"}
    folders = [member(TOP, kind=tarfile.DIRTYPE), member(f"{TOP}/deep/", kind=tarfile.DIRTYPE)]
    tar = make_tar([*folders, *bundle_members(files)], form)
    found, top = read(gzip.compress(tar, mtime=0))
    assert top == TOP and found == files | {"manifest.sha256": manifest_of(files)}


@pytest.mark.parametrize("members, reason", [
    (named("../x"), "'supplement_v1/../x': unsafe path"),
    (named("a/../../../x"), "unsafe path"),
    ([member("/etc/x", b"x")], "'/etc/x': unsafe path, it is absolute"),
    (named("./x"), "unsafe path"), (named("a//x"), "unsafe path"), ([member("", b"x")], "'': unsafe path"),
    ([member(f"{TOP}/l", kind=tarfile.SYMTYPE, linkname="/etc/passwd")], "'supplement_v1/l': a link"),
    ([member(f"{TOP}/l", kind=tarfile.SYMTYPE, linkname="verify_all.py")], "a link"),
    ([member(f"{TOP}/l", kind=tarfile.LNKTYPE, linkname=f"{TOP}/verify_all.py")], "a link"),
    ([member(TOP, kind=tarfile.SYMTYPE, linkname="/tmp")], "a link"),
    *(([member(f"{TOP}/d", kind=kind)], "device") for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)),
    ([member(f"{TOP}/d", kind=b"Q")], "device"), ([member(f"{TOP}/d", kind=tarfile.CONTTYPE)], "device"),
    (named("verify_all.py"), "'supplement_v1/verify_all.py': stands twice"),
    ([member(f"{TOP}/e", kind=tarfile.DIRTYPE)] * 2, "'supplement_v1/e': stands twice"),
    (named("Verify_All.py"), "differs only in case from"),
    (named("DEEP/x"), "'supplement_v1/deep': differs only in case"),
    (named("deep"), "'supplement_v1/deep': both a file and a folder"),
    (named("verify_all.py/x"), "'supplement_v1/verify_all.py': both a file and a folder"),
    (named("NUL"), "keeps for a device"), (named("com1.tar.gz"), "keeps for a device"),
    (named("end."), "a dot at the end"), (named("-rf"), "a dash at the beginning"),
    *((named(name), f"{f'{TOP}/{name}'!r}: characters other") for name in
      ("end ", "a:b", "a\\b", "a?", "a*", "a|b", 'a"', "a\nb", "a\tb", "\x1b[2J", "é", "e\u0301", "\udcff", "\u202e")),
    (named("n" * 200), "214 characters, over 200"),
    ([member("elsewhere/x", b"x")], "expected one folder that holds all files, found ['elsewhere', 'supplement_v1']"),
    ([member(f"{TOP}/n", size=-1)], "-1 bytes"),
])
def test_one_harmful_member_refuses_the_whole_archive(tmp_path, monkeypatch, capsys, members, reason):
    form = tarfile.GNU_FORMAT if members[0][0].size < 0 else tarfile.PAX_FORMAT
    for order in (bundle_members() + members, members + bundle_members()):
        printed = fetched(tmp_path, gzip.compress(make_tar(order, form), 1, mtime=0), monkeypatch, capsys)
        assert f"FAIL {tmp_path / 'a.tar.gz'}: refused: " in printed and reason in printed
        assert printed.replace("\n", "").isprintable()


def test_a_sparse_file_is_refused_however_it_is_written():
    gnu = bytearray(make_tar([member(f"{TOP}/s", b"x" * 512, tarfile.GNUTYPE_SPARSE)], tarfile.GNU_FORMAT))
    gnu[386:410] = b"00000000000\x0000000001000\x00"
    gnu[483:495] = b"77777777777\x00"
    gnu[148:156] = b"%06o\0 " % (sum(gnu[:148]) + 8 * 32 + sum(gnu[156:512]))
    headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(8 << 30)}
    pax = make_tar([member(f"{TOP}/s", b"x", pax_headers=headers)])
    for tar in (bytes(gnu), pax):
        with pytest.raises(safe_archive.Unsafe, match="supplement_v1/s': a link, device or sparse file"):
            read(gzip.compress(tar, mtime=0))


def test_many_findings_are_named_up_to_ten_and_counted():
    with pytest.raises(safe_archive.Unsafe, match="n09.*and 15 more") as caught:
        read(gzip.compress(make_tar(named(*(f"n{number:02}?" for number in range(25))))))
    assert "n10" not in str(caught.value)


# --------------------------------------------------------------------------------------------- bombs


def pax_header(keys, size=None, kind=tarfile.XHDTYPE):
    """A PAX header block that says `keys`, or one that only declares `size` bytes."""
    body = keys.encode()
    info = member("x", body, kind)[0]
    info.size = len(body) if size is None else size
    return info.tobuf(tarfile.USTAR_FORMAT) + body + b"\0" * (-len(body) % 512)


@pytest.mark.parametrize("name, tar, reason", [
    ("zeros", make_tar([member(f"{TOP}/zeros", bytes(3 * MB))]), "unpacks to over 2,000,000 bytes"),
    ("zeros after the end", make_tar(named("x")) + bytes(3 * MB), "unpacks to over 2,000,000 bytes"),
    ("a huge header", pax_header("", 3 * MB) + bytes(3 * MB), "unpacks to over 2,000,000 bytes"),
    ("many members", make_tar(named(*map(str, range(51)))), "over 50 members"),
    ("a size that is not there", make_tar(named("x"))[:512 + 512].replace(b"00000000001\0", b"77777777777\0"), "tar"),
    ("a name of many parts", make_tar([member(f"{TOP}/{'a/' * 20_000}x", b"x")]), "40015 characters, over 200"),
    ("names without end", make_tar([member("n" * 500_000), member("m" * 500_000, kind=tarfile.FIFOTYPE)]), "over 200"),
    ("a header copied to every member", pax_header("".join(f"13 k{n:06}=v\n" for n in range(50_000)), None,
     tarfile.XGLTYPE) + make_tar(named(*map(str, range(49)))), "it has a global header"),
    ("a chain of headers", pax_header("12 path=a/x\n") * 1500 + make_tar(named("x")), "not a readable tar"),
])
def test_a_bomb_is_refused_by_the_bound_that_it_breaks_in_little_memory_and_few_words(
        tmp_path, monkeypatch, capsys, name, tar, reason):
    data = gzip.compress(tar, 1, mtime=0)
    tracemalloc.start()
    printed = fetched(tmp_path, data, monkeypatch, capsys, "--folder-mb", "2", "--members", "50")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reason in printed and len(printed) < 2500 and peak < 32 * MB


def test_a_member_that_points_back_to_itself_ends_by_the_bound_on_members():
    """A negative size makes the next header the same one, for ever."""
    tar = make_tar([member(f"{TOP}/again", size=-1024)], tarfile.GNU_FORMAT)
    with pytest.raises(safe_archive.Unsafe, match="over 50 members|not a readable tar"):
        read(gzip.compress(tar, mtime=0))


def test_bounds_are_the_last_allowed_value():
    tar = make_tar(named("x", "y"))
    assert len(read(gzip.compress(tar, mtime=0), largest=len(tar), most=2)[0]) == 2
    for largest, most in [(len(tar) - 1, 2), (len(tar), 1)]:
        with pytest.raises(safe_archive.Unsafe):
            read(gzip.compress(tar, mtime=0), largest, most)


# -------------------------------------------------------------------------------------------- damage


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{TOP}/x", b"x")
    return file.getvalue()


BUNDLE, TAR = make_bundle(), make_tar(bundle_members())


@pytest.mark.parametrize("data, reason", [
    (BUNDLE[:-1], "not a whole .tar.gz"), (BUNDLE[:len(BUNDLE) // 2], "not a whole .tar.gz"),
    (b"", "not a readable tar"),
    (BUNDLE[:10] + b"\xff" + BUNDLE[11:], "not a whole .tar.gz"),
    (BUNDLE[:-5] + b"\xff" + BUNDLE[-4:], "not a whole .tar.gz: CRC"), (BUNDLE + b"more", "not a whole .tar.gz"),
    (TAR, "not a whole .tar.gz"), (zipped(), "not a whole .tar.gz"), (b"<!DOCTYPE html>", "not a whole .tar.gz"),
    (gzip.compress(b"x" * 2000, mtime=0), "not a readable tar"), (gzip.compress(bytes(10240), mtime=0), "expected one folder"),
    (gzip.compress(TAR + TAR, mtime=0), "not a readable tar: byte"),
    (gzip.compress(TAR[:1024] + b"\xff" + TAR[1025:], mtime=0), "not a readable tar: byte 1024 begins neither"),
    (gzip.compress(TAR[:100_000], mtime=0), "not a readable tar: unexpected end"),
])
def test_a_damaged_archive_is_never_read_as_a_shorter_one(data, reason):
    with pytest.raises(safe_archive.Unsafe, match=f"^a.tar.gz: refused: .*{reason}"):
        read(data)


def test_no_damage_of_a_header_is_an_unforeseen_error():
    """Every outcome is a refusal, or an archive whose names are harmless; both must occur."""
    tar, rng = make_tar(bundle_members({"a": b"x", "n" * 150: b"y"})), random.Random(3)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(3000):
        damaged = bytearray(tar)
        for _ in range(rng.choice([1, 2, 8])):
            at = rng.randrange(0, 4096)
            damaged[at] = rng.choice([0, 0x2f, 0x30, 0x37, 0x78, 0x80, 0xff, rng.randrange(256)])
            header = at // 512 * 512
            total = sum(damaged[header:header + 148]) + 8 * 32 + sum(damaged[header + 156:header + 512])
            struct.pack_into("8s", damaged, header + 148, b"%06o\0 " % total)
        try:
            files, _ = read(gzip.compress(bytes(damaged), 1, mtime=0))
            assert all(".." not in name.split("/") and not name.startswith("/") for name in files)
            outcomes["read"] += 1
        except safe_archive.Unsafe:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 50, outcomes
