"""Every value of every frozen file is derived from frozen lengths: the smallest change to any of them is named."""

import ast
import copy
import importlib
import math
import random
import re
import shutil
import sys

import numpy as np
import pytest

from evidence import Checks, InputError, read_json, sha256_file, write_json
from manifest import format_manifest
from research.source_exclusion import (
    audit_stream,
    check_length_histogram,
    freeze_lengths,
    permute_order,
    serve_repeated,
    verify_source_exclusion,
)
from research.source_exclusion.reference_evidence import PRINTED, compare, expected_of, leaves
from research.source_exclusion.reference_stream import ReferenceStream
from research.source_exclusion.streams import POLICIES
from tiny import audited as audited_study

FROZEN = ["length_histogram_tiny", "paper_thresholds", "permutations_tiny", "repeated_tiny", "served_tiny",
          "served_tiny_lossless", "tiny"]
FOLDER = "research/source_exclusion"
pytestmark = pytest.mark.slow  # the tiny study is audited once, in about ten seconds
REPOSITORY = audited_study.ROOT


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A repository with protocol, data, and every kind of frozen evidence of a tiny study."""
    root = tmp_path_factory.mktemp("study")
    built, data, runs = audited_study.build(root)
    for folder in ("protocols", "manifests", FOLDER):
        (root / folder).mkdir(parents=True)
    protocol = built.rename(root / "protocols/tiny.json")
    listed = {path.relative_to(data / "tiny").as_posix(): sha256_file(path) for path in (data / "tiny").rglob("*.*")}
    (root / "manifests/tiny.sha256").write_bytes(format_manifest(listed))
    shutil.copy(audited_study.SCRIPTS / "paper_thresholds.json", root / FOLDER)
    (root / PRINTED).parent.mkdir()
    shutil.copy(REPOSITORY / PRINTED, root / PRINTED)
    common = ["--study", str(protocol), "--data", str(data), "--runs", str(runs), "--freeze"]
    with pytest.MonkeyPatch.context() as patch:
        for script in (audit_stream, permute_order, serve_repeated):
            patch.setattr(script, "HERE", root / FOLDER)
        codes = [audit_stream.main(common), audit_stream.main([*common, "--repeated"]), permute_order.main(common)]
        codes += [serve_repeated.main([*common, "--policy", policy]) for policy in ("baseline", "lossless")]
    codes.append(freeze_lengths.main(["--study", "tiny", "--root", str(root)]))
    assert not any(codes)
    return root


@pytest.fixture(scope="module")
def bare(prepared, tmp_path_factory):
    """The same without data/, as a clone has it."""
    root = tmp_path_factory.mktemp("bare") / "clone"
    shutil.copytree(prepared, root, ignore=shutil.ignore_patterns("data", "runs"))
    return root


def verify(root, *options):
    """Exit code of the verifier on all frozen files below `root`."""
    return verify_source_exclusion.main(["--root", str(root), "--workers", "1", *options])


@pytest.fixture
def changeable(bare, tmp_path):
    shutil.copytree(bare, tmp_path / "clone")
    return tmp_path / "clone"


def failures(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]


def test_a_bare_clone_derives_all_but_the_tokens_of_the_rows_and_names_those(bare, capsys):
    assert sorted(path.stem for path in (bare / FOLDER).glob("*.json")) == FROZEN
    assert verify(bare) == 0
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ checks, 0 failed", printed[-1])
    conditions = read_json(bare / "protocols/tiny.json")["conditions"]
    assert [line for line in printed if line.startswith("not derived")] == [
        f"not derived tiny.json: training.{name}.rows_sha256: needs the prepared data" for name in sorted(conditions)]


def test_with_data_nothing_is_left_out(prepared, capsys):
    assert verify(prepared, "--study", "tiny") == 0
    printed = capsys.readouterr().out
    assert "not derived" not in printed and "paper_thresholds" not in printed


def test_two_processes_derive_the_same(bare, capsys):
    assert verify_source_exclusion.main(["--root", str(bare), "--workers", "2", "--quick"]) == 0
    printed = capsys.readouterr().out
    assert "served_tiny" not in printed and "repeated_tiny.json: canonical JSON" in printed


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


def pattern(path):
    """A key path without list indices and without the lengths that differ between studies."""
    return re.sub(r"\[\d+\]", "[]", re.sub(r"started_from_\d+", "started_from_", path))


@pytest.mark.parametrize("name", FROZEN)
def test_the_smallest_change_of_a_value_under_any_key_is_found_and_named(name, prepared, capsys):
    """One value of each key pattern, chosen by a fixed seed."""
    path = prepared / FOLDER / f"{name}.json"
    content, expected, places = read_json(path), expected_of(path, prepared), {}
    for at, value in leaves(content):
        if value not in ([], {}):
            places.setdefault(pattern(at), []).append(at)
    assert len(places) > 7
    source = random.Random(3)
    for at in map(source.choice, places.values()):
        checks = Checks()
        compare(checks, path.name, expected, replace(content, at, changed))
        failed = failures(capsys)
        assert checks.failed == 1 and failed[0].startswith(f"FAIL {name}.json: {at}: expected ")


@pytest.mark.parametrize("name", FROZEN)
def test_the_frozen_files_of_both_studies_have_no_key_that_the_tiny_study_lacks(name, prepared):
    """What the smallest changes show for the tiny study therefore holds for each kind of key of the real files. A value
    that is null in a real file may be an object in the tiny one."""
    tried = {pattern(path) for path, _ in leaves(read_json(prepared / FOLDER / f"{name}.json"))}
    tried |= {path.rpartition(".")[0] for path in tried}
    for study in ("demo", "wheels"):
        path = REPOSITORY / FOLDER / f"{name.replace('tiny', study)}.json"
        if path.exists():
            assert {pattern(at) for at, _ in leaves(read_json(path))} <= tried


def test_a_key_left_out_a_key_too_many_and_another_layout_are_found(changeable, capsys):
    path = changeable / FOLDER / "tiny.json"
    content, before = read_json(path), path.read_bytes()
    path.write_bytes(before + b"\n")
    assert verify(changeable, "--quick") == 1
    assert [line for line in failures(capsys) if "tiny.json: canonical JSON" in line]
    del content["training"]["baseline"]["tokens"]["emitted"]
    content["note"] = None
    write_json(path, content)
    assert verify(changeable, "--quick") == 1
    printed = "\n".join(failures(capsys))
    assert re.search(r"training\.baseline\.tokens\.emitted: expected \d+, found nothing", printed)
    assert "note: expected nothing, found None" in printed


@pytest.mark.parametrize("name", ["tiny_train_lengths.npy", "tiny_validation_refill.npy"])
def test_one_changed_byte_of_the_frozen_lengths_is_found(name, changeable, capsys):
    path = changeable / FOLDER / name
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    try:
        code = verify(changeable, "--quick")
    except ValueError:  # refill batches that do not share out the documents cannot be packed
        code = 1
    assert code == 1 and any(line.startswith(f"FAIL {name}: SHA-256") for line in failures(capsys))


def test_other_data_than_the_listed_ones_are_not_used(changeable, prepared, capsys):
    shutil.copytree(prepared / "data", changeable / "data")
    tokens = changeable / "data/tiny/train/tokens.npy"
    tokens.write_bytes(tokens.read_bytes() + b"\0")
    assert verify(changeable, "--quick") == 0
    assert "not derived tiny.json: training.baseline.rows_sha256" in capsys.readouterr().out


@pytest.mark.parametrize("case", ["array", "name", "study", "workers"])
def test_what_cannot_be_checked_is_named(case, changeable):
    folder = changeable / FOLDER
    if case == "array":
        (folder / "tiny_train_lengths.npy").unlink()
    if case == "name":
        (folder / "served-tiny.json").write_text("{}")
    options = {"study": ["--study", "tinier"], "workers": ["--workers", "0"]}.get(case, [])
    named = {"array": "tiny_train_lengths.npy: missing.*freeze_lengths.py", "name": "served-tiny.json",
             "study": "tinier", "workers": "--workers"}
    with pytest.raises(InputError, match=named[case]):
        verify(changeable, *options)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_reference_stream_loses_and_makes_up_no_token_of_any_document(policy, prepared):
    lengths, refill = (np.load(prepared / f"data/tiny/train/{name}.npy") for name in ("lengths", "refill"))
    stream = ReferenceStream(lengths, refill, policy, capacity=20, buffer_size=7, seed=1, passes=4)
    assert stream.buffered.sum() and (stream.discarded.sum() > 0) == (not policy.endswith("lossless"))
    loader = importlib.import_module(f"loaders.{POLICIES[policy][0]}")
    plan = loader.plan(lengths, capacity=20, rows=stream.rows, buffer_size=7, refill=refill, seed=1)
    assert np.array_equal(stream.plan, plan)
    assert (stream.length + stream.added == stream.emitted + stream.discarded + stream.buffered).all()
    assert stream.emitted.sum() == 20 * stream.rows and 3 * len(lengths) < len(stream.length) <= 4 * len(lengths)


def imported_modules(path):
    """Names of the modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_the_verifiers_import_nothing_that_they_check():
    names = ["verify_source_exclusion.py", "check_length_histogram.py"]
    paths = [*(audited_study.SCRIPTS / name for name in names), *audited_study.SCRIPTS.glob("reference_*.py")]
    imported = {module for path in paths for module in imported_modules(path)
                if module.split(".")[0] not in sys.stdlib_module_names}
    own = {module for module in imported if module.startswith("research.source_exclusion.reference_")}
    assert imported - own == {"numpy", "evidence", "manifest", "research.reference_packer"} and len(own) == 4


# ------------------------------------------------------------------------- the paper's length checks


def test_the_papers_check_runs_alone(bare, capsys):
    assert check_length_histogram.main(["--root", str(bare)]) == 0
    printed = capsys.readouterr().out
    assert "paper_thresholds.json: thresholds.earliest_pass" in printed and "length_histogram_tiny.json" in printed
    assert check_length_histogram.main(["--root", str(bare), "--study", "tiny"]) == 0
    assert "paper_thresholds" not in capsys.readouterr().out


@pytest.mark.parametrize("name, at", [("paper_thresholds", "thresholds[3].earliest_pass"),
                                      ("paper_thresholds", "documents"),
                                      ("length_histogram_tiny", "histogram[2][1]")])
def test_the_papers_check_names_a_changed_number(name, at, changeable, capsys):
    path = changeable / FOLDER / f"{name}.json"
    write_json(path, replace(read_json(path), at, changed))
    assert check_length_histogram.main(["--root", str(changeable)]) == 1
    assert [line for line in failures(capsys) if f"{name}.json: {at}: expected " in line]


def test_the_papers_table_is_the_one_of_section_5_2():
    rows = read_json(REPOSITORY / FOLDER / "paper_thresholds.json")["thresholds"]
    assert [(row["length"], row["documents"], row["earliest_pass"]) for row in rows] == [
        (16384, 789, 2), (32768, 196, 6), (65536, 39, 26), (131072, 9, 112), (290219, 1, 1000)]
