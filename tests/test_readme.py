"""Every number that the README states as a finding is the one in the frozen evidence; every path it names exists."""

import re

import evidence
import pytest
from tiny_runs import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
FLAT = " ".join(README.split())
AUDIT = evidence.read_json(ROOT / "research/source_exclusion/demo.json")
REPEATED = evidence.read_json(ROOT / "research/source_exclusion/repeated_demo.json")
SERVED = evidence.read_json(ROOT / "research/source_exclusion/served_demo.json")
SCORES = evidence.read_json(ROOT / "research/matched_training/demo.json")


def share(part, whole):
    return f"{100 * part / whole:.1f} %"


def finding_of_the_run():
    record, runs = AUDIT["training"]["baseline"], list(SCORES["runs"].values())
    tokens, held = record["tokens"], record["protected"]
    fates = [share(tokens[fate], tokens["arrived"]) for fate in ("emitted", "discarded", "buffered")]
    return (f"In the {runs[0]['targets']:,} targets of a run {record['documents']['arrived']:,} documents arrive. "
            f"**The {held['documents']:,} longest, {share(held['tokens'], tokens['arrived'])} of all tokens, have not "
            "started when it ends.** "
            f"{fates[0]} of the tokens are trained on, {fates[1]} are cut off, {fates[2]} wait in the buffer.")


def finding_of_the_evaluation():
    record = AUDIT["evaluation"]
    return (f"{record['protected']['documents']:,} of {record['documents']['arrived']:,} documents, "
            f"{share(record['protected']['tokens'], record['tokens']['arrived'])} of the tokens")


def finding_of_repetition():
    tokens = REPEATED["training"]["baseline"]["tokens"]
    longest = SERVED["longest"][0]
    return (f"Over {REPEATED['passes']} passes {share(tokens['discarded'], tokens['arrived'])} of the tokens are cut off, and "
            f"the longest document ({longest['length']:,} tokens) is first begun in pass {longest['first_begun']['pass']:,}.")


def finding_of_segmentation():
    record = AUDIT["training"]["segmented"]
    return f"reads {record['documents']['started']:,} documents in the same budget"


def score_rows():
    for name, result in SCORES["runs"].items():
        delta = SCORES["bits_per_byte_minus_baseline"].get(name)
        score = result["score"]
        yield (f"| `{result['condition']}` | {result['seed']} | {score['bits_per_byte']:.4f} | "
               f"{'' if delta is None else f'{delta:+.4f}'} | {score['cross_entropy']:.4f} | {score['perplexity']:.3f} |")


@pytest.mark.parametrize("make", [
    finding_of_the_run, finding_of_the_evaluation, finding_of_repetition, finding_of_segmentation])
def test_the_findings_are_those_of_the_evidence(make):
    assert make() in FLAT


def test_the_scores_are_those_of_the_evidence():
    rows = [" ".join(row.split()) for row in score_rows()]
    assert len(rows) == 6 and [row for row in rows if row not in FLAT] == []


def test_the_archive_is_named_by_its_recorded_hash():
    record = evidence.read_manifest(ROOT / "manifests/supplement_v1.sha256")
    assert f"`supplement_v1.tar.gz`, 5.6 MB, SHA-256 `{record['dist/supplement_v1.tar.gz']}`" in FLAT


@pytest.mark.parametrize("page", ["README.md", "REPRODUCE.md", "research/README.md"])
def test_every_file_and_make_target_named_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    scripts = re.findall(r"(?:python|`)\s?((?:research/|loaders/|tests/|protocols/)?[\w/]+\.(?:py|json))\b", text)
    folder = (ROOT / page).parent
    missing = {name for name in scripts if "/" in name and not ((ROOT / name).exists() or (folder / name).exists())}
    assert len(scripts) > 3 and not missing
    makefile = (ROOT / "Makefile").read_text()
    assert not [target for target in re.findall(r"`?\bmake ([a-z][a-z-]+)", text) if f"\n{target}:" not in makefile]


def test_the_citation_is_of_this_software_and_its_paper_and_invents_no_name():
    """One entity for each, no person; title of the paper as the README has it, version and licence as in pyproject."""
    citation, project = (ROOT / "CITATION.cff").read_text(encoding="utf-8"), (ROOT / "pyproject.toml").read_text()
    software, paper = citation.split("references:\n")
    title = re.search(r"of the paper \*([^*]+)\*", FLAT)[1]
    assert f'- type: article\n    title: "{title}"\n' in paper and "type: software\n" in software
    assert re.findall("- name: (.+)", software) == ["The contributors of this repository"]
    assert re.findall("- name: (.+)", paper) == ["Authors not named in the text that this repository follows"]
    assert not re.search("given-names|family-names|seed paper", citation)
    for key in ("version", "license"):
        stated = re.search(f'^{key} = "(.+)"$', project, re.MULTILINE)[1]
        assert f"\n{key}: {stated}\n" in software
