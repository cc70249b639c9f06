"""Every value of every frozen file is derived again from lengths: the smallest change to any of them is named."""

import ast
import copy
import math
import re
import shutil
import sys

import numpy as np
import pytest

from evidence import Checks, read_json, write_json
from research.source_exclusion import (
    audit_stream,
    freeze_length_histogram,
    permute_order,
    recount,
    serve_repeated,
    verify_source_exclusion,
)
from research.source_exclusion.streams import POLICIES
from research.source_exclusion.verify_source_exclusion import compare, expected_of, leaves
from tiny import audited as audited_study

FROZEN = ["length_histogram_tiny", "paper_thresholds", "permutations_tiny", "repeated_tiny", "served_tiny",
          "served_tiny_lossless", "tiny"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder with protocols/, data/ and every kind of frozen evidence of a tiny study in frozen/."""
    root = tmp_path_factory.mktemp("study")
    built, data, runs = audited_study.build(root)
    (root / "protocols").mkdir()
    protocol = built.rename(root / "protocols/tiny.json")
    common = ["--study", str(protocol), "--data", str(data), "--runs", str(runs), "--freeze"]
    (root / "frozen").mkdir()
    shutil.copy(audited_study.SCRIPTS / "paper_thresholds.json", root / "frozen")
    with pytest.MonkeyPatch.context() as patch:
        for script in (audit_stream, permute_order, serve_repeated):
            patch.setattr(script, "HERE", root / "frozen")
        patch.setattr(freeze_length_histogram, "ROOT", root)
        codes = [audit_stream.main(common), audit_stream.main([*common, "--repeated"]), permute_order.main(common)]
        codes += [serve_repeated.main([*common, "--policy", policy]) for policy in ("baseline", "lossless")]
        named = ["--study", "tiny", "--data", str(data), "--output", str(root / "frozen")]
        codes += [freeze_length_histogram.main(named)]
    assert not any(codes)
    return root


def verify(study, *files):
    """Exit code of the verifier on frozen files of the study."""
    return verify_source_exclusion.main([*map(str, files), "--data", str(study / "data"),
                                         "--protocols", str(study / "protocols")])


def test_all_kinds_of_evidence_of_a_sound_study_hold(study, capsys):
    files = sorted((study / "frozen").glob("*.json"))
    assert [path.stem for path in files] == FROZEN
    assert verify(study, *files) == 0
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ checks, 0 failed", printed[-1]) and "not checked" not in "".join(printed)


def changed(value):
    """The nearest other value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    if isinstance(value, str):
        return ("0" if value[0] != "0" else "1") + value[1:]
    return value + 1 if isinstance(value, int) else 0


def replace(content, path, change):
    """`content` with the value at a key path such as a.b[2][0] put through `change`."""
    *before, last = [int(key) if key.isdigit() else key for key in re.findall(r"[^.\[\]]+", path)]
    place = content = copy.deepcopy(content)
    for key in before:
        place = place[key]
    place[last] = change(place[last])
    return content


@pytest.mark.parametrize("name", FROZEN)
def test_the_smallest_change_of_any_value_is_found_and_named(name, study, capsys):
    path = study / f"frozen/{name}.json"
    content, expected = read_json(path), expected_of(path, study / "protocols", study / "data")
    paths = [path for path, value in leaves(content) if value not in ([], {})]
    assert len(paths) > 15
    for at in paths:
        checks = Checks()
        compare(checks, path.name, expected, replace(content, at, changed))
        failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
        assert checks.failed == 1 and f": {at}: expected " in failed[0] and f"FAIL {name}.json: " in failed[0]


@pytest.mark.parametrize("name", FROZEN)
def test_a_changed_file_ends_with_exit_code_1(name, study, tmp_path, capsys):
    content = read_json(study / f"frozen/{name}.json")
    numbers = [path for path, value in leaves(content) if type(value) in (int, float)]
    at = numbers[int(np.random.PCG64(len(numbers)).random_raw() % len(numbers))]
    write_json(tmp_path / f"{name}.json", replace(content, at, changed))
    assert verify(study, tmp_path / f"{name}.json") == 1
    assert f"{at}: expected " in capsys.readouterr().out


def test_a_key_left_out_a_key_too_many_and_another_layout_are_found(study, tmp_path, capsys):
    content = read_json(study / "frozen/tiny.json")
    del content["training"]["baseline"]["tokens"]["emitted"]
    content["note"] = None
    (tmp_path / "tiny.json").write_bytes((study / "frozen/tiny.json").read_bytes() + b"\n")
    assert verify(study, tmp_path / "tiny.json") == 1
    assert "FAIL tiny.json: canonical JSON" in capsys.readouterr().out
    write_json(tmp_path / "tiny.json", content)
    assert verify(study, tmp_path / "tiny.json") == 1
    printed = capsys.readouterr().out
    assert re.search(r"training\.baseline\.tokens\.emitted: expected \d+, found nothing", printed)
    assert "note: expected nothing, found None" in printed


def test_without_tokens_only_the_rows_are_left_out_and_it_is_said(study, tmp_path, capsys):
    shutil.copytree(study / "data", tmp_path / "data")
    (tmp_path / "data/tiny/train/tokens.npy").unlink()
    arguments = ["--protocols", str(study / "protocols"), "--data", str(tmp_path / "data")]
    assert verify_source_exclusion.main([str(study / "frozen/tiny.json"), *arguments]) == 0
    assert capsys.readouterr().out.count("not checked without train/tokens.npy") == 4


def test_missing_data_and_an_unknown_name_cannot_be_checked(study, tmp_path, capsys, monkeypatch):
    frozen, unknown = study / "frozen/tiny.json", tmp_path / "served-tiny.json"
    shutil.copy(frozen, unknown)
    monkeypatch.setattr("sys.argv", ["verify"])
    prepare = "python prepare.py --study tiny"
    for path, message in ((frozen, prepare), (unknown, "the name of a frozen file is expected")):
        arguments = [str(path), "--protocols", str(study / "protocols"), "--data", str(tmp_path)]
        assert verify_source_exclusion.run_script(verify_source_exclusion.main, arguments) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("policy", POLICIES)
def test_the_recount_loses_and_makes_up_no_token_of_any_document(policy, study):
    lengths, refill = (np.load(study / f"data/tiny/train/{name}.npy") for name in ("lengths", "refill"))
    stream = recount.Stream(lengths, refill, policy, capacity=20, buffer_size=7, seed=1, passes=4)
    assert stream.buffered.sum() and (stream.discarded.sum() > 0) == (policy != "lossless")
    assert (stream.length + stream.added == stream.emitted + stream.discarded + stream.buffered).all()
    assert stream.emitted.sum() == 20 * stream.rows and len(stream.length) == 4 * len(lengths)


def test_the_verifier_imports_nothing_that_it_checks():
    imported, kinds = set(), ("verify_", "recount", "rebuilt_")
    for path in [path for kind in kinds for path in audited_study.SCRIPTS.glob(f"{kind}*.py")]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    own = ("recount", "recount_records", "recount_served", "rebuilt_ledgers", "rebuilt_services")
    allowed = {"numpy", "evidence", "research.source_exclusion", *(f"research.source_exclusion.{name}" for name in own)}
    assert "research.source_exclusion.recount" in imported and imported - set(sys.stdlib_module_names) <= allowed
