"""The frozen evidence on batches is derived again, a changed number is named, and the README says what is frozen."""

import copy
import functools
import random
import re
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
    ("split_demo.json", ("study",)), ("split_demo.json", ("groupings", "package", "examples", 0))])
def test_what_the_manifest_alone_binds_is_bound_by_it_and_said(folder, name, trail, capsys):
    """Descriptions that the verifier passes are what its docstring and the README say, and check_manifests names."""
    content = changed(FROZEN[name], trail, lambda value: value + type(value)(1))
    assert failures(folder, name, content, capsys) == []
    listed = read_manifest(ROOT / check_manifests.FROZEN)
    found = check_manifests.research_findings(listed, folder.parents[1])
    assert any(line.startswith(f"research/batch_boundaries/{name}: changed") for line in found)
    for text in (verify_batch_boundaries.__doc__, (HERE / "README.md").read_text()):
        assert "manifests/frozen.sha256" in text and "alone" in text and "check_manifests.py" in text


# ------------------------------------------------------------------------------------------ README


def test_every_large_number_of_the_readme_is_a_frozen_one():
    """All whole numbers of four digits and more, the measured seconds' section left out."""
    readme = (HERE / "README.md").read_text()
    measured = readme[readme.index("## Throughput"):readme.index("## Limits")]
    found = set(re.findall(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w])", readme.replace(measured, "")))
    known = {f"{n:,}" for content in FROZEN.values() for n in numbers(content)}
    assert len(found) >= 10 and found <= known, found - known


def numbers(content):
    """Every whole number inside a JSON value."""
    if isinstance(content, int):
        yield content
    for item in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from numbers(item)


def test_the_readmes_findings_are_the_frozen_numbers():
    readme = " ".join((HERE / "README.md").read_text().split())
    padded_view, packed, stream = (FROZEN["batch_note.json"]["views"][name]["counts"]
                                   for name in ("padded", "independent", "continuous"))
    chunks, updates = FROZEN["chunking_demo.json"]["designs"], FROZEN["targets_demo.json"]["loaders"]
    drop, twice = chunks["drop_rest"], chunks["overlapping"]
    cases = FROZEN["accumulation.json"]["cases"]
    documents = FROZEN["chunking_demo.json"]["documents"]
    independent, continuous = (FROZEN["boundaries.json"]["semantics"][name]["bounded"]
                               for name in ("independent", "continuous"))
    split = FROZEN["split_demo.json"]["groupings"]
    masked, padded = updates["document_masked"]["update"], updates["padded"]["update"]
    for phrase in (
        f"{padded_view['non_padding']} of {padded_view['cells']} cells are no padding",
        f"{padded_view['effective_targets']} targets and {padded_view['readable_pairs']} readable pairs padded",
        f"{packed['effective_targets']} and {packed['readable_pairs']} packed as independent documents",
        f"{stream['effective_targets']} and {stream['readable_pairs']} as a continuous row",
        f"{drop['targets_never_scored']:,} of {drop['targets']:,} targets "
        f"({100 * drop['targets_never_scored'] / drop['targets']:.2f} %)",
        f"last token of {drop['documents_with_last_token_never_scored']:,} of its {documents:,} documents",
        f"loses {chunks['pad_last']['targets_never_scored']:,} targets",
        f"{twice['targets_scored_more_than_once']:,} of them more than once",
        f"{chunks['shared_boundary']['targets_with_whole_prefix']:,} with their whole prefix",
        f"{masked['targets']:,} targets", f"the other {masked['positions'] - masked['targets']} asked",
        f"{padded['targets']:,} targets in {padded['positions']:,} positions",
        f"{cases['note']['by_target']} by target and {cases['note']['by_microbatch']} by microbatch",
        f"by {independent['alone_equals_packed: logits differ by']['value']:.1e}",
        f"by {independent['alone_equals_packed: without the mask logits differ by']['value']:.1f} without the mask",
        f"by {continuous['stream_context: logits of other documents change by']['value']:.1f} when the first",
        f"all {split['package']['shared_groups']} packages and {split['directory']['shared_groups']} directories",
    ):
        assert phrase in readme, phrase


def test_one_wrapped_packing_is_judged_by_its_declared_semantics_as_the_readme_says():
    """The same batches twice: as a stream three items are not applied, as independent documents all three fail."""
    cases = [case for case in FROZEN["collators.json"]["cases"] if case["function"] == "trl_wrapped"]
    assert cases[0]["batches"] == cases[1]["batches"]
    found = {case["options"]["semantics"]: {item["item"]: item["status"] for item in case["items"]} for case in cases}
    for item in ("boundary labels are ignored", "positions restart", "attention isolates documents"):
        assert (found["continuous"][item], found["independent"][item]) == ("not applied", "FAIL")
