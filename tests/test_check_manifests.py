"""Every frozen JSON file is the one that the manifest lists, and each way of departing from a list is found."""

from pathlib import Path

import check_manifests
import pytest
from evidence import format_manifest, read_manifest, sha256_file

ROOT = Path(__file__).resolve().parents[1]


def test_the_frozen_evidence_is_what_the_manifest_lists():
    listed = read_manifest(ROOT / check_manifests.FROZEN)
    assert check_manifests.frozen_findings(listed, ROOT) == [] and len(listed) >= 8


@pytest.fixture
def repository(tmp_path):
    """A folder with two frozen files, a script beside them, and prepared data of one of two studies; all listed."""
    files = {"research/a/one.json": "{}\n", "research/b/two.json": "[]\n", "research/a/script.py": "pass\n",
             "research/a/rows.npy": "3",
             "data/tiny/train/lengths.npy": "1", "data/tiny/prepared.json": "{}", "data/tiny/download/raw": "2",
             "protocols/tiny.json": "{}", "protocols/other.json": "{}"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "manifests").mkdir()
    data = tmp_path / "data/tiny"
    digests = {name: sha256_file(data / name) for name in ("train/lengths.npy", "prepared.json")}
    (tmp_path / "manifests/tiny.sha256").write_bytes(format_manifest(digests))
    assert check_manifests.main(["--root", str(tmp_path), "--freeze"]) == 0
    return tmp_path


def check(repository, capsys):
    """(exit code, printed text)."""
    capsys.readouterr()
    code = check_manifests.main(["--root", str(repository)])
    return code, capsys.readouterr().out


def test_sound_files_hold_and_data_not_prepared_are_named(repository, capsys):
    code, printed = check(repository, capsys)
    assert code == 0 and printed.endswith("2 checks, 0 failed\n") and "left out other: no " in printed


@pytest.mark.parametrize("name, change, finding", [
    ("research/a/one.json", lambda path: path.write_text("{ }\n"), "research/a/one.json: changed"),
    ("research/a/one.json", lambda path: path.unlink(), "research/a/one.json: missing"),
    ("research/b/three.json", lambda path: path.write_text("{}\n"), "research/b/three.json: extra"),
    ("research/a/rows.npy", lambda path: path.write_text("4"), "research/a/rows.npy: changed"),
    ("research/b/rows.npy", lambda path: path.write_text("4"), "research/b/rows.npy: extra"),
    ("data/tiny/train/lengths.npy", lambda path: path.write_text("0"), "train/lengths.npy: changed"),
    ("data/tiny/prepared.json", lambda path: path.unlink(), "prepared.json: missing"),
    ("data/tiny/train/more.npy", lambda path: path.write_text("0"), "train/more.npy: extra"),
])
def test_a_changed_missing_or_extra_file_is_named(repository, capsys, name, change, finding):
    change(repository / name)
    code, printed = check(repository, capsys)
    assert code == 1 and finding in printed and printed.endswith("2 checks, 1 failed\n")
