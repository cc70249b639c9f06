"""Each number that a README page states as found is that of frozen evidence or code; every path it names exists."""

import re
import tomllib

import pytest

import evidence
import manifest
import train
from bundles.archive import archive_bytes, read_folder
from research.matched_training import report
from research.source_exclusion import audit_stream, benchmark_audit
from tiny.runs import ROOT

WORDS = "no one two three four five six seven eight nine ten eleven twelve".split()
STUDIES = ("demo", "wheels")


def flat(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def research(path):
    return evidence.read_json(ROOT / "research" / path)


FLAT = flat("README.md")
PROTOCOLS = {study: evidence.read_json(ROOT / f"protocols/{study}.json") for study in (*STUDIES, "climbmix")}
AUDITS = {study: research(f"source_exclusion/{study}.json") for study in STUDIES}
RESULTS = {study: research(f"matched_training/{study}.json") for study in STUDIES}
AUDIT, SCORES = AUDITS["demo"], RESULTS["demo"]
REPORTED = research("published_tables/version_1.json")["groups"]["training"]


def share(part, whole):
    return f"{100 * part / whole:.1f} %"


def same(values):
    """The one value that all of them are."""
    value, = set(values)
    return value


def documents(study):
    """Of all shards, training and validation."""
    streams = AUDITS[study]["training"]["baseline"], AUDITS[study]["evaluation"]
    return sum(stream["documents"]["corpus"] for stream in streams)


def wheels(study):
    return len(PROTOCOLS[study]["corpus"]["wheels"])


def shards(study):
    return len(PROTOCOLS[study]["corpus"]["train_shards"]) + 1


def runs(study):
    return list(RESULTS[study]["runs"].values())


def design(study):
    """(loaders, seeds) in words."""
    return tuple(WORDS[len({run[key] for run in runs(study)})] for key in ("condition", "seed"))


def the_setting():
    loaders, seeds = same(design(study) for study in STUDIES)
    count = WORDS[same(len(runs(study)) for study in STUDIES)]
    together = same(PROTOCOLS[study]["packing"]["refill_batch"] for study in STUDIES)
    return (f"trains matched models under {loaders} loaders:\n* {WORDS[len(STUDIES)]} studies of {count} **matched "
            f"training runs** each ({loaders} loaders, {seeds} seeds, one model)\n"
            f"documents that arrive together ({together}).")


def the_oldest_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return f"ith Python {project['requires-python'].removeprefix('>=')} or newer,"


def the_demo():
    count = WORDS[len(runs("demo"))]
    return (f"prepares a corpus of {documents('demo'):,} documents (the text files of {WORDS[wheels('demo')]} pinned "
            f"Python wheels, the same bytes for everybody), generates {count} run directories, trains and scores all "
            f"{count} on the CPU")


def the_run():
    record, targets = AUDIT["training"]["baseline"], same(run["targets"] for run in runs("demo"))
    tokens, held = record["tokens"], record["protected"]
    fates = [share(tokens[fate], tokens["arrived"]) for fate in ("emitted", "discarded", "buffered")]
    return (f"Rows have {AUDIT['capacity']:,} tokens; the buffer is refilled to B = {AUDIT['buffer_size']:,} "
            f"documents. In the {targets:,} targets of a run {record['documents']['arrived']:,} documents arrive. "
            f"**The {held['documents']:,} longest, {share(held['tokens'], tokens['arrived'])} of all tokens that "
            "arrived, have not started when it ends.** "
            f"{fates[0]} of the tokens are trained on, {fates[1]} are cut off, {fates[2]} wait in the buffer.")


def the_evaluation():
    record = AUDIT["evaluation"]
    return (f"the longest {record['protected']['documents']:,} of {record['documents']['arrived']:,} documents, "
            f"{share(record['protected']['tokens'], record['tokens']['arrived'])} of the tokens, have not begun.")


def repetition():
    repeated, served = (research(f"source_exclusion/{name}_demo.json") for name in ("repeated", "served"))
    tokens, longest = repeated["training"]["baseline"]["tokens"], served["longest"][0]
    bound, begun = longest["bound"]["pass"], longest["first_begun"]["pass"]
    return (f"Over {repeated['passes']} passes {share(tokens['discarded'], tokens['arrived'])} of the tokens are cut "
            f"off, and the longest document ({longest['length']:,} tokens) is first begun in pass {begun:,}. "
            f"That is {'exactly' if begun == bound else 'not'} the theorem's bound")


def the_horizons():
    """Of the demo's run, of its passes, and as the paper reports it."""
    repeated = research("source_exclusion/repeated_demo.json")
    run, passes = AUDIT["training"]["baseline"], repeated["training"]["baseline"]
    assert passes["protected"]["applies"] and same(part["protected"]["documents"] for part in (run, passes)) == 999
    paper = research("published_tables/version_1.json")["groups"]["coverage"]["values"]
    shares = [f"{share(part['protected']['share_of_arrived'], 1)} of the tokens after "
              f"{part['documents']['arrived']:,} arrivals" for part in (run, passes)]
    return (f"{shares[0]}, {shares[1].replace(' of the tokens', '').replace(' arrivals', '')}, the "
            f"{repeated['passes']} passes; in the paper {paper['protected_of_arrived_percent']} % after "
            f"{paper['documents']} (as reported).")


def the_shorter_score():
    ranking = research("prefix_ranking/demo.json")
    targets = ranking["prefixes"][0]["targets"]
    found = [contrast for contrast in ranking["contrasts"]
             if contrast["targets"] == targets and contrast["checkpoint"].startswith("random_crop")]
    assert len(found) == 2 and all(contrast["prefix"] < 0 < contrast["full"] for contrast in found)
    return f"on its first {targets:,} targets `random_crop` scores better than the baseline at both seeds"


def segmentation():
    baseline, segmented = (AUDIT["training"][name]["documents"]["started"] for name in ("baseline", "segmented"))
    short = segmented - AUDIT["training"]["segmented"]["protected"]["started"]
    return (f"so {WORDS[short]} document short enough for one row starts, and it reads {segmented:,} documents in the "
            f"same budget, where the baseline starts {baseline:,}.\nThat it has read {segmented:,} documents,")


def the_scores():
    deltas = SCORES["bits_per_byte_minus_baseline"]
    return "".join(f"| `{run['condition']}` | {run['seed']} | {run['score']['bits_per_byte']:.4f} | "
                   f"{f'{deltas[name]:+.4f}' if name in deltas else ''} | {run['score']['cross_entropy']:.4f} | "
                   f"{run['score']['perplexity']:.3f} |\n" for name, run in SCORES["runs"].items())


def the_cost_of_segmentation():
    """Here, and as the paper reports it; rounded, both seeds agree."""
    printed = {name: float(run["bpb"]) for name, run in REPORTED["values"].items()}
    seeds = {run["seed"] for run in runs("demo")}
    paper = same(f"{printed[f'segmented_s{seed}'] - printed[f'baseline_s{seed}']:.2f}" for seed in seeds)
    here = same(round(SCORES["bits_per_byte_minus_baseline"][f"segmented_s{seed}"]) for seed in seeds)
    size = {0.5: "half a million"}[round(runs("demo")[0]["targets"] / 1e6, 1)]
    return (f"{design('demo')[1].capitalize()} seeds, one small model, {size} targets: \n"
            f"In the paper, at scale, segmentation costs about {paper} bits per byte (reported by the paper); "
            f"here it costs {WORDS[here]}.")


def the_study_wheels():
    loaders, seeds = design("wheels")
    count = AUDITS["wheels"]["training"]["baseline"]["documents"]["corpus"]
    parameters = same(run["parameters"] for run in runs("wheels"))
    windows = research("source_windows/wheels_confirmation.json")
    contrasts, context = windows["contrasts"]["number"], windows["context"]
    return (f"{WORDS[len(runs('wheels'))].capitalize()} runs of study `wheels` ({count:,} training documents of "
            f"{WORDS[wheels('wheels')]} packages, {parameters / 1e6:.1f} M parameters, {loaders} loaders, {seeds} "
            f"seeds\nlast {context:,} tokens), {WORDS[contrasts]} predeclared contrasts.\n"
            f"trained models; {seeds} seeds estimate no")


def the_claims():
    size = train.describe(PROTOCOLS["climbmix"], PROTOCOLS["climbmix"]["tokenizer"]["vocabulary"])
    return (f"The paper's recipe has {size['parameters']:,} parameters, {size['flops_per_token']:,} FLOPs a token and "
            f"{size['targets']:,} targets |\nand are over {benchmark_audit.RATIO:,} times faster |")


def the_archive():
    name = "supplement_v1"
    digest = manifest.read_manifest(ROOT / f"manifests/{name}.sha256")[f"dist/{name}.tar.gz"]
    size = len(archive_bytes(read_folder(ROOT / name), name))
    return f"`{name}.tar.gz`, {size / 1e6:.1f} MB, SHA-256 `{digest}`"


def the_defaults_of_an_audit():
    usual = audit_stream.parse_arguments(["--lengths", "lengths.npy", "--out", "audit"])
    return (f"Both take `--capacity {usual.capacity} --buffer-size {usual.buffer_size} --refill {usual.refill} "
            f"--passes {usual.passes}`, which are the defaults.")


def the_table_of_studies():
    """But for the size of the downloads, which is not frozen."""
    rows = "".join(f"| `{study}` | {documents(study):,} documents of {wheels(study)} wheels\n| "
                   f"{AUDITS[study]['capacity']:,} | audited, {WORDS[len(runs(study))]} runs\n" for study in STUDIES)
    row = PROTOCOLS["climbmix"]["packing"]["context"] + 1
    return f"{rows}| the paper's {WORDS[shards('climbmix')]} shards | {row:,} | nothing |"


def each_study():
    demo, ten = (f"{documents(study):,} documents of {WORDS[wheels(study)]}" for study in STUDIES)
    first, second = (AUDITS[study]["capacity"] for study in STUDIES)
    seeds = same(" and ".join(map(str, PROTOCOLS[study]["seeds"])) for study in STUDIES)
    return (f"trains one model (seeds {seeds}) under each: `demo` ({demo} Python wheels, rows of {first:,} tokens), "
            f"`wheels` ({ten}, rows of {second:,}),")


def the_parts_of_a_bundle():
    """Its verifiers, and the list of its files."""
    parts = evidence.read_json(ROOT / "supplement_v1/parts.json")["parts"]
    unchecked = sum("numpy" in part["needs"] for part in parts)
    return f"(without NumPy {unchecked} of {len(parts) + 1} parts are not checked)"


def the_tolerances():
    score = research("prefix_ranking/wheels.json")["tolerance"]
    bins = research("source_windows/wheels_development.json")["position_parts"]["tolerance"]
    score, bins = (f"{value:g}".replace("e-0", "e-") for value in (score, bins))
    return (f"from row statistics within {score} bits per byte and position bins within {bins} of their window,\n"
            f"elsewhere within {report.TOLERANCE} bits per byte,")


def the_papers_runs():
    """Minutes from the shortest timed loop to the longest run."""
    values = REPORTED["values"].values()
    least, most = min(float(run["timed"]) for run in values), max(float(run["total"]) for run in values)
    peak = round(float(same(run["peak_mib"] for run in values)))
    return (f"downloads {WORDS[shards('climbmix')]} parquet shards\nfor one GPU: {least / 60:.0f} to {most / 60:.0f} "
            f"minutes a run, {peak:,} MiB peak, and the scores of its section {REPORTED['section']}.")


SENTENCES = {
    "README.md": [the_setting, the_oldest_python, the_demo, the_run, the_evaluation, repetition, the_horizons,
                  segmentation, the_shorter_score,
                  the_scores, the_cost_of_segmentation, the_study_wheels, the_claims, the_archive,
                  the_defaults_of_an_audit, the_table_of_studies],
    "REPRODUCE.md": [the_oldest_python, the_parts_of_a_bundle, the_tolerances, the_papers_runs],
    "research/README.md": [each_study]}


@pytest.mark.parametrize("page, make", [(page, make) for page, makers in SENTENCES.items() for make in makers])
def test_a_page_states_what_evidence_and_code_say(page, make):
    text, sentences = flat(page), [" ".join(line.split()) for line in make().splitlines()]
    assert sentences and [sentence for sentence in sentences if sentence not in text] == []


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
