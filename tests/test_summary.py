"""The summary page says what the frozen evidence says, and nothing else: another number there is another page."""

import copy
import sys

import pytest
from evidence import InputError
from tiny_runs import ROOT

sys.path.insert(0, str(ROOT / "research/summary"))
import summarise  # noqa: E402

PAGE = (ROOT / "research/summary/wheels.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def parts():
    return summarise.read_parts("wheels", ROOT / "research")


def test_the_page_of_the_repository_is_what_the_evidence_gives(parts):
    assert summarise.page("wheels", parts) == PAGE
    assert summarise.main(["--study", "wheels", "--check"]) == 0


def test_the_figures_it_shows_are_drawn_from_the_evidence(parts, tmp_path):
    figures = summarise.draw_figures(parts, tmp_path)
    assert sorted(figure.name for figure in figures) == sorted(
        path.name for path in (ROOT / "research/summary/wheels").iterdir())
    assert all(figure.stat().st_size > 10_000 and f"(wheels/{figure.name})" in PAGE for figure in figures)


@pytest.mark.parametrize("part, edit", [
    ("audit", lambda v: v["training"]["baseline"]["protected"].update(documents=998)),
    ("training", lambda v: v["runs"]["segmented_s44"]["score"].update(bits_per_byte=1.0)),
    ("training", lambda v: v["bits_per_byte_minus_baseline"].update(random_crop_s43=-0.5)),
    ("confirmation", lambda v: v["runs"]["baseline_s43"]["score"].update(bits_per_byte=1.0)),
    ("seen", lambda v: v["bits_per_byte_minus_baseline"]["without_rows_seen"].update(random_crop_s43=-0.5)),
    ("confirmation_windows", lambda v: next(c for c in v["cells"] if c["contrast"]).update(sources=1)),
    ("ranking", lambda v: v["contrasts"][0].update(outside=not v["contrasts"][0]["outside"])),
    ("paper", lambda v: v["confirmation"]["values"]["segmented_s43"].update(bpb="2.5")),
])
def test_another_number_gives_another_page(parts, part, edit):
    changed = copy.deepcopy(parts)
    edit(changed[part])
    assert summarise.page("wheels", changed) != PAGE


def test_a_study_without_a_sweep_says_nothing_of_one(parts):
    assert "sweep" in PAGE and "sweep" not in summarise.page("wheels", {**parts, "seen": None})


def test_a_cell_that_cannot_be_resampled_says_why(parts):
    changed = copy.deepcopy(parts)
    cell = next(c for c in changed["confirmation_windows"]["cells"] if c["contrast"])
    cell.update(degenerate="one document: every replicate is the same")
    for entry in cell["quantities"].values():
        entry.update(interval_95=None, interval_adjusted=None)
    assert "| one document: every replicate is the same |" in summarise.page("wheels", changed)


def test_paper_cells_are_those_of_the_same_multiples_of_the_row(parts):
    cell = {"run": "random_crop_s43", "stratum": "2049-4096"}
    assert summarise.paper_cell(parts["paper"], cell, 1024)["interaction"] == "-0.010654"
    assert summarise.paper_cell(parts["paper"], cell | {"stratum": "4097-8192"}, 1024)["interaction"] == "-0.008549"
    assert summarise.paper_cell(parts["paper"], cell | {"stratum": "1026-2048"}, 1024) is None


def test_a_study_without_all_its_evidence_is_named():
    with pytest.raises(InputError, match="demo"):
        summarise.main(["--study", "demo"])
