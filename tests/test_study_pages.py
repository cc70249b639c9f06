"""The pages of the questions state of each study what its frozen evidence says."""

import copy

import pytest

from evidence import read_json, sha256_file
from manifest import read_manifest
from research.matched_training.verify_training_table import table
from research.summary import sections, summarise
from tiny.runs import ROOT

RESEARCH = ROOT / "research"


def page(question):
    return (RESEARCH / question / "README.md").read_text(encoding="utf-8")


def missing(lines, text):
    """The lines that the text lacks; at least one must have been looked for."""
    assert lines
    return [line for line in lines if line not in text.splitlines()]


@pytest.fixture(scope="module")
def parts():
    return summarise.read_parts("wheels", RESEARCH)


@pytest.mark.parametrize("study", ["demo", "wheels"])
def test_the_training_table_is_that_of_the_results(study):
    assert missing(table(read_json(RESEARCH / f"matched_training/{study}.json")), page("matched_training")) == []


@pytest.mark.parametrize("study", ["demo", "wheels"])
def test_the_code_of_the_frozen_runs_is_in_the_supplement(study):
    listed = read_manifest(RESEARCH / f"matched_training/runs_{study}.sha256")
    own = ("config.json", "loader.py")  # the second is a copy under another name
    code = {(name.split("/")[-1], digest) for name, digest in listed.items() if not name.endswith(own)}
    kept = {(path.name, sha256_file(path)) for path in (ROOT / "supplement_v1").rglob("*.py")}
    assert code and code <= kept


def test_the_documents_that_segmentation_starts_are_counted():
    said, text = [], " ".join(page("matched_training").split())
    for study in ("demo", "wheels"):
        record = read_json(RESEARCH / f"source_exclusion/{study}.json")["training"]["segmented"]
        started = record["documents"]["started"]
        short = started - record["protected"]["started"]
        said.append(f"{started:,} in a run of `{study}`, {short:,} of them short enough")
    assert all(line in text for line in said)


@pytest.mark.parametrize("population", ["development_windows", "confirmation_windows"])
def test_the_windows_table_is_that_of_the_contrasts(parts, population):
    rows = sections.window_rows(parts[population], parts["paper"])
    assert missing([f"| {' | '.join(row)} |" for row in rows], page("source_windows")) == []


@pytest.mark.parametrize("population", ["development_windows", "confirmation_windows"])
def test_the_windows_outside_the_contrasts_are_told_as_they_were_found(parts, population):
    assert sections.other_lengths(parts[population]) in " ".join(page("source_windows").split())


def test_the_signs_of_the_windows_are_the_papers_in_each_contrast(parts):
    assert "In each of the eight contrasts beginning, tail and their difference have the paper's signs" in " ".join(
        page("source_windows").split())
    for population in ("development_windows", "confirmation_windows"):
        cells = [cell for cell in parts[population]["cells"] if cell["contrast"]]
        papers = [sections.paper_cell(parts["paper"], cell, parts[population]["context"]) for cell in cells]
        ours = [[cell["quantities"][key]["value"] > 0 for key in sections.SIGNS] for cell in cells]
        theirs = [[float(paper[key]) > 0 for key in ("prefix", "tail", "interaction")] for paper in papers]
        assert len(cells) == 8 and ours == theirs


def test_tails_of_one_to_two_rows_under_segmentation_are_as_told(parts):
    """Worse in the confirmation at both seeds, less so than their beginnings; zero is in development's intervals."""
    later, earlier = ([cell["quantities"] for cell in parts[population]["cells"]
                       if (cell["condition"], cell["stratum"]) == ("segmented", "1026-2048")]
                      for population in ("confirmation_windows", "development_windows"))
    assert len(later) == len(earlier) == 2
    assert all(found["tail"]["interval_95"][0] > 0 > found["tail_minus_beginning"]["interval_95"][1] for found in later)
    assert all(found["tail"]["interval_95"][0] < 0 < found["tail"]["interval_95"][1] for found in earlier)


def test_the_widths_that_were_tried_are_as_told():
    tried = read_json(RESEARCH / "matched_training/sweep_wheels.json")["candidates"]
    assert {entry["context"] for entry in tried if entry["width"] != 128} == {2048}
    assert min(entry["width"] for entry in tried) == 128
    assert "Width was varied at context 2,048 only, and 128 is the smallest width tried" in " ".join(
        page("matched_training").split())


def rankings(study):
    return read_json(RESEARCH / f"prefix_ranking/{study}.json")


def condition(run):
    return run.rsplit("_s", 1)[0]


def nearest_to_its_bounds(found):
    """The contrast that another draw of subsets would move across a bound first, as the page names it."""
    def inside(contrast):
        return min(contrast["prefix"] - contrast["subsets_95"][0], contrast["subsets_95"][1] - contrast["prefix"])

    one = min(found["contrasts"], key=lambda contrast: abs(inside(contrast)))
    return (f"is `{one['checkpoint']}` on the first {one['targets']:,} targets, {one['prefix']:+.6f} with 95 % from "
            f"{one['subsets_95'][0]:+.6f} to {one['subsets_95'][1]:+.6f}, "
            f"{abs(inside(one)):.6f} {'outside' if one['outside'] else 'inside'}.")


@pytest.mark.parametrize("study", ["demo", "wheels"])
def test_the_ranking_is_told_as_it_was_found(study):
    found, text = rankings(study), " ".join(page("prefix_ranking").split())
    assert f"Study `{study}`, its six checkpoints. {sections.ranking_section(found)}" in text
    assert nearest_to_its_bounds(found) in text


@pytest.mark.parametrize("study, crops", [("demo", 3), ("wheels", 0)])
def test_outside_lie_all_penalties_of_segmented_and_the_counted_ones_of_random_crop(study, crops):
    found = rankings(study)["contrasts"]
    outside = [condition(contrast["checkpoint"]) for contrast in found if contrast["outside"]]
    assert sorted(outside) == ["random_crop"] * crops + ["segmented"] * 6
    assert all(c["prefix"] < c["full"] for c in found if condition(c["checkpoint"]) == "segmented")


def test_the_short_score_of_the_demo_prefers_random_crop_and_the_whole_the_baseline():
    found, text = rankings("demo"), " ".join(page("prefix_ranking").split())
    assert [condition(name) for name in found["ranking"]][:2] == ["baseline"] * 2
    pairs = [entry["reversals"] for entry in found["prefixes"]]
    assert all(set(map(condition, pair)) == {"baseline", "random_crop"} for pair in sum(pairs, []))
    assert "model, {}, {} and {} on the three prefixes.".format(*map(len, pairs)) in text
    crops = [c for c in found["contrasts"] if condition(c["checkpoint"]) == "random_crop" and c["targets"] == 8192]
    assert len(crops) == 2 and all(c["prefix"] < 0 < c["full"] for c in crops)


def test_the_reversal_of_wheels_is_of_the_two_models_named():
    reversals = [entry["reversals"] for entry in rankings("wheels")["prefixes"]]
    assert reversals == [[["baseline_s44", "random_crop_s43"]], [], []]


def readme():
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_the_readme_tells_what_the_study_found(parts):
    for told in (sections.sign_finding(parts["training"], parts["confirmation"]),
                 sections.window_finding(parts["confirmation_windows"]),
                 sections.ranking_section(parts["ranking"])):
        assert f" {told}" in readme()
    rows = sections.score_rows(parts["training"], parts["confirmation"], parts["paper"])
    assert all(" ".join(f"| {' | '.join(row)} |".split()) in readme() for row in rows)


def untold(audit, training):
    """Which of the three sentences about the stream the README does not have."""
    said = sections.stream_section(audit, training).splitlines()
    assert len(said) == 3
    return [place for place, sentence in enumerate(said) if sentence not in readme()]


def test_the_readme_tells_what_the_streams_left_out(parts):
    audit = parts["audit"]
    assert untold(audit, parts["training"]) == []
    assert audit["training"]["baseline"]["protected"]["started"] == audit["evaluation"]["protected"]["started"] == 0


@pytest.mark.parametrize("place, edit", [
    (0, lambda audit: audit["training"]["baseline"]["documents"].update(arrived=5971)),
    (0, lambda audit: audit["training"]["baseline"]["tokens"].update(discarded=0)),
    (1, lambda audit: audit["training"]["segmented"]["documents"].update(started=938)),
    (1, lambda audit: audit["training"]["baseline"]["documents"].update(started=4956)),
    (2, lambda audit: audit["evaluation"]["documents"].update(started=489)),
    (2, lambda audit: audit["evaluation"]["over_capacity"].update(started=1)),
    (2, lambda audit: audit["evaluation"]["protected"].update(documents=754)),
    (2, lambda audit: audit["evaluation"]["protected"].update(tokens=0)),
])
def test_each_number_of_the_three_sentences_about_the_stream_is_compared(parts, place, edit):
    audit = copy.deepcopy(parts["audit"])
    edit(audit)
    assert untold(audit, parts["training"]) == [place]
