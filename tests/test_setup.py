"""`make setup` names a Python that is too old, and makes a sound environment whatever an earlier try left."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tiny.documents import wheel

ROOT = Path(__file__).resolve().parents[1]
OLD_PYTHON = """\
#!/bin/sh
exec {python} -c 'import sys; sys.version_info = (3, 9, 1); sys.version = "3.9.1"; exec(sys.argv[1])' "$2"
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose only requirement is a wheel that pip finds in a local folder, with user installs switched on."""
    links = tmp_path / "links"
    links.mkdir()
    info = "tiny_package-1.0.dist-info/"
    wheel(links / "tiny_package-1.0-py3-none-any.whl", [
        ("tiny_package.py", b""), (info + "METADATA", "Metadata-Version: 2.1\nName: tiny-package\nVersion: 1.0\n"),
        (info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), (info + "RECORD", "")])
    (tmp_path / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {links}\n[install]\nuser = true\n")
    shutil.copy(ROOT / "Makefile", tmp_path)
    for path in ROOT.glob("requirements*.txt"):
        (tmp_path / path.name).write_text("tiny-package==1.0\n")
    return tmp_path


def make_setup(folder, python):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment["PIP_CONFIG_FILE"] = str(folder / "pip.conf")
    command = ["make", "-C", str(folder), "setup", f"PYTHON={python}"]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_python_that_is_too_old_is_named_before_anything_is_made(checkout):
    (checkout / "python3.9").write_text(OLD_PYTHON.format(python=sys.executable))
    (checkout / "python3.9").chmod(0o755)
    done = make_setup(checkout, checkout / "python3.9")
    assert done.returncode != 0 and "Python 3.11.4 or newer is needed" in done.stderr and "is 3.9.1" in done.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.slow
def test_what_a_failed_first_try_left_is_made_anew_and_user_installs_do_no_harm(checkout):
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").write_text("#!/bin/sh\nexit 1\n")
    (checkout / ".venv/left").write_text("by the first try")
    done = make_setup(checkout, sys.executable)
    assert done.returncode == 0, done.stderr
    assert not (checkout / ".venv/left").exists()
    subprocess.run([checkout / ".venv/bin/python", "-c", "import tiny_package"], check=True)
    assert "Nothing to be done" in make_setup(checkout, "python-that-is-missing").stdout
