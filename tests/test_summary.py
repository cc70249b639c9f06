"""The summary page and its figures say what the frozen evidence says: another number there is another page."""

import copy
import re
import shutil

import numpy as np
import pytest
from matplotlib.image import imread, imsave

import check_manifests
from evidence import InputError
from manifest import read_manifest
from research import drawing
from research.source_windows import blocks as window_blocks
from research.summary import summarise
from tiny.runs import ROOT

PAGE = (ROOT / "research/summary/wheels.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def parts():
    return summarise.read_parts("wheels", ROOT / "research")


def test_the_page_of_the_repository_is_what_the_evidence_gives(parts):
    assert summarise.page("wheels", parts) == PAGE
    assert summarise.main(["--study", "wheels", "--check"]) == 0


# ------------------------------------------------------------------------------------------ figures

FIGURES = ROOT / "research/summary/wheels"
TILE = 8
# Another machine may draw a line or a letter up to a pixel away, across and up; that changes a tile by at most
# 1 - (7 / 8) ** 2 = 0.234 of the range.
FAR = 0.25


def tiles(path):
    """Mean colour, 0 to 1, of each whole square of TILE by TILE pixels: float (rows, columns, 3)."""
    pixels = imread(path)[..., :3]
    rows, columns = (size // TILE for size in pixels.shape[:2])
    return pixels[: rows * TILE, : columns * TILE].reshape(rows, TILE, columns, TILE, 3).mean(axis=(1, 3))


def differing(folder):
    """Names of the committed figures that show something else than those of a folder."""
    return sorted(path.name for path in FIGURES.iterdir()
                  if imread(path).shape != imread(folder / path.name).shape
                  or abs(tiles(path) - tiles(folder / path.name)).max() > FAR)


def test_the_figures_it_shows_are_drawn_from_the_evidence(parts, tmp_path):
    figures = summarise.draw_figures(parts, tmp_path)
    assert sorted(figure.name for figure in figures) == sorted(path.name for path in FIGURES.iterdir())
    assert all(f"(wheels/{figure.name})" in PAGE for figure in figures) and differing(tmp_path) == []


def test_a_figure_drawn_a_pixel_away_is_the_same_figure(tmp_path):
    for path in FIGURES.iterdir():
        imsave(tmp_path / path.name, np.roll(imread(path), 1, axis=(0, 1)))
    moved, committed = (imread(folder / "rankings.png")[..., :3] for folder in (tmp_path, FIGURES))
    assert differing(tmp_path) == [] and abs(moved - committed).max() > 0.5


def first_contrast(parts):
    return next(cell for cell in parts["confirmation_windows"]["cells"] if cell["contrast"])


def move_a_part(parts):
    evidence = parts["development_windows"]
    row = next(row for row in evidence["position_parts"]["rows"]
               if row["window"] == "tail" and row["stratum"] in evidence["contrast_strata"])
    row["parts"][2] += 0.01


def move_a_prefix(parts):
    parts["ranking"]["contrasts"][3]["prefix"] += 0.01


@pytest.mark.parametrize("edit, figure", [
    (lambda parts: first_contrast(parts)["quantities"]["tail_minus_beginning"].update(value=-0.45), "contrasts.png"),
    (lambda parts: first_contrast(parts).update(census=True), "contrasts.png"),
    (move_a_part, "position_parts.png"),
    (move_a_prefix, "rankings.png"),
    (lambda parts: parts["curves"]["runs"].update(baseline_s44=parts["curves"]["runs"]["baseline_s43"]),
     "learning_curves.png"),
])
def test_another_number_gives_another_figure(parts, tmp_path, edit, figure):
    changed = copy.deepcopy(parts)
    edit(changed)
    summarise.draw_figures(changed, tmp_path)
    assert differing(tmp_path) == [figure]


@pytest.mark.parametrize("change, finding", [
    (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\0"), "contrasts.png: changed"),
    (lambda path: path.unlink(), "contrasts.png: missing"),
    (lambda path: path.rename(path.with_name("more.png")), "more.png: extra"),
])
def test_a_committed_figure_that_is_not_the_frozen_one_is_found(tmp_path, change, finding):
    shutil.copytree(FIGURES, tmp_path / "research/summary/wheels")
    listed = {name: digest for name, digest in read_manifest(ROOT / check_manifests.FROZEN).items()
              if name.startswith("research/summary/wheels/")}
    assert len(listed) == 4 and check_manifests.research_findings(listed, tmp_path) == []
    change(tmp_path / "research/summary/wheels/contrasts.png")
    assert f"research/summary/wheels/{finding}" in "; ".join(check_manifests.research_findings(listed, tmp_path))


def test_a_condition_has_one_colour_wherever_it_is_drawn():
    names = ["mine", "segmented", "baseline", "mine", "yours"]
    found = drawing.colours(names)
    assert found == {"segmented": drawing.CONDITIONS["segmented"], "baseline": drawing.CONDITIONS["baseline"],
                     "mine": drawing.OTHERS[0], "yours": drawing.OTHERS[1]}
    assert drawing.run_colours(["segmented_s43", "mine_s1"]) == {"segmented_s43": found["segmented"],
                                                                 "mine_s1": found["mine"]}
    assert len({*drawing.CONDITIONS.values(), *drawing.OTHERS}) == len(drawing.CONDITIONS) + len(drawing.OTHERS)
    scripts = [path for path in (ROOT / "research").rglob("*.py") if path.name != "drawing.py"]
    named = [path.name for path in scripts if re.search("#[0-9A-Fa-f]{6}", path.read_text(encoding="utf-8"))]
    assert len(scripts) > 50 and named == []


# --------------------------------------------------------------------------------------------- page

@pytest.mark.parametrize("part, edit", [
    ("audit", lambda v: v["training"]["baseline"]["protected"].update(documents=998)),
    ("training", lambda v: v["runs"]["segmented_s44"]["score"].update(bits_per_byte=1.0)),
    ("training", lambda v: v["bits_per_byte_minus_baseline"].update(random_crop_s43=-0.5)),
    ("confirmation", lambda v: v["runs"]["baseline_s43"]["score"].update(bits_per_byte=1.0)),
    ("seen", lambda v: v["bits_per_byte_minus_baseline"]["without_rows_seen"].update(random_crop_s43=-0.5)),
    ("confirmation_windows", lambda v: next(c for c in v["cells"] if c["contrast"]).update(sources=1)),
    ("ranking", lambda v: v["contrasts"][0].update(outside=not v["contrasts"][0]["outside"])),
    ("confirmation_windows", lambda v: next(c for c in v["cells"] if c["stratum"] == "513-1025")["quantities"][
        "beginning"].update(value=0.001)),
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
    paper = parts["paper"]["windows"]["values"]
    assert window_blocks.paper_cell(paper, cell, 1024)["interaction"] == "-0.010654"
    assert window_blocks.paper_cell(paper, cell | {"stratum": "4097-8192"}, 1024)["interaction"] == "-0.008549"
    assert window_blocks.paper_cell(paper, cell | {"stratum": "1026-2048"}, 1024) is None


def test_a_study_without_all_its_evidence_is_named():
    with pytest.raises(InputError, match="demo"):
        summarise.main(["--study", "demo"])
