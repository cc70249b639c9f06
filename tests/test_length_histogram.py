"""Frozen length histograms are derived anew from their counts, and one changed number anywhere is found."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evidence import InputError, canonical_json, read_json
from research.source_exclusion import check_length_histogram, freeze_length_histogram
from tiny import runs as tiny_runs

CAPACITY = read_json(Path(__file__).parents[1] / "protocols/demo.json")["packing"]["context"] + 1
PAPER = check_length_histogram.HERE / "paper_thresholds.json"


@pytest.fixture
def frozen(tmp_path):
    """A frozen histogram of 2,000 skewed lengths under the demo's protocol, and the lengths themselves."""
    lengths = np.maximum(1, np.random.default_rng(5).lognormal(4, 1.5, 2000)).astype(np.int64)
    folder = tmp_path / "data" / "demo" / "train"
    folder.mkdir(parents=True)
    np.save(folder / "lengths.npy", lengths)
    tiny_runs.list_prepared(folder.parent)
    assert freeze(tmp_path) == 0
    return tmp_path / "length_histogram_demo.json", lengths.tolist()


def freeze(tmp_path):
    """Run the freezing script on the folder's study."""
    folders = ["--data", str(tmp_path / "data"), "--output", str(tmp_path)]
    return freeze_length_histogram.main(["--study", "demo", *folders])


def check(path, content):
    """Exit code for `content` in place of the file's."""
    path.write_bytes(canonical_json(content))
    try:
        return check_length_histogram.main([str(path)])
    except InputError:
        return 2


def numbers(value, trail=()):
    """The trail of keys to every number inside a JSON value."""
    if isinstance(value, int):
        yield trail
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from numbers(item, (*trail, key))


def changed(content, trail, by):
    """A copy of `content` with the number at `trail` changed."""
    content = copy.deepcopy(content)
    parent = content
    for key in trail[:-1]:
        parent = parent[key]
    parent[trail[-1]] += by
    return content


def test_the_frozen_numbers_are_those_of_the_lengths(frozen):
    """Documents, tokens, pairs and thresholds counted again with plain Python."""
    path, lengths = frozen
    content = read_json(path)
    assert content["histogram"] == [[length, lengths.count(length)] for length in sorted(set(lengths))]
    assert (content["documents"], content["tokens"], content["capacity"]) == (2000, sum(lengths), CAPACITY)
    for row in content["thresholds"]:
        reached = [length for length in lengths if length >= row["length"]]
        assert (row["documents"], row["tokens"]) == (len(reached), sum(reached))
        assert (row["earliest_pass"] - 1) * len(reached) < 1000 <= row["earliest_pass"] * len(reached)
    assert [row["length"] for row in content["thresholds"]][:2] == [CAPACITY + 1, 1024]
    assert content["thresholds"][-1]["length"] == max(lengths)


def test_every_single_changed_number_is_found(frozen):
    """Each number of the file, one up or one down, makes the check fail."""
    path, _ = frozen
    content = read_json(path)
    assert check(path, content) == 0
    trails = list(numbers(content))
    assert len(trails) > 500
    sample = [trail for trail in trails if trail[0] != "histogram"] + trails[::29]
    assert not [(trail, by) for trail in sample for by in (1, -1) if check(path, changed(content, trail, by)) == 0]


def test_the_papers_table_is_marked_as_reported_and_its_passes_hold(capsys):
    """The five thresholds of section 5.2, and that no pass can be changed unnoticed."""
    content = read_json(PAPER)
    rows = [(row["length"], row["documents"], row["earliest_pass"]) for row in content["thresholds"]]
    assert rows == [(16384, 789, 2), (32768, 196, 6), (65536, 39, 26), (131072, 9, 112), (290219, 1, 1000)]
    assert check_length_histogram.main([str(PAPER)]) == 0
    assert "reported by the paper" in capsys.readouterr().out


def test_a_changed_pass_of_the_papers_table_is_found(tmp_path, capsys):
    """Each pass one up or one down."""
    content = read_json(PAPER)
    for index, by in [(index, by) for index in range(5) for by in (1, -1)]:
        assert check(tmp_path / "paper.json", changed(content, ("thresholds", index, "earliest_pass"), by)) == 1
        assert f"FAIL paper: length >= {content['thresholds'][index]['length']}" in capsys.readouterr().out


@pytest.mark.parametrize("trail, by", [(("documents",), 53152), (("tokens",), 1), (("buffer_size",), -1),
                                       (("capacity",), -1), (("thresholds", 0, "documents"), 10),
                                       (("thresholds", 2, "length"), 1)])
def test_a_count_that_the_paper_does_not_print_is_found_although_its_relations_hold(tmp_path, trail, by, capsys):
    """Against the transcribed tables; where those are not, it is said."""
    content = changed(read_json(PAPER), trail, by)
    if trail == ("buffer_size",):
        for row in content["thresholds"]:
            row["earliest_pass"] = -(-999 // row["documents"])
    assert check(tmp_path / "paper.json", content) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert len(failed) == 1 and failed[0].startswith(f"FAIL paper: printed in version_2.json.{trail[0]}")
    assert check_length_histogram.main([str(tmp_path / "paper.json"), "--root", str(tmp_path)]) == 0
    assert "version_2.json: not here" in capsys.readouterr().out


def test_a_corpus_without_long_documents_has_no_thresholds():
    """Nothing is protected, so nothing is bounded."""
    summary = freeze_length_histogram.summarise(np.array([3, 257, 257]), 257, 1000)
    assert summary["thresholds"] == [] and summary["histogram"] == [[3, 1], [257, 2]]
    assert check_length_histogram.expected_thresholds(257, 257) == []


@example(255, 256)
@example(256, 256)
@example(255, 257)
@example(1, 2)
@given(st.integers(1, 5000), st.integers(1, 5000))
def test_script_and_checker_derive_the_same_thresholds(capacity, longest):
    """Two derivations of the rule, at and around powers of two."""
    found = freeze_length_histogram.thresholds(capacity, longest)
    assert found == check_length_histogram.expected_thresholds(capacity, longest)
    assert all(capacity < length <= longest for length in found)


def test_freezing_again_writes_the_same_or_refuses(frozen, tmp_path):
    """Same lengths, same bytes; other lengths are named and refused."""
    path, lengths = frozen
    before = path.read_bytes()
    assert freeze(tmp_path) == 0 and path.read_bytes() == before
    np.save(tmp_path / "data" / "demo" / "train" / "lengths.npy", np.array(lengths[:-1], dtype=np.int64))
    tiny_runs.list_prepared(tmp_path / "data/demo")
    with pytest.raises(InputError, match="frozen, and the new content differs at"):
        freeze(tmp_path)


@pytest.mark.parametrize("lengths", [np.array([4, 0]), np.array([-1]), np.ones(2), np.empty(0, np.int64)])
def test_hostile_lengths_are_not_frozen(lengths, tmp_path):
    """Zero, negative, float and empty are refused with the file named."""
    np.save(tmp_path / "lengths.npy", lengths)
    with pytest.raises(InputError, match="lengths.npy"):
        freeze_length_histogram.read_lengths(tmp_path / "lengths.npy")


def test_a_study_that_is_not_prepared_says_what_to_run(tmp_path):
    """The missing file and the command."""
    with pytest.raises(InputError, match="prepare.py"):
        freeze(tmp_path)


@pytest.mark.parametrize("text", ['{"documents": 1}', "[]", '{"histogram": 3}', "{"])
def test_a_file_of_another_shape_is_refused(text, tmp_path):
    """Not a check that fails: nothing could be checked."""
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(InputError, match="file.json"):
        check_length_histogram.main([str(tmp_path / "file.json")])


def test_a_number_of_another_type_is_refused(tmp_path):
    """A float where a whole number belongs is named by its key."""
    content = json.loads(PAPER.read_text())
    content["thresholds"][1]["documents"] = 196.0
    (tmp_path / "file.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"thresholds\[1\].documents"):
        check_length_histogram.main([str(tmp_path / "file.json")])
