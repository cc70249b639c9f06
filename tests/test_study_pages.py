"""The pages of the questions state of the study `wheels` what its frozen evidence says."""

import sys

import numpy as np
import pytest
from evidence import read_json, read_manifest, sha256_file
from tiny_runs import ROOT

for folder in ("confirmation", "source_windows", "prefix_ranking", "summary", "matched_training"):
    sys.path.insert(0, str(ROOT / "research" / folder))

import summarise  # noqa: E402
from research.confirmation.check_untouched import seen_finding  # noqa: E402
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


@pytest.mark.parametrize("population", ["development_windows", "confirmation_windows"])
def test_the_windows_table_is_that_of_the_contrasts(parts, population):
    rows = summarise.window_rows(parts[population], parts["paper"])
    assert missing([f"| {' | '.join(row)} |" for row in rows], page("source_windows")) == []


def test_the_ranking_is_told_as_it_was_found(parts):
    assert summarise.ranking_section(parts["ranking"]) in " ".join(page("prefix_ranking").split())


def test_the_readme_tells_what_the_study_found(parts):
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for told in (summarise.stream_section(parts["audit"], parts["training"]).splitlines()[0],
                 summarise.sign_finding(parts["training"], parts["confirmation"]), seen_finding(parts["seen"]),
                 summarise.window_finding(parts["confirmation_windows"]),
                 summarise.ranking_section(parts["ranking"])):
        assert told in text
    rows = summarise.score_rows(parts["training"], parts["confirmation"], parts["paper"])
    assert all(" ".join(f"| {' | '.join(row)} |".split()) in text for row in rows)
