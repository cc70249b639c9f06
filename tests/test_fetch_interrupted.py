"""A killed or failed fetch leaves no folder of the asked name, and the same command goes on where it stopped.

Real kills, and a real limit on the size of files, by which a write fails in the middle as on a full disk.
"""

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fetch_supplement
from corpora.transfer import CHUNK_BYTES
from evidence import InputError
from tiny.server import server  # noqa: F401, a fixture
from tiny.supplement import BUNDLE, EXPECTED, arguments, content_of, names_in, published  # noqa: F401, a fixture

ROOT = Path(__file__).resolve().parents[1]


def again(published):  # noqa: F811
    server, folder = published  # noqa: F811
    return fetch_supplement.main(arguments(f"{server.url}/v1.tar.gz", folder / "out"))


def start(arguments, **options):
    command = [sys.executable, str(ROOT / "fetch_supplement.py"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_download_killed_in_the_middle_is_resumed_by_the_same_command(published):
    server, folder = published
    server.plan, half, part = ["stall", "good"], len(BUNDLE) // 2, folder / "out.tar.gz.part"
    kept = half // CHUNK_BYTES * CHUNK_BYTES
    process, until = start(arguments(f"{server.url}/v1.tar.gz", folder / "out")), time.monotonic() + 60
    while not (part.exists() and part.stat().st_size >= kept > 0) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert names_in(folder) == ["out.tar.gz.part", "out.tar.gz.part.validator"]
    size = part.stat().st_size
    assert 0 < size <= half and part.read_bytes() == BUNDLE[:size]
    assert again(published) == 0 and server.requests[-1][1] == f"bytes={size}-"
    assert content_of(folder / "out") == EXPECTED and names_in(folder) == ["out", "out.tar.gz"]


def test_a_kill_while_files_are_written_leaves_no_folder_of_that_name(published):
    server, folder = published
    code = (f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); import fetch_supplement\n"
            "fetch_supplement.os.fsync = lambda handle: os.kill(os.getpid(), 9)\n"
            "fetch_supplement.main(sys.argv[1:])")
    (folder / "out.tar.gz").write_bytes(BUNDLE)
    command = [sys.executable, "-c", code, *arguments(folder / "out.tar.gz", folder / "out")]
    assert subprocess.run(command, capture_output=True).returncode == -signal.SIGKILL
    assert not (folder / "out").exists() and any(name.startswith(".out.") for name in names_in(folder))
    assert again(published) == 0 and content_of(folder / "out") == EXPECTED


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
    assert again(published) == 0 and server.requests[-1][1] == "bytes=100000-"
    assert content_of(folder / "out") == EXPECTED


def test_a_disk_that_fills_up_while_files_are_written_leaves_nothing(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(BUNDLE)
    process = start(arguments(tmp_path / "a.tar.gz", tmp_path / "out"), **limited(100_000))
    error = process.communicate()[1]
    assert process.returncode == 2 and f"{tmp_path / 'out'}: File too large; make room" in error
    assert names_in(tmp_path) == ["a.tar.gz"]


@pytest.mark.parametrize("mine", [{}, {"mine": b"mine"}])
def test_a_folder_that_appears_meanwhile_is_replaced_only_when_it_is_empty(tmp_path, monkeypatch, mine):
    (tmp_path / "a.tar.gz").write_bytes(BUNDLE)
    write, out = fetch_supplement.write_files, tmp_path / "out"

    def write_while(files, folder):
        write(files, folder)
        out.mkdir()
        write(mine, out)

    monkeypatch.setattr(fetch_supplement, "write_files", write_while)
    if mine:
        with pytest.raises(InputError, match="out: Directory not empty; .*choose another --out"):
            fetch_supplement.main(arguments(tmp_path / "a.tar.gz", out))
    else:
        assert fetch_supplement.main(arguments(tmp_path / "a.tar.gz", out)) == 0
    assert content_of(out) == (mine or EXPECTED) and names_in(tmp_path) == ["a.tar.gz", "out"]
