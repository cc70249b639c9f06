"""Prefixes are ranked from row statistics alone, reversals are real, and what is frozen is rebuilt without the code."""

import math
import shutil

import numpy as np
import pytest

from evidence import InputError, read_json, write_json
from research.prefix_ranking import rank_prefixes, verify_evaluation_summary
from tiny import frozen_windows
from tiny.frozen_windows import leaves, refreeze, with_other

ROWS = (3, 12)
UNCHECKED = {"inputs", "study", "evaluation_plan"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """(root, {run: row statistics}, path of the frozen JSON)."""
    root = frozen_windows.protocols(tmp_path_factory.mktemp("study"))
    statistics = frozen_windows.write_runs(root)
    return root, statistics, frozen_windows.freeze_rankings(root)


@pytest.fixture
def copy(study, tmp_path):
    """The frozen JSON in a root that holds this evidence alone."""
    return shutil.copytree(study[2].parent, tmp_path / "copy" / rank_prefixes.QUESTION) / study[2].name


def score(rows):
    return math.fsum(rows[:, 0]) / (math.log(2) * rows[:, 1].sum())


def verify(path, capsys):
    """(exit code, the lines that fail)."""
    capsys.readouterr()
    code = verify_evaluation_summary.main(["--root", str(path.parents[2])])
    return code, [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]


def test_scores_of_all_rows_and_of_prefixes_are_ratios_of_sums(study):
    _, statistics, path = study
    found = read_json(path)
    assert found["scores"] == pytest.approx({name: score(rows) for name, rows in statistics.items()}, abs=4e-9)
    for entry, rows in zip(found["prefixes"], ROWS):
        assert entry["scores"] == pytest.approx({name: score(s[:rows]) for name, s in statistics.items()}, abs=4e-9)
        assert [entry["scores"][name] for name in entry["ranking"]] == sorted(entry["scores"].values())
    assert found["largest_difference"] <= found["tolerance"] == 4e-9


def test_a_reversal_is_a_pair_in_the_other_order_and_a_tie_is_none():
    reversals = rank_prefixes.reversals(["a", "b", "c"], [1.0, 2.0, 3.0], [2.0, 1.0, 3.0])
    assert reversals == [["a", "b"]]
    assert rank_prefixes.reversals(["a", "b"], [1.0, 2.0], [1.0, 1.0]) == []
    assert len(rank_prefixes.reversals(["a", "b", "c"], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0])) == 3


def test_every_run_is_held_against_its_own_seed(study):
    found = read_json(study[2])
    assert [(c["checkpoint"], c["reference"]) for c in found["contrasts"]] == 2 * [
        ("random_crop_s43", "baseline_s43"), ("random_crop_s44", "baseline_s44"),
        ("segmented_s43", "baseline_s43"), ("segmented_s44", "baseline_s44")]
    assert found["pairs"] == 15
    for contrast in found["contrasts"]:
        low, high = contrast["subsets_95"]
        assert contrast["outside"] == (not low <= contrast["prefix"] <= high)


def test_subsets_are_rows_without_repeat_and_the_whole_population_has_no_spread():
    random = np.random.default_rng(1)
    nats, size = random.integers(1, 10**9, (2, 30)), random.integers(1, 100, 30)
    drawn = rank_prefixes.subset_scores(nats, size, [5, 30], 400, 9)
    assert np.ptp(drawn[1], axis=1).max() == 0
    expected = nats.sum(axis=1) / 2**30 / (math.log(2) * size.sum())
    assert drawn[0].mean(axis=1) == pytest.approx(expected, rel=0.1) and np.ptp(drawn[0], axis=1).min() > 0


def test_a_prefix_unlike_the_rest_is_outside(tmp_path):
    root = frozen_windows.protocols(tmp_path)
    statistics = frozen_windows.write_runs(root)
    changed = statistics["segmented_s43"].copy()
    changed[:, 0] = statistics["baseline_s43"][:, 0] * np.where(np.arange(24) < 3, 1.5, 0.9)
    shutil.rmtree(root / "runs/tiny/segmented_s43")
    frozen_windows.write_run(root / "runs/tiny/segmented_s43", "segmented", 43, changed)
    found = read_json(frozen_windows.freeze_rankings(root))
    one = next(c for c in found["contrasts"] if c["checkpoint"] == "segmented_s43" and c["targets"] == 96)
    assert one["outside"] and one["prefix"] > 0 > one["full"]
    assert ["baseline_s43", "segmented_s43"] in found["prefixes"][0]["reversals"]


def test_other_checkpoints_join_and_keep_their_place_beside_their_rows(tmp_path, capsys):
    root, other = frozen_windows.protocols(tmp_path / "root"), tmp_path / "another_s43"
    statistics = frozen_windows.write_runs(root)
    frozen_windows.write_run(other, "another", 43, statistics["baseline_s43"] * [0.5, 1, 1, 1])
    path = frozen_windows.freeze_rankings(root, "--also", other)
    found = read_json(path)
    assert found["ranking"][0] == "another_s43" and found["pairs"] == 21
    assert verify(path, capsys) == (0, [])


@pytest.mark.parametrize("spoil, named", [
    (lambda rows: rows + [0, 1, 0, 0], "scored other rows"),
    (lambda rows: rows[:-1], "scored other rows"),
])
def test_a_checkpoint_of_another_population_is_refused(study, tmp_path, spoil, named):
    other = tmp_path / "odd_s43"
    frozen_windows.write_run(other, "odd", 43, spoil(study[1]["baseline_s43"]))
    with pytest.raises(InputError, match=f"odd_s43: {named}"):
        rank_prefixes.main(["--study", "tiny", "--root", str(study[0]), "--also", str(other)])


def test_a_score_that_is_not_reproduced_exits_1(tmp_path, capsys):
    root = frozen_windows.protocols(tmp_path)
    frozen_windows.write_runs(root)
    path = root / "runs/tiny/baseline_s43/result.json"
    result = read_json(path)
    result["score"]["bits_per_byte"] += 1e-8
    write_json(path, result)
    assert rank_prefixes.main(["--study", "tiny", "--root", str(root)]) == 1
    assert "FAIL official scores: reproduced within 1.0e-08" in capsys.readouterr().out


def test_a_checkpoint_that_is_not_named_by_condition_and_seed_is_refused(study, tmp_path):
    other = tmp_path / "first_s43"
    frozen_windows.write_run(other, "another", 43, study[1]["baseline_s43"])
    with pytest.raises(InputError, match="first_s43: .*another_s43"):
        rank_prefixes.main(["--study", "tiny", "--root", str(study[0]), "--also", str(other)])


@pytest.mark.parametrize("section, named", [
    ({"prefixes": [32, 33], "subsets": 5, "seed": 1}, "multiples of a row's 32 targets"),
    ({"prefixes": [24 * 32], "subsets": 5, "seed": 1}, "fewer than the score's 768"),
    ({"prefixes": [64, 32], "subsets": 5, "seed": 1}, "rising"),
    ({"prefixes": [32], "subsets": 0, "seed": 1}, "subsets"),
    ({"prefixes": [32], "seed": 1}, "missing key subsets"),
])
def test_a_wrong_ranking_protocol_is_refused_by_key(tmp_path, section, named):
    write_json(tmp_path / "e.json", {"prefix_ranking": section})
    with pytest.raises(InputError, match=named):
        rank_prefixes.read_section(tmp_path / "e.json", 32, 24)


# ------------------------------------------------------------------------------------------- verifier


def test_sound_rankings_hold(study, capsys):
    assert verify(study[2], capsys) == (0, [])


@pytest.mark.parametrize("name", ["counts", "nats"])
def test_one_changed_byte_of_an_array_is_named(copy, name, capsys):
    path = copy.with_name(f"{copy.stem}_{name}.npy")
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    code, failed = verify(copy, capsys)
    assert code == 1 and path.name in failed[0]


def test_any_changed_value_of_the_rankings_is_named(study, copy, capsys):
    found = read_json(study[2])
    for path in leaves(found):
        if path[0] in UNCHECKED:
            continue  # what stands for files enters no number
        changed = with_other(found, path)
        if path[0] == "official":  # what only has to be met within 4e-9
            changed["official"][path[1]] += 1e-8
        write_json(copy, changed)
        code, failed = verify(copy, capsys)
        assert code == 1 and failed, path


def test_swapped_checkpoints_and_a_dropped_row_are_named_although_the_digests_fit(copy, capsys):
    found = read_json(copy)
    counts, nats = (np.load(copy.with_name(f"{copy.stem}_{name}.npy")) for name in ("counts", "nats"))
    refreeze(copy, found, {"nats": nats[[1, 0, 2, 3, 4, 5]]})
    code, failed = verify(copy, capsys)
    assert code == 1 and any("official scores" in line for line in failed)
    found.update(rows=23, targets=23 * 32)
    refreeze(copy, found, {"nats": nats[:, 1:], "counts": counts[1:]})
    code, failed = verify(copy, capsys)
    assert code == 1 and len(failed) >= 3


@pytest.fixture
def sources(study, copy):
    """(root, frozen JSON) with the protocols and the frozen results of the ranked runs."""
    root, statistics, _ = study
    shutil.copytree(root / "protocols", copy.parents[2] / "protocols")
    results = {name: read_json(root / f"runs/tiny/{name}/result.json") for name in statistics}
    write_json(copy.parents[2] / "research/matched_training/tiny.json", {"runs": results})
    return copy.parents[2], copy


def test_rankings_of_the_frozen_runs_and_their_protocol_hold(sources, capsys):
    _, path = sources
    assert verify(path, capsys) == (0, [])


@pytest.mark.parametrize("name, edit, failure", [
    ("protocols/evaluation_tiny.json", lambda v: v["prefix_ranking"].update(subsets=7), "FAIL protocol.subsets"),
    ("protocols/evaluation_tiny.json", lambda v: v["prefix_ranking"].update(prefixes=[64]), "FAIL protocol.prefixes"),
    ("protocols/tiny.json", lambda v: v["packing"].update(context=16), "FAIL protocol.targets"),
    ("research/matched_training/tiny.json", lambda v: v["runs"]["segmented_s44"]["score"].update(bits_per_byte=2.0),
     "FAIL results.segmented_s44[0]"),
    ("research/matched_training/tiny.json", lambda v: v["runs"].pop("segmented_s44"), None),
    ("research/matched_training/tiny.json",
     lambda v: v["runs"]["baseline_s43"]["digests"].update({"evaluation_rows.npy": "0" * 64}), "FAIL results.baseline"),
])
def test_another_protocol_or_other_results_are_named(sources, capsys, name, edit, failure):
    root, path = sources
    value = read_json(root / name)
    edit(value)
    write_json(root / name, value)
    code, failed = verify(path, capsys)
    assert (code, len(failed)) == ((1, 1) if failure else (0, 0)) and (not failure or failed[0].startswith(failure))


def test_rows_that_are_not_those_of_the_run_are_named(copy, capsys):
    found = read_json(copy)
    found["runs"][2]["rows"] = "0" * 64
    write_json(copy, found)
    code, failed = verify(copy, capsys)
    assert code == 1 and failed[0].startswith(f"FAIL {found['runs'][2]['run']}: row statistics")


def test_swapped_conditions_of_interventions_are_named_although_no_number_rests_on_them(copy, capsys):
    found, other = read_json(copy), {"random_crop": "segmented", "segmented": "random_crop"}
    for run in found["runs"]:
        run["condition"] = other.get(run["condition"], run["condition"])
    write_json(copy, found)
    code, failed = verify(copy, capsys)
    assert code == 1 and len(failed) == 1
    assert all(name in failed[0] for name in ("random_crop_s43", "random_crop_s44", "segmented_s43", "segmented_s44"))
