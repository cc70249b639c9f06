"""Generated blocks of the README, of the questions' overview and of the summary page (see research/pages.py)."""

from tabulate import tabulate

from evidence import read_json
from research.confirmation.blocks import leakage_finding
from research.prefix_ranking.blocks import finding as ranking_finding
from research.source_windows.blocks import contrast_finding, windows

STUDY = "wheels"


def evidence_of(root, question, name=STUDY):
    """Return a frozen JSON of a question."""
    return read_json(root / f"research/{question}/{name}.json")


def reported(root):
    """Return the groups of numbers of the paper's version 1, as reported."""
    return evidence_of(root, "published_tables", "version_1")["groups"]


def percent(part, whole):
    """Format a share in percent with one decimal."""
    return f"{100 * part / whole:.1f} %"


# ------------------------------------------------------------------------------------------ streams


def fates(record):
    """State the shares of the tokens that arrived: emitted, discarded, waiting."""
    tokens = record["tokens"]
    shares = {name: percent(tokens[name], tokens["arrived"]) for name in ("emitted", "discarded", "buffered")}
    return (f"Of all tokens that arrive, {shares['emitted']} are emitted, {shares['discarded']} are discarded by "
            f"crops, and {shares['buffered']} wait in the buffer")


def not_started(record):
    """State how many of the longest documents have not started, and what share of the tokens they hold."""
    protected = record["protected"]
    share = percent(protected["tokens"], record["tokens"]["arrived"])
    return (f"**the {protected['documents']:,} longest, {share} of all tokens that arrived, have not started when it "
            "ends**")


def stream(root):
    """Describe what a run reads, and what the official score samples."""
    audit = evidence_of(root, "source_exclusion")
    baseline, segmented, scored = audit["training"]["baseline"], audit["training"]["segmented"], audit["evaluation"]
    return "\n\n".join([
        f"Under the baseline loader, {baseline['documents']['arrived']:,} documents arrive during a run of "
        f"{baseline['targets']:,} targets, in rows of {audit['capacity']:,} tokens; {not_started(baseline)}. "
        f"{fates(baseline)}.",
        "Cutting long documents to the row first (`segmented`) reverses the exclusion: a full-row piece is always the "
        f"longest that fits. In the same budget this loader starts {segmented['documents']['started']:,} documents; "
        f"the baseline starts {baseline['documents']['started']:,}.",
        "The official score cannot show it. It packs the validation documents with the same packer, and when its "
        f"stream ends it has started {scored['documents']['started']:,} of {scored['documents']['arrived']:,} "
        f"documents, {scored['over_capacity']['started'] or 'none'} of them longer than a row."])


def horizon(root):
    """Compare the shares at other horizons, ours and the paper's."""
    repeated, paper = evidence_of(root, "source_exclusion", "repeated_demo"), reported(root)["coverage"]["values"]
    counts = {key: int(paper[key].replace(",", "")) for key in ("tokens", "discarded", "emitted")}
    return (f"The shares depend on the horizon, since at most B - 1 documents are protected. Over {repeated['passes']} "
            f"passes of the demo's corpus: {_lower(fates(repeated['training']['baseline']))}. In the paper, after "
            f"{paper['documents']} arrivals, {percent(counts['emitted'], counts['tokens'])} of the tokens are emitted, "
            f"{percent(counts['discarded'], counts['tokens'])} are discarded, and the {paper['protected_sources']} "
            f"longest documents, none of them started, hold {paper['protected_of_arrived_percent']} % (as reported).")


def _lower(sentence):
    return sentence[0].lower() + sentence[1:]


def finding(root):
    """The finding in three sentences, for the first screen."""
    audit = evidence_of(root, "source_exclusion")
    baseline, scored = audit["training"]["baseline"], audit["evaluation"]
    return (f"* In our study, {baseline['documents']['arrived']:,} documents arrive during one training run, and "
            f"{not_started(baseline)}.\n"
            f"* {fates(baseline)}.\n"
            f"* Validation loss does not show it: packed by the same loader, the validation stream starts "
            f"{scored['over_capacity']['started'] or 'none'} of the {scored['over_capacity']['arrived']:,} documents "
            "longer than a row that arrive.")


# ------------------------------------------------------------------------------------------- scores


def results(root):
    """Official and confirmation score of every run, with the paper's differences."""
    training, confirmation, paper = (evidence_of(root, "matched_training"), evidence_of(root, "confirmation"),
                                     reported(root))
    rows = []
    for name, result in training["runs"].items():
        cells = [f"`{result['condition']}`", result["seed"]]
        for evidence, scored, group in ((training, result, "training"),
                                        (confirmation, confirmation["runs"][name], "confirmation")):
            difference, printed = evidence["bits_per_byte_minus_baseline"].get(name), paper[group]["values"]
            theirs = float(printed[name]["bpb"]) - float(printed[f"baseline_s{result['seed']}"]["bpb"])
            cells += [f"{scored['score']['bits_per_byte']:.5f}", "" if difference is None else f"{difference:+.5f}",
                      "" if difference is None else f"{theirs:+.5f}"]
        rows.append(cells)
    header = ["condition", "seed", "official", "vs baseline", "paper's", "confirmation", "vs baseline", "paper's"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", *["right"] * 7))


def signs(root):
    """How many differences are penalties, and whether the confirmation has the same signs."""
    training = evidence_of(root, "matched_training")
    official = training["bits_per_byte_minus_baseline"]
    confirmed = evidence_of(root, "confirmation")["bits_per_byte_minus_baseline"]
    worse = sum(value > 0 for value in official.values())
    same = sum(official[run] * confirmed[run] > 0 for run in official)
    bits = [run["score"]["bits_per_byte"] for run in training["runs"].values() if run["condition"] == "baseline"]
    return (f"{worse} of {len(official)} runs with another loader score worse than the baseline of their seed; the two "
            f"baselines differ by {max(bits) - min(bits):.5f}. On the confirmation stream, {same} of {len(official)} "
            f"differences have the same sign. {leakage_finding(evidence_of(root, 'confirmation', f'seen_{STUDY}'))}")


def confirmed_windows(root):
    """What the confirmation's windows show, with their number."""
    evidence = windows(root, "confirmation")
    return (f"{contrast_finding(evidence)} The {evidence['contrasts']['number']} contrasts were predeclared; each "
            "compares beginnings and ends of held-out documents longer than a row.")


def rankings(root):
    """What shorter prefixes of the official score would have ranked differently."""
    return ranking_finding(evidence_of(root, "prefix_ranking"))


# ------------------------------------------------------------------------------------------- claims


def claims(root):
    """Every claim with the command that checks it, from the one list of verifiers."""
    rows = []
    for verifier in read_json(root / "manifests/verifiers.json")["verifiers"]:
        data = ", ".join(f"`{study}`" for study in verifier["data"])
        needs = f"prepared data: {data}" if data else "" if verifier["default"] else ", ".join(verifier["needs"])
        rows.append([verifier["claim"], f"`python {' '.join(verifier['command'])}`", needs, f"{verifier['seconds']} s"])
    return tabulate(rows, ["claim", "check", "needs", "about"], "pipe", disable_numparse=True,
                    colalign=("left", "left", "left", "right"))


BLOCKS = {"summary.finding": finding, "summary.results": results, "summary.stream": stream,
          "summary.horizon": horizon, "summary.signs": signs, "summary.windows": confirmed_windows,
          "summary.rankings": rankings, "summary.claims": claims}
