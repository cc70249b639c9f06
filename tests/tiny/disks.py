"""Real file systems that are full or read-only, for tests of the errors that they cause."""

import contextlib
import subprocess

import pytest


@contextlib.contextmanager
def _mounted(folder, *options):
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount file systems: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def small_disk(folder, size):
    """Mount an empty file system of `size` bytes at `folder`, as a context manager that gives the folder."""
    return _mounted(folder, "-t", "tmpfs", "-o", f"size={size}", "tmpfs")


@contextlib.contextmanager
def read_only(folder):
    """Make the existing `folder` read-only while the context lasts; root ignores file modes, but not this."""
    with _mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield folder
