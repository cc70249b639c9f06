"""The sections of a study's page in words and tables, each from its frozen evidence."""

# The key of the paper's stratum, by how many rows long its shortest documents are; ours are named by their bounds.
PAPER_STRATA = {2: "from_4097", 4: "from_8193"}


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
    from research.confirmation.check_untouched import seen_finding

    headers = ["condition", "seed", "official", "vs baseline", "paper's", "confirmation", "vs baseline", "paper's"]
    seen = f" {seen_finding(parts['seen'])}" if parts["seen"] else ""
    return "\n\n".join([sign_finding(parts["training"], parts["confirmation"]) + seen,
                        markdown(headers, score_rows(parts["training"], parts["confirmation"], parts["paper"])),
                        "Bits per byte; lower is better. *Paper's*: the same difference as reported by the paper, of "
                        "its own model, corpus and budget; not measured here."])


# --------------------------------------------------------------------------------------- windows


def paper_cell(paper, cell, row):
    """The paper's cell of the same condition and seed, and the same length in whole rows; None when it has none."""
    low = int(cell["stratum"].removeprefix("over ").split("-")[0])
    return paper["windows"]["values"].get(cell["run"], {}).get(PAPER_STRATA.get(low // row))


def window_rows(evidence, paper):
    rows = []
    for cell in (cell for cell in evidence["cells"] if cell["contrast"]):
        values = [f"{entry['value']:+.5f}" for entry in cell["quantities"].values()]
        bounds = cell["quantities"]["tail_minus_beginning"]["interval_adjusted"]
        printed = paper_cell(paper, cell, evidence["context"])
        rows.append([f"`{cell['condition']}`", str(cell["seed"]), cell["stratum"],
                     f"{cell['sources']}{' (census)' * cell['census']}", *values,
                     f"[{bounds[0]:+.5f}, {bounds[1]:+.5f}]" if bounds else cell["degenerate"],
                     f"{printed['interaction']} [{printed['low']}, {printed['high']}]" if printed else "-"])
    return rows


def window_finding(evidence):
    """The contrasts in one sentence, as the figure has it."""
    from research.source_windows.window_figures import forest_title

    entries = [cell["quantities"]["tail_minus_beginning"] for cell in evidence["cells"]
               if cell["contrast"] and not cell["degenerate"]]
    return f"{forest_title(entries)}."


SIGNS = {"beginning": (1, "beginnings score worse than the baseline's"), "tail": (-1, "tails score better"),
         "tail_minus_beginning": (-1, "tail minus beginning is negative")}


def cell_difference(cell, quantity):
    """A cell and one of its differences, with the ordinary interval or why there is none."""
    entry = cell["quantities"][quantity]
    bounds = "[{:+.5f}, {:+.5f}]".format(*entry["interval_95"]) if entry["interval_95"] else cell["degenerate"]
    return f"`{cell['condition']}` seed {cell['seed']}, {cell['stratum']} tokens, {entry['value']:+.5f} {bounds}"


def other_lengths(evidence):
    """In how many of the cells outside the contrasts each difference has its sign of SIGNS, and the cells without."""
    said = []
    for quantity, (sign, finding) in SIGNS.items():
        cells = [cell for cell in evidence["cells"] if not cell["contrast"] and quantity in cell["quantities"]]
        others = [cell_difference(cell, quantity) for cell in cells
                  if sign * cell["quantities"][quantity]["value"] <= 0]
        said.append(f"{finding} in {len(cells) - len(others)} of {len(cells)} cells"
                    + (f", not in {'; '.join(others)}" if others else ""))
    said = ". ".join([said[0], *(finding[0].upper() + finding[1:] for finding in said[1:])])
    return f"Documents of other lengths, outside the contrasts, with ordinary 95 % intervals: {said}."


def window_section(parts):
    evidence = parts["confirmation_windows"]
    level = 100 - 5 / evidence["contrasts"]["number"]
    headers = ["condition", "seed", "length", "documents", "beginning", "tail", "tail minus beginning", f"{level:g} %",
               "paper's, at the same multiples of its row"]
    return "\n\n".join([
        window_finding(evidence), markdown(headers, window_rows(evidence, parts["paper"])),
        f"Difference in bits per byte from the same-seed baseline. {evidence['contrasts']['number']} predeclared "
        "contrasts; the interval is adjusted for their number (Bonferroni) and is over documents, for these trained "
        "models.",
        other_lengths(evidence)])


def ranking_section(ranking):
    from research.prefix_ranking.ranking_figure import title

    outside = sum(contrast["outside"] for contrast in ranking["contrasts"])
    sizes = ", ".join(f"{entry['targets']:,}" for entry in ranking["prefixes"])
    return (f"{title(ranking)}; prefixes of {sizes} of {ranking['targets']:,} targets. {outside} of "
            f"{len(ranking['contrasts'])} differences on a prefix lie outside what 95 % of random row subsets of its "
            "size give.")
