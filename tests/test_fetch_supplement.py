"""A supplement arrives whole and checked under its name, or not at all, whatever the server does.

A real HTTP server on this machine (troubled_server.py). Kills and full disks are in test_fetch_interrupted.py, hostile
archives in test_safe_archive.py.
"""

import gzip
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import fetch_supplement
from corpora.transfer import Patience
from evidence import InputError
from tiny.server import PAGE, server  # noqa: F401, a fixture
from tiny.supplement import (  # noqa: F401, a fixture
    BUNDLE,
    DIGEST,
    EXPECTED,
    FILES,
    TOP,
    arguments,
    content_of,
    make_bundle,
    make_tar,
    manifest_of,
    named_members,
    names_in,
    published,
    sha256,
)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(fetch_supplement, "PATIENCE", Patience(attempts=4, pause=0.01, timeout=0.5, longest_wait=5))


def get(published, *options, digest=DIGEST):
    server, folder = published
    return fetch_supplement.main(arguments(f"{server.url}/v1.tar.gz", folder / "out", digest, *options))


# ----------------------------------------------------------------------------------------- what comes


@pytest.mark.parametrize("plan", [
    ["good"], ["cut", "good"], ["slow", "good"], [503, "cut", "cut", "good"], ["cut", "ignore"], ["cut", "lie", "good"],
    ["redirect", "good"], ["cut", "redirect", "good"], ["unsized"], ["untagged"], ["encoded"], ["cut", "encoded"],
    ["negative chunk", "good"]])
def test_a_troubled_server_still_gives_the_whole_folder(published, capsys, plan):
    published[0].plan = plan
    assert get(published) == 0
    folder = published[1]
    assert content_of(folder / "out") == EXPECTED and names_in(folder) == ["out", "out.tar.gz"]
    assert (folder / "out.tar.gz").read_bytes() == BUNDLE
    printed = capsys.readouterr().out
    assert f"{len(BUNDLE):,} bytes, SHA-256 {DIGEST}\n" in printed and "3 files listed, none missing" in printed
    assert printed.endswith(f"3 checks, 0 failed\nThe supplement is in {folder / 'out'}; check what it says: "
                            f"cd {folder / 'out'} && python verify_all.py\n")


def test_what_is_fetched_runs_as_the_last_line_says(published, capsys):
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


def test_a_file_that_changed_between_attempts_is_never_spliced(published, monkeypatch):
    """With an entity tag the new file comes whole, without one the mixture is refused; the hash decides."""
    server, folder = published
    old = bytes(reversed(BUNDLE))
    for tag, moods, code in [('"two"', ["good"], 0), ('"one"', ["untagged"], 1)]:
        server.files["v1.tar.gz"], server.tag, server.plan = old, '"one"', ["cut", 404]
        with pytest.raises(InputError, match="404"):
            get(published)
        server.files["v1.tar.gz"], server.tag, server.plan = BUNDLE, tag, moods
        assert get(published) == code
        assert (folder / "out").exists() == (code == 0)
        if code == 0:
            assert content_of(folder / "out") == EXPECTED
            (folder / "out").rename(folder / "first")
            (folder / "out.tar.gz").unlink()


@pytest.mark.parametrize("plan, options, reason", [
    ([404], [], "HTTP status 404"), ([503], [], "given up after 4 tries: HTTP status 503"),
    (["slow"], [], "given up after 4 tries"), (["redirect"], [], "redirect"), (["no address"], [], "no address"),
    (["no text"], [], "no address"), (["painted"], [], r"HTTP status 404 '\\x1b\[31mNot here'"),
    (["negative chunk"], [], "given up after 4 tries"),
    (["endless"], ["--archive-mb", "1"], "over the bound of 1000000"),
])
def test_a_server_that_does_not_give_it_is_exit_code_2_and_no_folder(published, plan, options, reason):
    published[0].plan = plan
    with pytest.raises(InputError, match=f"{published[0].url}/v1.tar.gz: .*{reason}"):
        get(published, *options)
    assert not {"out", "out.tar.gz"}.intersection(names_in(published[1]))


def test_the_default_bounds_take_25_million_bytes_and_no_more_than_32(published, monkeypatch):
    """The bound goes to the download and to a file that is here."""
    server, folder = published
    for size, fits in [(25 * 10**6, True), (32 * 10**6 + 1, False)]:
        server.files["v1.tar.gz"] = data = bytes(size)
        if fits:
            assert get(published, digest=sha256(data)) == 1  # it comes, and is no archive
            continue
        with pytest.raises(InputError, match="over the bound of 32000000"):
            fetch_supplement.main(arguments(f"{server.url}/v1.tar.gz", folder / "other", sha256(data)))
        (folder / "big").write_bytes(data)
        with pytest.raises(InputError, match="big: over 32,000,000 bytes; --archive-mb"):
            fetch_supplement.main(arguments(folder / "big", folder / "other", sha256(data)))


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
    assert "python -m pip install requests, or download the archive yourself and give the file" in done.stderr
    (folder / "out.tar.gz").write_bytes(BUNDLE)
    assert without(["requests"], folder, f"{server.url}/v1.tar.gz").returncode == 0


def test_without_tqdm_a_terminal_gets_lines(published):
    server, folder = published
    assert without(["tqdm"], folder, f"{server.url}/v1.tar.gz", terminal=True).returncode == 0
    assert content_of(folder / "out") == EXPECTED


# ------------------------------------------------------------------------------------------- a file


def test_a_file_works_the_same_with_the_standard_library_alone(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(BUNDLE)
    absent = "import sys; sys.modules.update(dict.fromkeys(['requests', 'numpy', 'pyarrow', 'tqdm'])); "
    code = absent + f"sys.path.insert(0, {str(ROOT)!r}); import fetch_supplement; sys.exit(fetch_supplement.main())"
    command = [sys.executable, "-S", "-c", code, *arguments("a.tar.gz", "new/out", DIGEST.upper())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert content_of(tmp_path / "new/out") == EXPECTED and names_in(tmp_path) == ["a.tar.gz", "new"]


def test_a_wrong_hash_of_a_file_is_exit_code_1_and_the_file_stays(tmp_path, capsys):
    (tmp_path / "a.tar.gz").write_bytes(BUNDLE)
    assert fetch_supplement.main(arguments(tmp_path / "a.tar.gz", tmp_path / "out", "0" * 64)) == 1
    said = f"FAIL {tmp_path / 'a.tar.gz'}: SHA-256 differs: expected {'0' * 64}, found {DIGEST}\n1 checks, 1 failed\n"
    assert capsys.readouterr().out == said and names_in(tmp_path) == ["a.tar.gz"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_an_existing_out_is_refused_before_anything_is_asked(published, make):
    make(published[1] / "out")
    with pytest.raises(InputError, match="out: exists; nothing is overwritten"):
        get(published)
    assert published[0].requests == [] and names_in(published[1]) == ["out"]


def test_the_archive_of_an_earlier_call_is_used_and_another_file_is_not_overwritten(published):
    server, folder = published
    (folder / "out.tar.gz").write_bytes(BUNDLE)
    assert get(published) == 0 and server.requests == []
    (folder / "other.tar.gz").write_bytes(b"mine")
    with pytest.raises(InputError, match="other.tar.gz: not the file with SHA-256"):
        fetch_supplement.main(arguments(f"{server.url}/v1.tar.gz", folder / "other"))
    assert (folder / "other.tar.gz").read_bytes() == b"mine" and server.requests == []


@pytest.mark.parametrize("source", ["nowhere.tar.gz", ".", "ftp://example.org/v1.tar.gz"])
def test_a_source_that_is_neither_file_nor_address_is_named(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="expected a .tar.gz, or an address"):
        fetch_supplement.main(arguments(source, tmp_path / "out"))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("change", [
    ("--sha256", "abc"), ("--archive-mb", "0"), ("--members", "-1"), ("--folder-mb", "x")])
def test_bad_arguments_are_exit_code_2(tmp_path, capsys, change):
    with pytest.raises(SystemExit) as caught:
        fetch_supplement.main([*arguments("a", tmp_path / "out"), *change])
    assert caught.value.code == 2 and change[0] in capsys.readouterr().err


# ------------------------------------------------------------------------------------- its own list


@pytest.mark.parametrize("files, manifest, finding", [
    (FILES, manifest_of(FILES | {"more.json": b""}), "more.json: missing"),
    (FILES | {"more.json": b""}, manifest_of(FILES), "more.json: extra"),
    (FILES | {"verify_all.py": b"x"}, manifest_of(FILES), "verify_all.py: changed: expected "),
    (FILES | {"deep/manifest.sha256": b""}, manifest_of(FILES), "deep/manifest.sha256: extra"),
    (FILES, b"", "0 files listed, supplement_v1/manifest.sha256: an empty list checks nothing"),
    (FILES, manifest_of(FILES | {"../x": b""}), "supplement_v1/manifest.sha256:1: unsafe path '../x'"),
    (FILES, manifest_of(FILES | {"manifest.sha256": b""}), "manifest.sha256:3: the list names itself"),
    (FILES, manifest_of(FILES) * 2, "manifest.sha256:4: deep/er/empty.json is listed twice"),
])
def test_a_folder_that_its_own_list_contradicts_gets_no_name(tmp_path, capsys, files, manifest, finding):
    data = make_bundle(files, manifest)
    (tmp_path / "a.tar.gz").write_bytes(data)
    assert fetch_supplement.main(arguments(tmp_path / "a.tar.gz", tmp_path / "out", sha256(data))) == 1
    printed = capsys.readouterr().out
    assert f"FAIL {TOP}/manifest.sha256: " in printed and finding in printed and "The supplement" not in printed
    assert names_in(tmp_path) == ["a.tar.gz"]


def test_a_folder_without_a_list_gets_no_name(tmp_path, capsys):
    data = gzip.compress(make_tar(named_members("verify_all.py")))
    (tmp_path / "a.tar.gz").write_bytes(data)
    assert fetch_supplement.main(arguments(tmp_path / "a.tar.gz", tmp_path / "out", sha256(data))) == 1
    assert f"{TOP}/manifest.sha256: cannot be read: No such file" in capsys.readouterr().out
    assert names_in(tmp_path) == ["a.tar.gz"]


def test_the_folder_has_the_callers_permissions_not_the_archives(published):
    before = os.umask(0o027)
    try:
        assert get(published) == 0
    finally:
        os.umask(before)
    out = published[1] / "out"
    assert stat.S_IMODE(out.stat().st_mode) == 0o750
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*") if path.is_file()} == {0o640}


def test_progress_is_a_line_at_every_five_million_bytes(capsys):
    with fetch_supplement.progress("downloaded") as advance:
        for _ in range(13):
            advance(10**6)
    assert capsys.readouterr().out == "downloaded: 5 MB\ndownloaded: 10 MB\n"
