"""The pages of the questions state of each study what its frozen evidence says."""

import sys

import pytest
from evidence import read_json, read_manifest, sha256_file
from tiny_runs import ROOT

for folder in ("confirmation", "source_windows", "prefix_ranking", "summary", "matched_training"):
    sys.path.insert(0, str(ROOT / "research" / folder))

import summarise  # noqa: E402
from research.confirmation.score_confirmation import score_table  # noqa: E402
from research.matched_training.verify_training_table import table  # noqa: E402

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
        said.append(f"{started:,} in a run of `{study}`, {started - record['protected']['started']:,} of them short enough")
    assert all(line in text for line in said)


def test_the_confirmation_states_its_hash_its_documents_and_its_scores(parts):
    text, record = page("confirmation"), read_json(RESEARCH / "confirmation/protocol_wheels.json")
    assert record["sha256"] in text and record["sealed_at"] in text
    first, last = record["content"]["evaluation"]["confirmation"]["documents"]
    assert f"| `wheels` | {first:,} to {last:,} | {record['content']['stream']['targets']:,} |" in text.splitlines()
    assert missing(score_table(parts["confirmation"]).splitlines(), text) == []


@pytest.mark.parametrize("population", ["development_windows", "confirmation_windows"])
def test_the_windows_table_is_that_of_the_contrasts(parts, population):
    rows = summarise.window_rows(parts[population], parts["paper"])
    assert missing([f"| {' | '.join(row)} |" for row in rows], page("source_windows")) == []


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
    assert f"Study `{study}`, its six checkpoints. {summarise.ranking_section(found)}" in text
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


def test_the_readme_tells_what_the_study_found(parts):
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for told in (summarise.stream_section(parts["audit"], parts["training"]).splitlines()[0],
                 summarise.sign_finding(parts["training"], parts["confirmation"]),
                 summarise.window_finding(parts["confirmation_windows"]),
                 summarise.ranking_section(parts["ranking"])):
        assert told in text
    rows = summarise.score_rows(parts["training"], parts["confirmation"], parts["paper"])
    assert all(" ".join(f"| {' | '.join(row)} |".split()) in text for row in rows)
