"""The frozen evidence on batches is derived again, and a changed number is named."""

import copy
import functools
import random
import shutil

import pytest

import check_manifests
from evidence import InputError, canonical_json, read_json
from manifest import read_manifest
from research.batch_boundaries import verify_batch_boundaries

ROOT = verify_batch_boundaries.ROOT
HERE = ROOT / "research/batch_boundaries"
FROZEN = {path.name: read_json(path) for path in sorted(HERE.glob("*.json"))}
DERIVED = {"accumulation.json": None, "batch_note.json": None, "chunking_note.json": None, "chunking_demo.json": 12,
           "targets_demo.json": 60}
# A changed histogram differs from the frozen one in one of thousands of lengths.
COUNTED_ONCE = functools.lru_cache(None)(verify_batch_boundaries.reference_batches.cut_counts)


@pytest.fixture
def folder(tmp_path):
    """A copy of the evidence, two folders below copies of protocols/ and manifests/."""
    for name in ("protocols", "manifests"):
        shutil.copytree(ROOT / name, tmp_path / name)
    copied = tmp_path / "research/batch_boundaries"
    copied.mkdir(parents=True)
    for path in HERE.glob("*.json"):
        shutil.copy(path, copied)
    return copied


def places(value, trail=()):
    """The trail of keys to every number inside a JSON value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield trail
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*trail, key))


def changed(content, trail, change):
    """A copy of `content` in which the value at `trail` is change(value)."""
    content = copy.deepcopy(content)
    parent = content
    for key in trail[:-1]:
        parent = parent[key]
    parent[trail[-1]] = change(parent[trail[-1]])
    return content


def failures(folder, name, content, capsys):
    """The failed checks of one file with other content."""
    (folder / name).write_bytes(canonical_json(content))
    checks = verify_batch_boundaries.Checks()
    capsys.readouterr()
    verify_batch_boundaries.check_file(checks, folder / name, folder.parents[1])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert len(lines) == checks.failed
    return lines


def test_all_frozen_evidence_holds(folder, capsys):
    assert verify_batch_boundaries.main(["--root", str(folder.parents[1])]) == 0
    printed = capsys.readouterr().out
    assert all(f"ok   {name}" in printed for name in FROZEN) and "0 failed" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVED)
def test_every_changed_number_is_found(folder, name, capsys, monkeypatch):
    """Each number of the derived files (a sample of the long ones), one up."""
    monkeypatch.setattr(verify_batch_boundaries.reference_batches, "cut_counts", COUNTED_ONCE)
    trails = list(places(FROZEN[name]))
    sample = random.Random(1).sample(trails, DERIVED[name] or len(trails))
    few = [trail for trail in trails if trail[0] not in ("histogram", "arrivals", "refill", "loaders")]
    for trail in dict.fromkeys(sample + few):
        assert failures(folder, name, changed(FROZEN[name], trail, lambda value: value + 1), capsys), trail


def test_a_changed_number_is_named_with_both_values(folder, capsys):
    trail = ("designs", "overlapping_new", "windows")
    content = changed(FROZEN["chunking_note.json"], trail, lambda windows: windows + 1)
    assert failures(folder, "chunking_note.json", content, capsys) == [
        "FAIL chunking_note.json.designs.overlapping_new.windows: frozen 5, new 4"]


def test_a_missing_key_and_an_unknown_file_are_found(folder, capsys):
    content = {key: value for key, value in FROZEN["targets_demo.json"].items() if key != "arrivals"}
    assert "arrivals" in failures(folder, "targets_demo.json", content, capsys)[0]
    assert "other.json" in failures(folder, "other.json", {}, capsys)[0]
    assert verify_batch_boundaries.main(["--root", str(folder.parents[1])]) == 1


def test_a_study_can_be_checked_without_the_others(folder, capsys):
    (folder / "split_demo.json").write_bytes(b"{}\n")
    root = ["--root", str(folder.parents[1])]
    assert verify_batch_boundaries.main([*root, "--study", "wheels"]) == 0
    assert "split_demo" not in capsys.readouterr().out
    assert verify_batch_boundaries.main([*root, "--study", "demo"]) == 1
    assert "split_wheels" not in capsys.readouterr().out


def test_missing_evidence_is_no_success(folder):
    (folder / "batch_note.json").unlink()
    with pytest.raises(InputError, match="missing batch_note.json"):
        verify_batch_boundaries.main(["--root", str(folder.parents[1])])


# ------------------------------------------------------- evidence on models, collators and corpora


def test_a_broken_or_relaxed_bound_and_a_changed_fact_of_the_boundary_checks_are_found(folder, capsys):
    name, frozen = "boundaries.json", FROZEN["boundaries.json"]
    for semantics, found in frozen["semantics"].items():
        for trail in places(found["exact"]):
            content = changed(frozen, ("semantics", semantics, "exact", *trail), lambda value: value + 1)
            assert failures(folder, name, content, capsys), trail
        for measured, bound in found["bounded"].items():
            (kind,) = set(bound) - {"value"}
            trail = ("semantics", semantics, "bounded", measured)
            beyond = 1.0 if kind == "at_most" else 0.0
            for key, value in (("value", beyond), (kind, 10 * bound[kind])):
                content = changed(frozen, (*trail, key), lambda _, value=value: value)
                assert failures(folder, name, content, capsys), (trail, key)


def test_leaving_independence_checks_out_of_independent_documents_is_found(folder, capsys):
    content = copy.deepcopy(FROZEN["boundaries.json"])
    content["semantics"]["independent"]["not_applied"] = ["alone_equals_packed"]
    assert "not applied: alone_equals_packed" in failures(folder, "boundaries.json", content, capsys)[0]


def test_a_changed_batch_or_count_of_a_collator_is_found(folder, capsys):
    name, frozen = "collators.json", FROZEN["collators.json"]
    for number, case in enumerate(frozen["cases"]):
        (last,) = [item for item in range(len(case["items"])) if case["items"][item]["item"] == "effective targets"]
        for trail in places(case["items"][last]["counts"]):
            trail = ("cases", number, "items", last, "counts", *trail)
            assert failures(folder, name, changed(frozen, trail, lambda count: count + 1), capsys), trail
        for key in ("input_ids", "labels"):
            trail = ("cases", number, "batches", 0, key, 0, 1)
            assert failures(folder, name, changed(frozen, trail, lambda token: token + 1), capsys), trail


@pytest.mark.slow
def test_a_changed_verdict_total_or_batch_of_the_diagnose_matrix_is_found(folder, capsys):
    name, frozen = "diagnose_matrix.json", FROZEN["diagnose_matrix.json"]
    trails = [("totals", key) for key in frozen["totals"]]
    for form, record in random.Random(2).sample(sorted(frozen["forms"].items()), 4):
        trails.append(("forms", form, "right", "effective_targets"))
        for fault, cell in record["faults"].items():
            if "verdict" in cell and cell["effective_targets"] is not None and "shifted" not in frozen["faults"][fault]:
                trails.append(("forms", form, "faults", fault, "effective_targets"))
    for trail in trails:
        assert failures(folder, name, changed(frozen, trail, lambda count: count + 1), capsys), trail
    form = ("forms", "MaxText, packed")
    for trail, value in (
            ((*form, "faults", "a boundary target is kept", "verdict"), "missed"),
            ((*form, "faults", "a boundary target is kept", "status"), "ok"),
            ((*form, "faults", "a boundary target is kept", "failed"), []),
            ((*form, "faults", "a boundary target is kept", "changed"), {}),
            ((*form, "faults", "the first target of a document is ignored", "status"), "ok"),
            ((*form, "right", "statuses", "no row is idle"), "FAIL"),
            ((*form, "right", "batch", "inputs"), ["1 10 11 2 1 12 2 1 13 14 15 16 99 2 0 0"]),
            ((*form, "right", "batch", "targets_segmentation"), ["1 1 1 1 1 1 0 1 1 1 1 1 1 0 0 0"])):
        assert failures(folder, name, changed(frozen, trail, lambda _, value=value: value), capsys), trail


def test_impossible_shares_of_a_split_are_found(folder, capsys):
    frozen = FROZEN["split_demo.json"]

    def more(value):
        return value + 10**6

    for trail in (("package", "shared_groups"), ("package", "documents_of_shared_groups", "train"),
                  ("directory", "groups", "validation")):
        content = changed(frozen, ("groupings", *trail), more)
        assert failures(folder, "split_demo.json", content, capsys), trail
    assert failures(folder, "split_demo.json", changed(frozen, ("duplicates", "texts"), more), capsys)


@pytest.mark.parametrize("name, trail", [
    ("boundaries.json", ("environment", "torch")), ("boundaries.json", ("updates",)),
    ("collators.json", ("cases", 0, "items", 0, "reason")), ("collators.json", ("versions", "trl")),
    ("collators.json", ("cases", 0, "batches", 0, "attention_mask", 0, 0)),
    ("diagnose_matrix.json", ("forms", "MaxText, packed", "layout")),
    ("split_demo.json", ("study",)), ("split_demo.json", ("groupings", "package", "examples", 0))])
def test_what_the_manifest_alone_binds_is_bound_by_it(folder, name, trail, capsys):
    """The verifier passes changed descriptions, as its docstring says; check_manifests names the changed file."""
    content = changed(FROZEN[name], trail, lambda value: value + type(value)(1))
    assert failures(folder, name, content, capsys) == []
    listed = read_manifest(ROOT / check_manifests.FROZEN)
    found = check_manifests.research_findings(listed, folder.parents[1])
    assert any(line.startswith(f"research/batch_boundaries/{name}: changed") for line in found)


def test_one_wrapped_packing_is_judged_by_its_declared_semantics():
    """The same batches twice: as a stream three items are not applied, as independent documents all three fail."""
    cases = [case for case in FROZEN["collators.json"]["cases"] if case["function"] == "trl_wrapped"]
    assert cases[0]["batches"] == cases[1]["batches"]
    found = {case["options"]["semantics"]: {item["item"]: item["status"] for item in case["items"]} for case in cases}
    for item in ("boundary labels are ignored", "positions restart", "attention isolates documents"):
        assert (found["continuous"][item], found["independent"][item]) == ("not applied", "FAIL")
