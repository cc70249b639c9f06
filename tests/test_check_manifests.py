"""Frozen files are the listed ones, made from the inputs that are here; each way of departing from this is found."""

import re
from pathlib import Path

import pytest

import check_manifests
from evidence import InputError, run_script, sha256_bytes, sha256_file, write_json
from manifest import format_manifest, read_manifest

ROOT = Path(__file__).resolve().parents[1]


def test_the_frozen_evidence_is_what_the_manifest_lists():
    listed = read_manifest(ROOT / check_manifests.FROZEN)
    assert check_manifests.research_findings(listed, ROOT) == [] and len(listed) >= 8


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
    """(exit code, printed text and errors)."""
    capsys.readouterr()
    code = run_script(check_manifests.main, ["--root", str(repository)])
    return code, "".join(capsys.readouterr())


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


def test_files_that_a_file_manager_writes_are_no_finding(repository, capsys):
    for folder in ("data/tiny/train", "research/a"):
        for name in (".DS_Store", "._lengths.npy", "Thumbs.db"):
            if folder != "research/a" or not name.endswith(".npy"):
                (repository / folder / name).write_text("x")
    assert check(repository, capsys)[0] == 0


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


# ------------------------------------------------------------------------------------- lists of data


def list_data(repository, *names):
    """The list of data/tiny, with lines of no file added."""
    path = repository / "manifests/tiny.sha256"
    path.write_bytes(path.read_bytes() + b"".join(LINE + f"{name}\n".encode() for name in names))


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("name, reason", [
    ("Train/lengths.npy", "'train': differs only in case from 'Train'"), ("aux.npy", "'aux.npy': a name that Windows"),
    ("e\u0301.npy", "characters other than ASCII"), ("train", "'train': both a file and a folder")])
def test_a_name_that_some_system_cannot_hold_is_found_in_a_list_of_data_whether_they_are_here(
        repository, capsys, here, name, reason):
    list_data(repository, name)
    if not here:
        (repository / "data").rename(repository / "elsewhere")
    code, printed = check(repository, capsys)
    assert code == 1 and reason in printed and ("missing" in printed) == here


def test_a_list_of_absent_data_is_read_and_the_files_are_named_as_left_out(repository, capsys):
    (repository / "data").rename(repository / "elsewhere")
    code, printed = check(repository, capsys)
    assert code == 0 and "manifests/tiny.sha256: 2 names; left out the files: no " in printed


def test_a_list_that_cannot_be_read_does_not_end_the_other_checks(repository, capsys):
    """A supplement comes last; a false check outweighs one that could not be made, as in verify_all.py."""
    list_data(repository, "../x")
    code, printed = check(repository, capsys)
    assert code == 2 and printed.count("tiny.sha256:3: unsafe path '../x'") == 2
    assert printed.endswith("\n") and "1 checks hold, not checked: " in printed.splitlines()[-1]
    (repository / "supplement_v1").mkdir()
    code, printed = check(repository, capsys)
    assert code == 2 and printed.count("not checked: ") == 3 and "manifests/supplement_v1.sha256: cannot" in printed
    (repository / "research/a/one.json").write_text("[]\n")
    code, printed = check(repository, capsys)
    assert code == 1 and "not checked: " in printed and "one.json: changed" in printed


# --------------------------------------------------------------------------------- inputs of evidence


def state(repository, *entries, nested=False):
    """Freeze a JSON file that names these (path, bytes) or odd entries as its inputs."""
    inputs = [{"path": entry[0], "sha256": sha256_bytes(entry[1])} if isinstance(entry, tuple) else entry
              for entry in entries]
    value = {"inputs": inputs, "types": {"inputs": [1, [2]]}, "counts": {"inputs": 3}}
    write_json(repository / "research/b/made.json", {"content": [value]} if nested else value)
    assert check_manifests.main(["--root", str(repository), "--freeze"]) == 0


@pytest.mark.parametrize("nested", [False, True])
def test_inputs_that_are_here_hold_and_runs_and_absent_ones_are_named_as_left_out(repository, capsys, nested):
    state(repository, ("research/a/script.py", b"pass\n"), ("data/tiny/train/lengths.npy", b"1"), ("runs/x/a", b""),
          ("runs/x/b", b""), ("research/gone.json", b""), ("data/other/a.npy", b""), nested=nested)
    code, printed = check(repository, capsys)
    assert code == 0 and ("research/b/made.json: 6 inputs; data/other/a.npy not here, left out; "
                          "research/gone.json not here, left out; under runs/, left out (2)\n") in printed


@pytest.mark.parametrize("entry, reason", [
    (("research/a/script.py", b"fail\n"), "script.py: expected [0-9a-f]{64}, found [0-9a-f]{64} in research/a/scri"),
    (("data/tiny/train/lengths.npy", b"2"), "lengths.npy: expected .*, found [0-9a-f]{64} in manifests/tiny.sha256"),
    (("data/tiny/train/more.npy", b"1"), "more.npy: expected .*, found no line in manifests/tiny.sha256"),
    (("data/tiny", b"1"), "data/tiny: expected .*, found no line in"), (("../x", b""), "'../x': unsafe path"),
    (("/etc/passwd", b""), "unsafe path, it is absolute"), ({"path": "research/a/script.py"}, "and its sha256, found"),
    ({"path": "runs/x", "sha256": 1}, "and its sha256, found"), ({"path": 1, "sha256": "0"}, "and its sha256, found")])
def test_an_input_that_is_another_file_or_none_that_can_be_is_found(repository, capsys, entry, reason):
    state(repository, ("research/a/one.json", b"{}\n"), entry)
    code, printed = check(repository, capsys)
    assert code == 1 and "FAIL research/b/made.json: 2 inputs, 1 findings\n" in printed
    assert re.search(f"     inputs: .*{reason}", printed)


def test_code_that_moved_on_is_found_in_a_supplement_and_evidence_is_not(repository, capsys):
    for name in ("research/a/script.py", "research/a/one.json"):
        (repository / "supplement_v1" / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / "supplement_v1" / name).write_text("old\n")
    for name, holds in (("research/a/script.py", True), ("research/a/one.json", False)):
        state(repository, (name, b"old\n"))
        printed = check(repository, capsys)[1]
        assert ("1 inputs; research/a/script.py as in supplement_v1/research/a/script.py\n" in printed) == holds
        assert ("one.json: expected " in printed) != holds


def test_evidence_that_is_not_strict_json_is_named_and_the_rest_is_checked(repository, capsys):
    (repository / "research/a/one.json").write_text('{"inputs": [NaN]}\n')
    check_manifests.main(["--root", str(repository), "--freeze"])
    code, printed = check(repository, capsys)
    assert code == 2 and "2 checks hold, not checked: " in printed and "one.json: not strict JSON" in printed


def test_of_all_inputs_of_this_repository_s_evidence_only_those_under_runs_are_left_out():
    texts = [found for path in sorted((ROOT / "research").rglob("*.json"))
             if (found := check_manifests.inputs_part(ROOT, path))]
    assert [findings for _, findings in texts if findings] == [] and len(texts) >= 30
    assert not [text for text, _ in texts if "not here" in text]
