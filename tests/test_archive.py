"""A supplement's folder is compared with its list as a closed world: files, folders and modes."""

import pytest

from bundles.archive import folder_findings
from tiny.supplement import EXPECTED


@pytest.fixture
def folder(tmp_path):
    for name, content in EXPECTED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o644)
    return tmp_path


def test_a_folder_as_it_was_frozen_has_no_findings(folder):
    assert folder_findings(folder) == (len(EXPECTED) - 1, [])


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o666, 0o645])
@pytest.mark.parametrize("name", ["verify_all.py", "manifest.sha256"])
def test_a_file_that_may_be_executed_or_written_by_everybody_is_found(folder, name, mode):
    (folder / name).chmod(mode)
    assert folder_findings(folder)[1] == [f"{name}: changed: mode {mode:04o}, expected 0644"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_the_modes_that_an_umask_leaves_are_no_finding(folder, mode):
    for name in EXPECTED:
        (folder / name).chmod(mode)
    assert folder_findings(folder)[1] == []


def test_a_file_system_without_modes_is_no_finding(folder):
    """It shows the same mode for every file, often 0777."""
    for name in EXPECTED:
        (folder / name).chmod(0o777)
    assert folder_findings(folder)[1] == []


@pytest.mark.parametrize("name", ["empty", "deep/empty", "deep/er/empty"])
def test_an_added_empty_folder_is_found(folder, name):
    (folder / name).mkdir()
    assert folder_findings(folder)[1] == [f"{name}: extra, an empty folder"]


@pytest.mark.parametrize("change, finding", [
    (lambda folder: (folder / "verify_all.py").write_bytes(b"x"), "verify_all.py: changed"),
    (lambda folder: (folder / "verify_all.py").unlink(), "verify_all.py: missing"),
    (lambda folder: (folder / "more.json").touch(), "more.json: extra"),
    (lambda folder: (folder / "deep/manifest.sha256").touch(), "deep/manifest.sha256: extra"),
    (lambda folder: (folder / "link").symlink_to("verify_all.py"), "link: extra"),
])
def test_what_is_not_the_listed_file_is_found(folder, change, finding):
    change(folder)
    findings = folder_findings(folder)[1]
    assert len(findings) == 1 and findings[0].startswith(finding)
