"""A supplement arrives whole and checked under its name, or not at all.

A real HTTP server on this machine, real kills, and a real limit on the size of files, by which a write fails in the
middle as on a full disk. What a server may do to a download is in test_transfer.py.
"""

import gzip
import resource
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

import fetch_supplement
from corpora import transfer
from evidence import InputError
from tiny.server import PAGE
from tiny.supplement import (
    BUNDLE,
    DIGEST,
    EXPECTED,
    FILES,
    TOP,
    arguments,
    bundle_members,
    content_of,
    make_bundle,
    make_tar,
    manifest_of,
    member,
    named_members,
    names_in,
    sha256,
)

ROOT = Path(__file__).resolve().parents[1]


def get(published, digest=DIGEST):
    server, folder = published
    return fetch_supplement.main(arguments(f"{server.url}/v1.tar.gz", folder / "out", digest))


def get_file(folder, data, digest=None):
    """Exit code of fetching an archive of these bytes, whose SHA-256 is right unless another one is given."""
    (folder / "a.tar.gz").write_bytes(data)
    return fetch_supplement.main(arguments(folder / "a.tar.gz", folder / "out", digest or sha256(data)))


# ------------------------------------------------------------------------------------------ an address


@pytest.mark.parametrize("plan", [["good"], [503, "cut", "cut", "good"], ["redirect", "good"], ["encoded"]])
def test_a_troubled_server_still_gives_the_whole_folder(published, capsys, plan):
    published[0].plan = plan
    assert get(published) == 0
    folder = published[1]
    assert content_of(folder / "out") == EXPECTED and names_in(folder) == ["out", "out.tar.gz"]
    assert (folder / "out.tar.gz").read_bytes() == BUNDLE
    printed = capsys.readouterr().out
    assert f"{len(BUNDLE):,} bytes, SHA-256 {DIGEST}\n" in printed and "3 files listed, none missing" in printed
    assert "2 checks, 0 failed\n" in printed


def test_the_last_line_is_a_command_that_checks_the_folder(published, capsys):
    get(published)
    command = capsys.readouterr().out.splitlines()[-1].split(": ")[1]
    done = subprocess.run(command.replace("python ", f"{sys.executable} "), shell=True, capture_output=True, text=True)
    assert done.stdout == "0 failed\n"


@pytest.mark.parametrize("plan", [["page"], ["cut", "page"], ["unsized cut"], ["cut", "splice"]])
def test_what_is_not_the_archive_is_exit_code_1_and_leaves_nothing(published, capsys, plan):
    server, folder = published
    server.plan = plan
    assert get(published) == 1
    printed = capsys.readouterr().out
    assert f"FAIL {server.url}/v1.tar.gz: SHA-256 differs: expected {DIGEST}, found " in printed
    if "page" in plan:
        assert f"found {sha256(PAGE)} ({len(PAGE)} bytes that begin b'<!DOCTYPE html>" in printed
    assert names_in(folder) == []
    server.plan = ["good"]
    assert get(published) == 0


def test_a_server_that_does_not_give_it_is_exit_code_2_and_no_folder(published):
    published[0].plan = [404]
    with pytest.raises(InputError, match=f"{published[0].url}/v1.tar.gz: HTTP status 404"):
        get(published)
    assert names_in(published[1]) == []


def without(modules, folder, source, terminal=False):
    """The finished process of a fetch to folder/out where these modules are not installed."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.modules.update(dict.fromkeys({modules}))\n"
    code += "sys.stderr.isatty = lambda: True\n" if terminal else ""
    code += "import evidence, fetch_supplement; sys.exit(evidence.run_script(fetch_supplement.main))"
    command = [sys.executable, "-c", code, *arguments(source, folder / "out")]
    return subprocess.run(command, capture_output=True, text=True)


def test_without_requests_an_address_is_exit_code_2_and_says_what_helps(published):
    server, folder = published
    done = without(["requests"], folder, f"{server.url}/v1.tar.gz")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and server.requests == [] and names_in(folder) == []
    assert "python -m pip install requests" in done.stderr
    (folder / "out.tar.gz").write_bytes(BUNDLE)
    assert without(["requests"], folder, f"{server.url}/v1.tar.gz").returncode == 0


def test_without_tqdm_a_terminal_gets_lines(published):
    server, folder = published
    assert without(["tqdm"], folder, f"{server.url}/v1.tar.gz", terminal=True).returncode == 0
    assert content_of(folder / "out") == EXPECTED


def test_progress_is_a_line_at_every_five_million_bytes(capsys):
    with fetch_supplement.progress("downloaded") as advance:
        for _ in range(13):
            advance(10**6)
    assert capsys.readouterr().out == "downloaded: 5 MB\ndownloaded: 10 MB\n"


def test_the_archive_of_an_earlier_call_is_used_and_another_file_is_not_overwritten(published):
    server, folder = published
    (folder / "out.tar.gz").write_bytes(BUNDLE)
    assert get(published) == 0 and server.requests == []
    (folder / "other.tar.gz").write_bytes(b"mine")
    with pytest.raises(InputError, match="other.tar.gz: this is not the file with SHA-256"):
        fetch_supplement.main(arguments(f"{server.url}/v1.tar.gz", folder / "other"))
    assert (folder / "other.tar.gz").read_bytes() == b"mine" and server.requests == []


# ---------------------------------------------------------------------------------------------- a file


def test_a_file_works_the_same_with_the_standard_library_alone(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(BUNDLE)
    absent = "import sys; sys.modules.update(dict.fromkeys(['requests', 'numpy', 'pyarrow', 'tqdm'])); "
    code = absent + f"sys.path.insert(0, {str(ROOT)!r}); import fetch_supplement; sys.exit(fetch_supplement.main())"
    command = [sys.executable, "-S", "-c", code, *arguments("a.tar.gz", "new/out", DIGEST.upper())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert content_of(tmp_path / "new/out") == EXPECTED and names_in(tmp_path) == ["a.tar.gz", "new"]


def test_a_wrong_hash_is_exit_code_1_before_anything_is_unpacked_and_the_file_stays(tmp_path, capsys):
    assert get_file(tmp_path, BUNDLE, "0" * 64) == 1
    printed = capsys.readouterr().out
    assert f"FAIL {tmp_path / 'a.tar.gz'}: SHA-256 differs: expected {'0' * 64}, found {DIGEST}\n" in printed
    assert names_in(tmp_path) == ["a.tar.gz"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_an_existing_out_is_refused_before_anything_is_asked(published, make):
    make(published[1] / "out")
    with pytest.raises(InputError, match="out: exists"):
        get(published)
    assert published[0].requests == [] and names_in(published[1]) == ["out"]


@pytest.mark.parametrize("source", ["nowhere.tar.gz", ".", "ftp://example.org/v1.tar.gz"])
def test_a_source_that_is_neither_file_nor_address_is_named(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"{source}: no such file; expected a .tar.gz"):
        fetch_supplement.main(arguments(source, tmp_path / "out"))
    assert names_in(tmp_path) == []


def test_a_sha256_that_is_none_is_a_usage_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        fetch_supplement.main([*arguments("a", tmp_path / "out"), "--sha256", "abc"])
    assert caught.value.code == 2 and "--sha256" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------ its members


def with_members(*more):
    return make_tar(bundle_members() + list(more))


@pytest.mark.parametrize("tar, finding", [
    (with_members(member(f"{TOP}/l", kind=tarfile.SYMTYPE, linkname="/etc/passwd")), "not a regular file"),
    (with_members(member(f"{TOP}/l", kind=tarfile.LNKTYPE, linkname=f"{TOP}/verify_all.py")), "not a regular file"),
    (with_members(member(f"{TOP}/d", kind=tarfile.DIRTYPE)), "not a regular file"),
    (with_members(member(f"{TOP}/d", kind=tarfile.FIFOTYPE)), "not a regular file"),
    (with_members(*named_members("../x")), "'supplement_v1/../x': not in the list"),
    (with_members(member("/etc/x", b"x")), "'/etc/x': not in the list"),
    (with_members(member("elsewhere/x", b"x")), "'elsewhere/x': not in the list"),
    (with_members(*named_members("verify_all.py")), "verify_all.py': occurs twice"),
    (with_members(*named_members("Verify_All.py")), "Verify_All.py': not in the list"),
    (make_tar(bundle_members()[1:]), "'supplement_v1/verify_all.py': missing"),
    (make_tar(named_members("verify_all.py")), "no member supplement_v1/manifest.sha256"),
    (make_tar([]), "no member /manifest.sha256"),
    (make_tar(bundle_members(FILES | {"A": b"", "a": b""})), "differs only in case"),
    (make_tar(bundle_members(FILES, b"")), "manifest.sha256: an empty list"),
    (make_tar(bundle_members(FILES, manifest_of(FILES | {"../x": b""}))), "unsafe path '../x'"),
    (make_tar(bundle_members(FILES, manifest_of(FILES | {"verify_all.py": b"y"}))), "verify_all.py: changed"),
    (make_tar(bundle_members())[:100_000], "unexpected end"),
    (b"x" * 2000, "refused: "),
])
def test_an_archive_of_other_members_than_its_list_names_gets_no_folder(tmp_path, capsys, tar, finding):
    assert get_file(tmp_path, gzip.compress(tar, 1, mtime=0)) == 1
    printed = capsys.readouterr().out
    assert f"FAIL {tmp_path / 'a.tar.gz'}: refused: " in printed and finding in printed
    assert names_in(tmp_path) == ["a.tar.gz"]


@pytest.mark.parametrize("data", [b"", b"<!DOCTYPE html>", BUNDLE[:len(BUNDLE) // 2]])
def test_a_file_that_is_no_archive_is_refused(tmp_path, capsys, data):
    assert get_file(tmp_path, data) == 1
    assert "refused: " in capsys.readouterr().out and names_in(tmp_path) == ["a.tar.gz"]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_sound_archive_is_unpacked_in_every_tar_format(tmp_path, form):
    files = FILES | {f"{'long/' * 18}{'n' * 40}.json": b"{}"}
    assert get_file(tmp_path, gzip.compress(make_tar(bundle_members(files), form), mtime=0)) == 0
    assert content_of(tmp_path / "out") == files | {"manifest.sha256": manifest_of(files)}


# ------------------------------------------------------------------------------------- kills, full disks


def start(arguments, **options):
    command = [sys.executable, str(ROOT / "fetch_supplement.py"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_download_killed_in_the_middle_is_resumed_by_the_same_command(published):
    server, folder = published
    server.plan, part = ["stall", "good"], folder / "out.tar.gz.part"
    kept = len(BUNDLE) // 2 // transfer.CHUNK_BYTES * transfer.CHUNK_BYTES
    process, until = start(arguments(f"{server.url}/v1.tar.gz", folder / "out")), time.monotonic() + 60
    while not (part.exists() and part.stat().st_size >= kept > 0) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert names_in(folder) == ["out.tar.gz.part", "out.tar.gz.part.validator"]
    size = part.stat().st_size
    assert size > 0 and part.read_bytes() == BUNDLE[:size]
    assert get(published) == 0 and server.requests[-1][1] == f"bytes={size}-"
    assert content_of(folder / "out") == EXPECTED and names_in(folder) == ["out", "out.tar.gz"]


def test_a_kill_before_the_folder_has_its_name_leaves_no_folder_of_that_name(published):
    server, folder = published
    code = (f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); import fetch_supplement\n"
            "fetch_supplement.Path.rename = lambda *paths: os.kill(os.getpid(), 9)\n"
            "fetch_supplement.main(sys.argv[1:])")
    (folder / "out.tar.gz").write_bytes(BUNDLE)
    command = [sys.executable, "-c", code, *arguments(folder / "out.tar.gz", folder / "out")]
    assert subprocess.run(command, capture_output=True).returncode == -signal.SIGKILL
    assert not (folder / "out").exists() and any(name.startswith(".out.") for name in names_in(folder))
    assert get(published) == 0 and content_of(folder / "out") == EXPECTED


def limited(size):
    """A process whose files cannot grow over `size` bytes: the write fails in the middle, as on a full disk."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))}


def test_a_disk_that_fills_up_in_a_download_is_named_and_the_next_call_resumes(published):
    server, folder = published
    process = start(arguments(f"{server.url}/v1.tar.gz", folder / "out"), **limited(100_000))
    error = process.communicate()[1]
    assert process.returncode == 2 and error.count("\n") == 1
    assert f"{folder / 'out.tar.gz'}: File too large; make room" in error
    assert names_in(folder) == ["out.tar.gz.part", "out.tar.gz.part.validator"]
    assert get(published) == 0 and server.requests[-1][1] == "bytes=100000-"
    assert content_of(folder / "out") == EXPECTED


def test_a_disk_that_fills_up_while_files_are_written_leaves_nothing(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(BUNDLE)
    process = start(arguments(tmp_path / "a.tar.gz", tmp_path / "out"), **limited(100_000))
    error = process.communicate()[1]
    assert process.returncode == 2 and f"{tmp_path / 'out'}: File too large; make room" in error
    assert names_in(tmp_path) == ["a.tar.gz"]


def test_an_archive_with_other_times_and_owners_gives_the_same_folder(tmp_path):
    members = [member(f"{TOP}/{name}", content, mtime=5, uid=7, uname="somebody")
               for name, content in EXPECTED.items()]
    assert get_file(tmp_path, gzip.compress(make_tar(members), mtime=9)) == 0
    assert content_of(tmp_path / "out") == EXPECTED
    assert make_bundle() == BUNDLE
