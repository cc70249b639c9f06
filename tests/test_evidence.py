"""Frozen files are strict, canonical and closed: the same content gives the same bytes, and any departure is named."""

import json
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evidence
import manifest
from evidence import InputError

ROOT = Path(__file__).resolve().parents[1]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=12,
)


# --------------------------------------------------------------------------------------------- JSON


@given(JSON)
def test_any_json_value_survives_the_round_trip_and_a_strict_parser(value):
    data = evidence.canonical_json(value)
    assert evidence.parse_json(data, "here") == value == json.loads(data)
    assert data.endswith(b"\n") and b"\r" not in data and evidence.canonical_json(json.loads(data)) == data


def test_key_order_does_not_change_the_bytes():
    one, other = {"b": 1, "a": {"d": 2, "c": 3}}, {"a": {"c": 3, "d": 2}, "b": 1}
    assert evidence.canonical_json(one) == evidence.canonical_json(other)


def test_large_integers_and_floats_are_exact():
    value = {"big": 2**70 + 1, "third": 1 / 3, "text": "NaN"}
    assert evidence.parse_json(evidence.canonical_json(value), "here") == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {1, 2}, b"x"])
def test_what_is_not_json_is_refused_with_the_keys_path(value):
    with pytest.raises(InputError, match=r"\$\.runs\[1\]\.loss"):
        evidence.canonical_json({"runs": [{"loss": 1.0}, {"loss": value}]})
    with pytest.raises(InputError, match="not a string"):
        evidence.canonical_json({1: "key"})


@pytest.mark.parametrize("data, reason", [
    (b'{"a": NaN}', "NaN"), (b'{"a": Infinity}', "Infinity"), (b'{"a": 1, "a": 2}', "twice"), (b'{"a": 1', "JSON"),
    (b"\xff", "utf-8"), (b'{"a": 1e999}', "1e999 is too large"), (b'[-1e999]', "-1e999 is too large"),
    (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
])
def test_loose_json_is_refused_naming_the_file(tmp_path, data, reason):
    (tmp_path / "loose.json").write_bytes(data)
    with pytest.raises(InputError, match=f"loose.json.*{reason}"):
        evidence.read_json(tmp_path / "loose.json")


def test_text_that_is_not_unicode_and_endless_nesting_are_refused():
    endless = []
    endless.append(endless)
    for value in ("\ud800", endless):
        with pytest.raises(InputError, match="not JSON"):
            evidence.canonical_json(value)


def test_inputs_are_named_below_the_root_also_behind_a_link_and_never_outside(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/a").write_text("a")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/data").symlink_to(tmp_path / "disk")
    [entry] = evidence.input_list([tmp_path / "root/data/a"], tmp_path / "root")
    assert entry == {"path": "data/a", "sha256": evidence.sha256_bytes(b"a")}
    with pytest.raises(InputError, match="disk/a: expected a file below"):
        evidence.input_list([tmp_path / "disk/a"], tmp_path / "root")


def test_missing_and_unknown_keys_are_named():
    with pytest.raises(InputError, match="p.json: missing key b, c"):
        evidence.require_keys({"a": 1}, "abc", "p.json")
    with pytest.raises(InputError, match="p.json: unknown key d"):
        evidence.require_keys({"a": 1, "d": 1}, "a", "p.json")
    with pytest.raises(InputError, match="expected an object, found list"):
        evidence.require_keys([], "a", "p.json")


@pytest.mark.parametrize("old, new, where", [
    ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, r"\$\.a\[1\]\.b: frozen 2, new 3"),
    ({"a": 1}, {"b": 1}, r"\$\.a: only in the frozen"),
    ({}, {"b": 1}, r"\$\.b: only in the new"),
    ([1, 2], [1], r"2 entries frozen, 1 new"),
    (1, True, "frozen 1, new True"),
    (1, 1.0, "frozen 1, new 1.0"),
])
def test_the_first_difference_is_named(tmp_path, old, new, where):
    evidence.freeze_json(tmp_path / "f.json", old)
    evidence.freeze_json(tmp_path / "f.json", old)
    before = (tmp_path / "f.json").read_bytes()
    with pytest.raises(InputError, match=where):
        evidence.freeze_json(tmp_path / "f.json", new)
    assert (tmp_path / "f.json").read_bytes() == before


def test_a_check_of_equality_shows_what_it_found_or_the_first_difference(capsys):
    checks = evidence.Checks()
    checks.equal("rows", 3, 3)
    checks.equal("runs", ["a", "b"], ["a", "b"])
    checks.equal("table", {"a": 1}, {"a": 1}, "table: as printed")
    checks.equal("rows", 3, 4)
    checks.equal("table", {"a": [1]}, {"a": [1.0]}, "table: as printed")
    assert checks.close() == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok   rows: 3", "ok   runs: 2 entries", "ok   table: as printed",
        "FAIL rows: frozen 3, new 4", "FAIL table.a[0]: frozen 1, new 1.0", "5 checks, 2 failed"]


@pytest.mark.parametrize("broken", [
    lambda: {}["rows"], lambda: 1 / 0, lambda: None.rows, lambda: int("x"), lambda: len(1)])
def test_checks_that_break_on_malformed_evidence_are_one_failed_check(broken, capsys):
    checks = evidence.Checks()
    with checks.attempt("tiny.json"):
        checks.expect(True, "first")
        broken()
        checks.expect(True, "never made")
    assert checks.close() == 1
    first, failed, count = capsys.readouterr().out.splitlines()
    assert failed.startswith("FAIL tiny.json: ") and count == "2 checks, 1 failed"
    with pytest.raises(InputError), checks.attempt("tiny.json"):
        raise InputError("missing: cannot be checked")


def test_a_file_that_may_be_absent_is_read_or_said_to_be_left_out(tmp_path, capsys):
    path = tmp_path / "f.json"
    assert evidence.read_json_if_there(path) is None and "left out" in capsys.readouterr().out
    evidence.write_json(path, [1])
    assert evidence.read_json_if_there(path) == [1] and not capsys.readouterr().out
    path.write_text("{")
    with pytest.raises(InputError, match="f.json: not strict JSON"):
        evidence.read_json_if_there(path)


# -------------------------------------------------------------------------------------------- files


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    """The disk fills up during the flush."""
    evidence.write_atomic(tmp_path / "f", b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evidence.os, "fsync", full)
    with pytest.raises(InputError, match=r"/f: No space left on device; make room"):
        evidence.write_atomic(tmp_path / "f", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"old"}


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_decides_who_may_read_a_written_file(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        evidence.write_atomic(tmp_path / "deep/f", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep/f").stat().st_mode) == mode


def test_temporary_files_of_killed_writers_are_swept_and_those_of_living_ones_stay(tmp_path):
    code = "import os, sys, evidence\nos.replace = lambda *names: os.kill(os.getpid(), int(sys.argv[2]))\n"
    code += "evidence.write_atomic(sys.argv[1], b'new')"
    for number in (signal.SIGKILL, signal.SIGTERM):
        command = [sys.executable, "-c", code, str(tmp_path / "f"), str(int(number))]
        assert subprocess.run(command, cwd=ROOT).returncode == -number
    dead = set(tmp_path.iterdir())
    living = tmp_path / f".f.{os.getppid()}.0.part"
    living.write_bytes(b"half")
    assert len(dead) == 1  # the second writer swept what the first one left
    evidence.write_atomic(tmp_path / "f", b"newer")
    assert set(tmp_path.iterdir()) == {tmp_path / "f", living} and (tmp_path / "f").read_bytes() == b"newer"


def test_a_users_mistake_is_one_line_and_exit_code_2(capsys):
    def main(argv):
        raise InputError("file: key: expected 1, found 2")

    assert evidence.run_script(main) == 2
    assert capsys.readouterr().err.strip().endswith("file: key: expected 1, found 2")


@pytest.mark.parametrize("error, text", [(MemoryError("14 TiB"), "not enough memory: 14 TiB"),
                                         (KeyError("surplus"), "KeyError: 'surplus'")])
def test_exit_code_1_is_never_an_error_of_the_script(capsys, error, text):
    def main(argv):
        raise error

    assert evidence.run_script(main) == 2
    assert text in capsys.readouterr().err


def run_printing(text, **how):
    """A finished process that prints `text`, a Python expression, under run_script."""
    code = f"import sys, evidence; sys.exit(evidence.run_script(lambda argv: print({text})))"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True, **how)


def test_a_terminal_without_a_character_shows_its_escape():
    process = run_printing(r"'\u2423'", stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert process.communicate() == ("\\u2423\n", "") and process.returncode == 0


def test_a_reader_that_leaves_early_causes_exit_code_2_and_no_noise():
    reader, writer = os.pipe()
    os.close(reader)
    process = run_printing("'x'", stdout=writer)
    os.close(writer)
    assert process.communicate() == (None, "") and process.returncode == 2


# ---------------------------------------------------------------------------------------- manifests


@pytest.fixture
def tree(tmp_path):
    """A folder of two files and the digests of both."""
    root = tmp_path / "tree"
    for name in ("a.txt", "deep/b.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root, {name: evidence.sha256_file(root / name) for name in ("a.txt", "deep/b.txt")}


@pytest.mark.parametrize("tool", [["sha256sum"], ["shasum", "-a", "256"]])
def test_other_tools_read_our_lists(tree, tool):
    if not shutil.which(tool[0]):
        pytest.skip(f"{tool[0]} is not on this machine")
    root, digests = tree
    (root.parent / "list.sha256").write_bytes(manifest.format_manifest(digests))
    done = subprocess.run([*tool, "-c", "../list.sha256"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("OK") == 2


@pytest.mark.parametrize("change", [
    lambda data: data, lambda data: data.replace(b"\n", b"\r\n"), lambda data: b"\xef\xbb\xbf" + data,
    lambda data: b"".join(line[:64].upper() + line[64:] for line in data.splitlines(True)),
    lambda data: data.replace(b"  ", b" *"), lambda data: data.rstrip(b"\n"),
])
def test_lists_of_other_tools_are_read(tree, change):
    root, digests = tree
    path = root.parent / "list.sha256"
    path.write_bytes(change(manifest.format_manifest(digests)))
    assert manifest.read_manifest(path) == digests


@pytest.mark.parametrize("lines, reason", [
    ([], "empty list"), (["0" * 63 + "  a"], ":1: expected 64 hex"), (["0" * 64 + " a"], ":1: expected 64 hex"),
    *((["0" * 64 + f"  {name}"], "unsafe path") for name in ("../a", "/a", "a\\b", "./a", "a//b", "-")),
    (["0" * 64 + "  a", "1" * 64 + "  a"], ":2: a is listed twice"), (["0" * 64 + "  list.sha256"], "names itself"),
])
def test_bad_lists_are_refused_by_their_own_cause(tmp_path, lines, reason):
    (tmp_path / "list.sha256").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(InputError, match=reason):
        manifest.read_manifest(tmp_path / "list.sha256")


def test_missing_changed_extra_and_linked_files_are_separate_findings(tree):
    root, digests = tree
    assert manifest.manifest_findings(digests, root) == []
    (root / "c.txt").write_text("c")
    assert manifest.manifest_findings(digests, root) == ["c.txt: extra"]
    (root / "c.txt").unlink()
    (root / "a.txt").write_text("b.txt")
    assert manifest.manifest_findings(digests, root)[0].startswith("a.txt: changed: expected ")
    (root / "a.txt").unlink()
    assert manifest.manifest_findings(digests, root) == ["a.txt: missing"]
    (root.parent / "outside").write_text("a.txt")
    (root / "a.txt").symlink_to(root.parent / "outside")
    assert manifest.manifest_findings(digests, root) == ["a.txt: symlink"]


def test_the_help_shows_the_module_docstring_line_by_line(capsys):
    with pytest.raises(SystemExit):
        evidence.parser("One question?\n\nReads   a file\n").parse_args(["--help"])
    assert "One question?\n\nReads   a file\n" in capsys.readouterr().out
