"""Generated blocks of this question's page (research/pages.py writes them from frozen evidence)."""

from tabulate import tabulate

from evidence import read_json

STUDY = "wheels"
FOLDER = "research/confirmation"
RIGHT = {"disable_numparse": True, "colalign": ("left", "right", "right", "right", "right", "right")}


def score_table(evidence):
    """Return the scores of a confirmation as Markdown, with the columns of the paper's section 5.4."""
    rows = []
    for name in sorted(evidence["runs"]):
        (condition, seed), score = name.rsplit("_s", 1), evidence["runs"][name]["score"]
        difference = evidence["bits_per_byte_minus_baseline"].get(name)
        rows.append([f"`{condition}`", seed, f"{score['bits_per_byte']:.8f}",
                     "" if difference is None else f"{difference:+.8f}", f"{score['cross_entropy']:.8f}",
                     f"{score['perplexity']:.5f}"])
    header = ["condition", "seed", "bits per byte", "minus baseline of the seed", "nats a target", "perplexity"]
    return tabulate(rows, header, "pipe", **RIGHT)


def evidence_of(root, prefix=""):
    """Return the frozen JSON of this question with a prefix such as `seen_`."""
    return read_json(root / f"{FOLDER}/{prefix}{STUDY}.json")


def answer(root):
    """Whether the differences of the official score hold on the reserved documents."""
    official = read_json(root / f"research/matched_training/{STUDY}.json")["bits_per_byte_minus_baseline"]
    confirmed, exclusions = evidence_of(root)["bits_per_byte_minus_baseline"], evidence_of(root, "exclusions_")
    same = sum(official[run] * confirmed[run] > 0 for run in official)
    smaller = [f"`{run}`" for run in sorted(official) if abs(confirmed[run]) < abs(official[run])]
    count = len(exclusions["excluded"])
    return (f"In the study `{STUDY}`, {same} of {len(official)} differences from the baseline keep the sign that they "
            f"have on the official score. The difference is smaller here for {', '.join(smaller) or 'no run'}, and "
            f"larger for the others. {count or 'No'} reserved documents were exact duplicates of earlier ones.")


def scores(root):
    """The scores of every run on the reserved documents."""
    return score_table(evidence_of(root))


def leakage_finding(evidence):
    """Return what a sweep had scored of the confirmation's documents, and whether the differences hold without it.

    evidence: the JSON value of seen_NAME.json.
    """
    whole, seen = evidence["confirmation"], evidence["seen"]["in_confirmation"]
    every, kept = (evidence["bits_per_byte_minus_baseline"][key] for key in ("all_rows", "without_rows_seen"))
    told = (f"A sweep of small models, which sized the study, had scored {len(seen['documents'])} of the "
            f"{whole['begun']:,} documents that the confirmation starts")
    if kept is None:
        return f"{told}. Each of its {whole['rows']:,} rows holds a token of theirs."
    same = sum(every[name] * kept[name] > 0 for name in every)
    return (f"{told}. Without the {len(seen['rows'])} of {whole['rows']:,} rows that hold a token of theirs, "
            f"{same} of {len(every)} differences keep their sign.")


def leakage(root):
    """What a sweep had scored, in one sentence."""
    return leakage_finding(evidence_of(root, "seen_"))


def leakage_contexts(root):
    """One row a context of the sweep: what its candidates' official stream starts of the reserved documents."""
    seen, rows = evidence_of(root, "seen_"), []
    for record in seen["contexts"]:
        shared = record["in_confirmation"]
        counts = [record["context"], record["candidates"], record["arrived"], record["reserved_arrived"],
                  len(record["reserved_begun"]), len(shared["documents"]), shared["tokens"], len(shared["rows"])]
        rows.append([f"{count:,}" for count in counts])
    whole = seen["confirmation"]
    header = ["context", "candidates", "documents that arrive", "reserved ones that arrive", "reserved ones that start",
              f"of the {whole['begun']:,} that start here", f"of {whole['tokens']:,} tokens",
              f"rows of {whole['rows']:,}"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=["right"] * len(header))


def leakage_differences(root):
    """The differences with and without the rows that hold a document which a sweep had scored."""
    seen = evidence_of(root, "seen_")
    every, kept = (seen["bits_per_byte_minus_baseline"][key] for key in ("all_rows", "without_rows_seen"))
    rows = [[f"`{name}`", f"{every[name]:+.8f}", f"{kept[name]:+.8f}"] for name in sorted(every)]
    whole, shared = seen["confirmation"]["rows"], len(seen["seen"]["in_confirmation"]["rows"])
    header = ["run", f"all {whole} rows", f"without the {shared} rows"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", "right", "right"))


def leakage_length(root):
    """The longest reserved document that a sweep had scored."""
    return f"{max(record['longest_begun'] for record in evidence_of(root, 'seen_')['contexts']):,}"


def reserved(root):
    """The reserved range and the targets of every study."""
    rows = []
    for path in sorted((root / "protocols").glob("evaluation_*.json")):
        section, study = read_json(path)["confirmation"], path.stem.removeprefix("evaluation_")
        if section is None:
            rows.append([f"`{study}`", "none", ""])
        else:
            first, last = section["documents"]
            rows.append([f"`{study}`", f"{first:,} to {last - 1:,}", f"{section['targets']:,}"])
    return tabulate(rows, ["study", "reserved validation documents", "targets"], "pipe", disable_numparse=True,
                    colalign=("left", "left", "right"))


def demo_documents(root):
    """Why the demo reserves no documents."""
    documents = read_json(root / "research/source_exclusion/demo.json")["evaluation"]["documents"]
    buffer = read_json(root / "protocols/demo.json")["packing"]["buffer_size"]
    left = documents["corpus"] - documents["arrived"]
    return (f"The official score of `demo` draws {documents['arrived']:,} of {documents['corpus']:,} validation "
            f"documents; the {left:,} others do not fill a buffer of {buffer:,}.")


def frozen(root):
    """When the protocol was frozen, its SHA-256, and when the scoring began."""
    protocol, result = evidence_of(root, "protocol_"), evidence_of(root)
    return (f"The protocol of `{STUDY}` was frozen at {protocol['sealed_at']}, with the SHA-256 "
            f"`{protocol['sha256']}`. Its scoring began at {result['began_at']}.")


def reach(root):
    """How many documents longer than a row the stream shows."""
    stream = evidence_of(root, "protocol_")["content"]["stream"]
    return (f"Of {stream['over_capacity']:,} reserved documents longer than a row, the stream of `{STUDY}` starts "
            f"{stream['over_capacity_started'] or 'none'}.")


def paper(root):
    """The differences that the paper reports."""
    reported = read_json(root / "research/published_tables/version_1.json")["groups"]["confirmation"]["values"]
    told = ", ".join(f"{values['delta']} for `{run}`" for run, values in sorted(reported.items())
                     if not run.startswith("baseline"))
    return f"For its own study the paper reports these bits per byte minus the baseline of the seed: {told}."


BLOCKS = {f"confirmation.{function.__name__}": function for function in (
    answer, scores, leakage, leakage_contexts, leakage_differences, leakage_length, reserved, demo_documents, frozen,
    reach, paper)}
