"""The sections of a study's page in words and tables, each from its frozen evidence."""

from research.source_windows.blocks import contrast_finding, contrast_table, other_lengths


def markdown(headers, rows):
    """A table; the first column to the left, numbers to the right."""
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def share(part, whole):
    return f"{100 * part / whole:.1f} %"


# ---------------------------------------------------------------------------------------- the stream


def stream_section(audit, training):
    run, scored = next(iter(training["runs"].values())), audit["evaluation"]
    baseline, segmented = audit["training"]["baseline"], audit["training"]["segmented"]
    kept, tokens, arrived = baseline["protected"], baseline["tokens"], baseline["documents"]["arrived"]
    return "\n".join([
        f"A run trains on {run['targets']:,} targets in rows of {audit['capacity']:,} tokens. Under the baseline "
        f"loader {arrived:,} documents arrive meanwhile; **the {kept['documents']:,} longest, "
        f"{share(kept['tokens'], tokens['arrived'])} of all tokens that arrived, have not started when it ends.** "
        f"{share(tokens['emitted'], tokens['arrived'])} of the tokens are trained on, "
        f"{share(tokens['discarded'], tokens['arrived'])} cut off, "
        f"{share(tokens['buffered'], tokens['arrived'])} wait.",
        f"The segmented loader starts {segmented['documents']['started']:,} documents in the same budget, the baseline "
        f"{baseline['documents']['started']:,}.",
        f"The official score's own stream starts {scored['documents']['started']:,} of "
        f"{scored['documents']['arrived']:,} documents, {scored['over_capacity']['started'] or 'none'} of them "
        f"longer than a row; the {scored['protected']['documents']:,} longest, of which it scores nothing, hold "
        f"{share(scored['protected']['tokens'], scored['tokens']['arrived'])} of the tokens that arrived.",
    ])


def horizon_finding(audit, paper):
    """Why the share of what waits is not one number, with the paper's."""
    kept, reported = audit["training"]["baseline"]["protected"], paper["coverage"]["values"]
    return (f"The share falls with the horizon, since no more than {audit['buffer_size'] - 1:,} documents wait: "
            f"{share(kept['share_of_arrived'], 1)} of the tokens here, {reported['protected_of_arrived_percent']} % of "
            f"the tokens of {reported['documents']} arrivals in the paper (as reported).")


# ---------------------------------------------------------------------------------------- scores


def score_rows(training, confirmation, paper):
    """One row a run: official and confirmation score, each with its difference and the paper's."""
    rows = []
    for name, result in training["runs"].items():
        cells = [f"`{result['condition']}`", str(result["seed"])]
        for evidence, scored, reported in ((training, result, paper["training"]["values"]),
                                           (confirmation, confirmation["runs"][name], paper["confirmation"]["values"])):
            delta = evidence["bits_per_byte_minus_baseline"].get(name)
            printed = float(reported[name]["bpb"]) - float(reported[f"baseline_s{result['seed']}"]["bpb"])
            cells += [f"{scored['score']['bits_per_byte']:.5f}", "" if delta is None else f"{delta:+.5f}",
                      "" if delta is None else f"{printed:+.5f}"]
        rows.append(cells)
    return rows


def sign_finding(training, confirmation):
    """How many differences of the official score are penalties, and whether the confirmation repeats the signs."""
    official, later = (part["bits_per_byte_minus_baseline"] for part in (training, confirmation))
    worse, same = sum(value > 0 for value in official.values()), sum(official[run] * later[run] > 0 for run in official)
    bits = [run["score"]["bits_per_byte"] for run in training["runs"].values() if run["condition"] == "baseline"]
    return (f"{worse} of {len(official)} runs with an intervention score worse than the baseline of their seed (the "
            f"baselines themselves differ by {max(bits) - min(bits):.5f} between seeds); "
            f"on the confirmation stream {same} of {len(official)} differences have the sign they have on the official "
            "one.")


def score_section(parts):
    from research.confirmation.blocks import leakage_finding

    headers = ["condition", "seed", "official", "vs baseline", "paper's", "confirmation", "vs baseline", "paper's"]
    seen = f" {leakage_finding(parts['seen'])}" if parts["seen"] else ""
    return "\n\n".join([sign_finding(parts["training"], parts["confirmation"]) + seen,
                        markdown(headers, score_rows(parts["training"], parts["confirmation"], parts["paper"])),
                        "Bits per byte; lower is better. *Paper's*: the same difference as reported by the paper, of "
                        "its own model, corpus and budget; not measured here."])


# --------------------------------------------------------------------------------------- windows


def window_section(parts):
    evidence = parts["confirmation_windows"]
    return "\n\n".join([
        contrast_finding(evidence), contrast_table(evidence, parts["paper"]["windows"]["values"]),
        f"Difference in bits per byte from the same-seed baseline. The {evidence['contrasts']['number']} contrasts "
        "were predeclared. The interval is adjusted for their number (Bonferroni); it is over documents, for these "
        "trained models.",
        other_lengths(evidence)])
