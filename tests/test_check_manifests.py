"""Every frozen file of evidence is the one that the manifest lists, and each way of departing from a list is found."""

from pathlib import Path

import check_manifests
import pytest
from evidence import InputError, format_manifest, read_manifest, run_script, sha256_file

ROOT = Path(__file__).resolve().parents[1]


def test_the_frozen_evidence_is_what_the_manifest_lists():
    listed = read_manifest(ROOT / check_manifests.FROZEN)
    assert check_manifests.frozen_findings(listed, ROOT) == [] and len(listed) >= 8


@pytest.fixture
def repository(tmp_path):
    """A folder with four frozen files, a script beside them, and prepared data of one of two studies; all listed."""
    files = {"research/a/one.json": "{}\n", "research/b/two.json": "[]\n", "research/a/script.py": "pass\n",
             "research/a/rows.npy": "3", "research/a/scores.png": "4",
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
    ("research/a/scores.png", lambda path: path.write_text("5"), "research/a/scores.png: changed"),
    ("research/a/scores.png", lambda path: path.unlink(), "research/a/scores.png: missing"),
    ("research/b/curves.png", lambda path: path.write_text("4"), "research/b/curves.png: extra"),
    ("data/tiny/train/lengths.npy", lambda path: path.write_text("0"), "train/lengths.npy: changed"),
    ("data/tiny/prepared.json", lambda path: path.unlink(), "prepared.json: missing"),
    ("data/tiny/train/more.npy", lambda path: path.write_text("0"), "train/more.npy: extra"),
])
def test_a_changed_missing_or_extra_file_is_named(repository, capsys, name, change, finding):
    change(repository / name)
    code, printed = check(repository, capsys)
    assert code == 1 and finding in printed and printed.endswith("2 checks, 1 failed\n")


# ------------------------------------------------------------------- one way of departing, one exit code


def rewrite(change):
    """A change of the list's bytes."""
    def apply(repository):
        path = repository / check_manifests.FROZEN
        path.write_bytes(change(path.read_bytes()))
    return apply


def add_file(name):
    """A further file that is listed as it is."""
    def apply(repository):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("{}\n")
        line = f"{sha256_file(repository / name)}  {name}\n".encode()
        rewrite(lambda data: data + line)(repository)
    return apply


def link(name, target):
    def apply(repository):
        (repository / name).unlink(missing_ok=True)
        (repository / name).symlink_to(repository / target)
    return apply


LINE = b"0" * 64 + b"  "


@pytest.mark.parametrize("change, code, reason", [
    (rewrite(lambda data: data), 0, "2 checks, 0 failed"),
    (rewrite(lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n").replace(b"  ", b" *")), 0, "0 failed"),
    (rewrite(lambda data: data + data), 2, "frozen.sha256:5: research/a/one.json is listed twice"),
    (rewrite(lambda data: data + LINE + b"research/a/one.json\n"), 2, "frozen.sha256:5: research/a/one.json is listed"),
    (rewrite(lambda data: data + LINE + b"../a\n"), 2, "frozen.sha256:5: unsafe path '../a'"),
    (rewrite(lambda data: data + LINE + b"frozen.sha256\n"), 2, "frozen.sha256:5: the list names itself"),
    (rewrite(lambda data: b""), 2, "frozen.sha256: an empty list checks nothing"),
    (rewrite(lambda data: data + b"\xff"), 2, "frozen.sha256: not UTF-8"),
    (rewrite(lambda data: data + LINE + b"one.json\n"), 1, "one.json: not under research/"),
    (add_file("research/a/nul.json"), 1, "'research/a/nul.json': a name that Windows keeps"),
    (add_file("research/a/One.json"), 1, "'research/a/one.json': differs only in case from 'research/a/One.json'"),
    (add_file("research/a/o ne.json"), 1, "'research/a/o ne.json': characters other than"),
    (link("research/a/one.json", "research/b/two.json"), 1, "research/a/one.json: symlink"),
    (link("research/a/more.json", "research/b/two.json"), 1, "research/a/more.json: extra"),
    (link("research/c", "data"), 1, "research/c: extra"),
    (link("research/gone.json", "nowhere"), 1, "research/gone.json: extra"),
])
def test_each_departure_has_its_own_message_and_exit_code(repository, capsys, change, code, reason):
    change(repository)
    capsys.readouterr()
    assert run_script(check_manifests.main, ["--root", str(repository)]) == code
    printed = capsys.readouterr()
    assert reason in (printed.err if code == 2 else printed.out) and "missing" not in printed.out


@pytest.mark.parametrize("name", [
    "a\nb.json", "a\\b.json", "-a.json", " a.json", "e\u0301.json", "\udcff.json", "ONE.json"])
def test_a_name_that_some_system_cannot_hold_is_refused_before_the_list_is_written(repository, name):
    before = (repository / check_manifests.FROZEN).read_bytes()
    (repository / "research/a" / name).write_text("{}\n")
    with pytest.raises(InputError, match="not frozen, rename first: 'research/a/") as caught:
        check_manifests.main(["--root", str(repository), "--freeze"])
    assert str(caught.value).isprintable() and (repository / check_manifests.FROZEN).read_bytes() == before
