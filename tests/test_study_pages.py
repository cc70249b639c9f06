"""The pages of the questions state of each study what its frozen evidence says."""

import copy

import numpy as np
import pytest

from evidence import read_json, sha256_file
from manifest import read_manifest
from research.confirmation.check_untouched import seen_finding
from research.confirmation.score_confirmation import score_table
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


def test_the_confirmation_states_its_hash_its_documents_and_its_scores(parts):
    text, record = page("confirmation"), read_json(RESEARCH / "confirmation/protocol_wheels.json")
    assert record["sha256"] in text and record["sealed_at"] in text
    first, last = record["content"]["evaluation"]["confirmation"]["documents"]
    assert f"| `wheels` | {first:,} to {last:,} | {record['content']['stream']['targets']:,} |" in text.splitlines()
    assert missing(score_table(parts["confirmation"]).splitlines(), text) == []


def test_the_confirmation_tells_what_the_sweep_had_scored_of_it(parts):
    seen, text = parts["seen"], page("confirmation")
    whole, rows = seen["confirmation"], len(seen["seen"]["in_confirmation"]["rows"])
    lines = ["|Context|Candidates|Documents drawn|Reserved, arrived|Reserved, begun|"
             f"Also begun here, of {whole['begun']}|Tokens of {whole['tokens']:,}|Rows of {whole['rows']}|",
             f"|Run|All {whole['rows']} rows|Without the {rows}|"]
    for record in seen["contexts"]:
        also = record["in_confirmation"]
        cells = [record["context"], record["candidates"], f"{record['arrived']:,}", record["reserved_arrived"],
                 len(record["reserved_begun"]), len(also["documents"]), f"{also['tokens']:,}", len(also["rows"])]
        lines.append(f"|{'|'.join(map(str, cells))}|")
    every, kept = (seen["bits_per_byte_minus_baseline"][key] for key in ("all_rows", "without_rows_seen"))
    lines += [f"|{name}|{value:+.8f}|{kept[name]:+.8f}|" for name, value in every.items()]
    assert missing(lines, text) == [] and len(lines) == 2 + len(seen["contexts"]) + 4
    assert all(every[name] * kept[name] > 0 for name in every) and "Every sign stays" in text
    assert f"The differences without the {rows} rows" in " ".join(text.split())


def test_what_was_seen_is_in_no_contrast_but_in_windows_of_shorter_documents(parts):
    seen, text = parts["seen"], " ".join(page("confirmation").split())
    documents = set(seen["seen"]["reserved"])
    longest, evidence = max(record["longest_begun"] for record in seen["contexts"]), parts["confirmation_windows"]
    number = {8: "eight"}[evidence["contrasts"]["number"]]
    assert f"so these {len(documents)} documents are reserved text" in text
    assert f"None is longer than {longest} tokens: no document of the {number} window contrasts is among them" in text
    assert longest < min(int(stratum.split("-")[0]) for stratum in evidence["contrast_strata"])
    windows = np.load(RESEARCH / "source_windows/wheels_confirmation_windows.npy")
    found = windows[np.isin(windows[:, 0], list(documents)), 1]  # their lengths
    assert len(found) and found.max() <= longest


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


@pytest.mark.parametrize("study, crops", [("demo", 3), ("wheels", 0)])
def test_outside_lie_all_penalties_of_segmented_and_the_counted_ones_of_random_crop(study, crops):
    found = rankings(study)["contrasts"]
    outside = [condition(contrast["checkpoint"]) for contrast in found if contrast["outside"]]
    assert sorted(outside) == ["random_crop"] * crops + ["segmented"] * 6
    assert all(c["prefix"] < c["full"] for c in found if condition(c["checkpoint"]) == "segmented")


def test_the_short_score_of_the_demo_prefers_random_crop_and_the_whole_the_baseline():
    found = rankings("demo")
    assert [condition(name) for name in found["ranking"]][:2] == ["baseline"] * 2
    pairs = [entry["reversals"] for entry in found["prefixes"]]
    assert all(set(map(condition, pair)) == {"baseline", "random_crop"} for pair in sum(pairs, []))
    crops = [c for c in found["contrasts"] if condition(c["checkpoint"]) == "random_crop" and c["targets"] == 8192]
    assert len(crops) == 2 and all(c["prefix"] < 0 < c["full"] for c in crops)


def test_the_reversal_of_wheels_is_of_the_two_models_named():
    reversals = [entry["reversals"] for entry in rankings("wheels")["prefixes"]]
    assert reversals == [[["baseline_s44", "random_crop_s43"]], [], []]


def readme():
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_the_readme_tells_what_the_study_found(parts):
    for told in (sections.sign_finding(parts["training"], parts["confirmation"]), seen_finding(parts["seen"]),
                 ):
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
