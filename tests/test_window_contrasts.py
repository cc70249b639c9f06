"""Contrasts of made-up losses find what was planted, flag what cannot be resampled, and obey a complete protocol."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest

from evidence import InputError, write_json
from research.resampling import units
from research.source_windows import contrasts, select_windows, windows
from tiny import corpus as tiny_corpus
from tiny import windows as tiny_windows

ROOT = Path(__file__).resolve().parents[1]


def test_another_seed_draws_others_and_an_excluded_document_is_never_drawn():
    lengths = np.full(40, 9)
    one, two = (select_windows.draw(lengths, np.arange(40), [8, 10], 6, seed)[1][1].tolist() for seed in (1, 2))
    assert one != two and len(set(one)) == 6
    left = np.setdiff1d(np.arange(40), one)
    assert not set(select_windows.draw(lengths, left, [8, 10], 6, 1)[1][1].tolist()) & set(one)


def made_up(changes, documents=60):
    """A stratum of two runs over a row; `changes` (kinds, documents) are what the second loses more, in nats."""
    random = np.random.default_rng(0)
    size = random.integers(50, 150, (2, documents))
    nats = random.uniform(100, 200, (2, 1, documents, 2)).repeat(2, axis=1)
    nats[:, 1, :, -1] += changes
    return contrasts.Stratum("34-50", False, units(nats), size)


RUNS = [("baseline_s1", "baseline", 1), ("segmented_s1", "segmented", 1)]


def cell_of(stratum):
    return contrasts.cells([stratum], RUNS, ["34-50"], {"replicates": 2000, "seed": 1})[0]


def test_a_planted_tradeoff_is_found_and_a_common_shift_cancels():
    noise = np.random.default_rng(1).normal(0, 0.5, (2, 60))
    traded = cell_of(made_up(np.array([[3.0], [-3.0]]) + noise))["quantities"]
    assert traded["beginning"]["interval_adjusted"][0] > 0 > traded["tail"]["interval_adjusted"][1]
    assert traded["tail_minus_beginning"]["interval_adjusted"][1] < 0
    low, high = cell_of(made_up(3.0 + noise))["quantities"]["tail_minus_beginning"]["interval_95"]
    assert low < 0 < high


def test_intervals_are_as_wide_as_the_standard_error_of_paired_documents():
    changes = np.random.default_rng(2).normal(0, 5, (2, 60))
    entry = cell_of(made_up(changes))["quantities"]["beginning"]
    expected = 2 * 1.96 * changes[0].std() / math.sqrt(60) / (math.log(2) * made_up(changes).bytes[0].mean())
    assert np.diff(entry["interval_95"])[0] == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("stratum, reason", [
    (made_up(np.zeros((2, 0)), 0), "no document"),
    (made_up(np.ones((2, 1)), 1), "one document"),
    (made_up(np.zeros((2, 60))), "the baseline's losses"),
    (made_up(np.ones((2, 60)))._replace(bytes=np.arange(120).reshape(2, 60)), "without bytes"),
])
def test_degenerate_cells_say_why_and_have_no_interval(stratum, reason):
    cell = cell_of(stratum)
    assert reason in cell["degenerate"]
    assert all(entry["interval_95"] is entry["interval_adjusted"] is None for entry in cell["quantities"].values())
    assert bool(cell["quantities"]) == (cell["sources"] > 0)


@pytest.mark.parametrize("changes, flat", [
    (np.ones((2, 60)), {"beginning", "tail", "tail_minus_beginning"}),
    (np.array([[1.0] * 60, list(range(60))]), {"beginning"}),
])
def test_a_quantity_whose_replicates_all_agree_has_no_interval_and_says_why(changes, flat):
    stratum = made_up(changes)._replace(bytes=np.full((2, 60), 100))
    cell = cell_of(stratum)
    assert cell["degenerate"] is None
    assert {name for name, entry in cell["quantities"].items() if "rounding" in entry.get("reason", "")} == flat
    for name, entry in cell["quantities"].items():
        assert (entry["interval_95"] is None) == (entry["interval_adjusted"] is None) == (name in flat)


# ----------------------------------------------------------------------------------------- protocol


@pytest.mark.parametrize("change, named", [
    (lambda s: s.pop("bins"), "missing key bins"),
    (lambda s: s.update(extra=1), "unknown key extra"),
    (lambda s: s.update(strata=[8, 8, 33]), "strata: expected rising"),
    (lambda s: s.update(strata=[8, 16]), "strata: expected the row, 33"),
    (lambda s: s.update(bins=[4, 32]), "bins: expected edges below the context"),
    (lambda s: s.update(per_stratum=0), "per_stratum"),
    (lambda s: s.update(contrast_strata=["17-33"]), "contrast_strata"),
    (lambda s: s["bootstrap"].update(replicates=2.5), "bootstrap.replicates"),
    (lambda s: s["populations"].update(confirmation={"documents": [44, 60], "seed": 2}), "confirmation after"),
    (lambda s: s["populations"].update(development={"documents": [5, 5], "seed": 2}), r"\[first, last\)"),
    (lambda s: s["populations"].update(development=None), "populations.development: null"),
])
def test_a_wrong_window_protocol_is_refused_by_key(tmp_path, change, named):
    evaluation = copy.deepcopy(tiny_windows.EVALUATION)
    change(evaluation["source_windows"])
    write_json(tmp_path / "protocols/tiny.json", tiny_corpus.protocol())
    write_json(tmp_path / "protocols/evaluation_tiny.json", evaluation)
    with pytest.raises(InputError, match=named):
        windows.Windows("tiny", "development", tmp_path)


@pytest.mark.parametrize("name", ["demo", "wheels", "climbmix"])
def test_the_protocols_of_the_studies_are_accepted(name):
    there = windows.Windows(name, "development", ROOT)
    runs = [(run, condition, seed) for run, condition, seed in there.run_names()]
    assert len(contrasts.compared(runs)) * len(there.section["contrast_strata"]) == 8
