"""What did a study find, at a glance? One page and its figures, from frozen evidence alone.

    summarise.py --study NAME [--check]

Reads   the frozen NAME.json of ../source_exclusion, ../matched_training (and curves_NAME.json), ../confirmation,
        ../source_windows (NAME_development.json, NAME_confirmation.json), ../prefix_ranking, where there was a sweep
        ../confirmation/seen_NAME.json; numbers reported by the paper from ../published_tables/version_1.json
Writes  NAME.md and NAME/*.png beside this script; with --check nothing: exit 1 when NAME.md is not what they give
Needs   matplotlib, NumPy. About five seconds
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "research/source_windows"), str(ROOT / "research/prefix_ranking")]

from evidence import Checks, read_json, run_script, write_atomic  # noqa: E402
from research.confirmation.check_untouched import seen_finding  # noqa: E402

# Contrast strata by how many rows long their documents are; the paper's have keys of its own.
PAPER_STRATA = {2: "from_4097", 4: "from_8193"}
PARTS = {
    "audit": "source_exclusion/{}.json", "training": "matched_training/{}.json",
    "curves": "matched_training/curves_{}.json", "confirmation": "confirmation/{}.json",
    "development_windows": "source_windows/{}_development.json",
    "confirmation_windows": "source_windows/{}_confirmation.json", "ranking": "prefix_ranking/{}.json",
}
SEEN = "confirmation/seen_{}.json"


def read_parts(study, research):
    """{part: frozen evidence}; `seen`, None without a sweep; `paper`, the groups of tables of its first version."""
    parts, seen = {name: read_json(research / path.format(study)) for name, path in PARTS.items()}, SEEN.format(study)
    return {**parts, "seen": read_json(research / seen) if (research / seen).exists() else None,
            "paper": read_json(research / "published_tables/version_1.json")["groups"]}


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
        f"A run trains on {run['targets']:,} targets in rows of {audit['capacity']:,} tokens. Under the baseline loader "
        f"{arrived:,} documents arrive meanwhile; **the {kept['documents']:,} longest, "
        f"{share(kept['tokens'], tokens['arrived'])} of all tokens that arrived, have not started when it ends.** "
        f"{share(tokens['emitted'], tokens['arrived'])} of the tokens are trained on, "
        f"{share(tokens['discarded'], tokens['arrived'])} cut off, {share(tokens['buffered'], tokens['arrived'])} wait.",
        f"The segmented loader starts {segmented['documents']['started']:,} documents in the same budget, the baseline "
        f"{baseline['documents']['started']:,}.",
        f"The official score's own stream starts {scored['documents']['started']:,} of {scored['documents']['arrived']:,} "
        f"documents, and none longer than a row: {share(scored['protected']['tokens'], scored['tokens']['arrived'])} of "
        "the tokens that arrived are in documents of which it scores nothing.",
    ])


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
    return (f"{worse} of {len(official)} runs with an intervention score worse than the baseline of their seed; "
            f"on the confirmation stream {same} of {len(official)} differences have the sign they have on the official one.")


def score_section(parts):
    headers = ["condition", "seed", "official", "vs baseline", "paper's", "confirmation", "vs baseline", "paper's"]
    seen = f" {seen_finding(parts['seen'])}" if parts["seen"] else ""
    return "\n\n".join([sign_finding(parts["training"], parts["confirmation"]) + seen,
                        markdown(headers, score_rows(parts["training"], parts["confirmation"], parts["paper"])),
                        "Bits per byte; lower is better. *Paper's*: the same difference as reported by the paper, of its "
                        "own model, corpus and budget; not measured here."])


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
    from window_figures import forest_title

    entries = [cell["quantities"]["tail_minus_beginning"] for cell in evidence["cells"]
               if cell["contrast"] and not cell["degenerate"]]
    return f"{forest_title(entries)}."


def window_section(parts):
    evidence = parts["confirmation_windows"]
    level = 100 - 5 / evidence["contrasts"]["number"]
    headers = ["condition", "seed", "length", "documents", "beginning", "tail", "tail minus beginning", f"{level:g} %",
               "paper's, at the same multiples of its row"]
    return "\n\n".join([
        window_finding(evidence), markdown(headers, window_rows(evidence, parts["paper"])),
        f"Difference in bits per byte from the same-seed baseline. {evidence['contrasts']['number']} predeclared contrasts; "
        "the interval is adjusted for their number (Bonferroni) and is over documents, for these trained models."])


def ranking_section(ranking):
    from ranking_figure import title

    outside = sum(contrast["outside"] for contrast in ranking["contrasts"])
    sizes = ", ".join(f"{entry['targets']:,}" for entry in ranking["prefixes"])
    return (f"{title(ranking)}; prefixes of {sizes} of {ranking['targets']:,} targets. {outside} of "
            f"{len(ranking['contrasts'])} differences on a prefix lie outside what 95 % of random row subsets of its size "
            "give.")


# ------------------------------------------------------------------------------------------ page

READING = """\
* The intervals are over documents. Two seeds are no interval over training randomness, and none of the numbers here
  is a claim about other corpora, models or budgets.
* The segmented arm changes which documents are read, how many, and where they are cut; its score isolates none of these.
* A tail window begins with an artificial BOS and lacks what came before it: a better tail there is not yet a better tail in context.
* Position parts are *post hoc*. The development windows are exploratory; the confirmation's contrasts were fixed before its scoring."""

PAGE = """\
# Study `{study}` at a glance

*Generated by `research/summary/summarise.py --study {study}` from frozen evidence, and compared with it by `--check`.
Numbers of the paper are marked as reported.*

## What the training streams left out

{stream}

Details and proof: [source_exclusion](../source_exclusion/README.md).

## What the models score

{scores}

![Learning curves of the six runs]({study}/learning_curves.png)

Details: [matched_training](../matched_training/README.md), [confirmation](../confirmation/README.md).

## Beginnings and ends of long documents

{windows}

![Contrasts with intervals]({study}/contrasts.png)

![Where in a tail window the change lies]({study}/position_parts.png)

Details: [source_windows](../source_windows/README.md).

## Would a shorter score rank otherwise?

{ranking}

![Prefix contrasts]({study}/rankings.png)

Details: [prefix_ranking](../prefix_ranking/README.md).

## How to read it

{reading}

## Check it

    make verify        # about a minute, no data and no GPU
"""


def page(study, parts):
    return PAGE.format(study=study, stream=stream_section(parts["audit"], parts["training"]), scores=score_section(parts),
                       windows=window_section(parts), ranking=ranking_section(parts["ranking"]), reading=READING)


def draw_figures(parts, folder):
    """Write the page's figures; their paths."""
    import matplotlib.pyplot as plt

    import ranking_figure
    import window_figures
    from research.matched_training.training_figures import draw_curves

    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(window_figures.STYLE):
        paths = [window_figures.forest(folder / "contrasts.png", parts["confirmation_windows"]),
                 window_figures.position_parts(folder / "position_parts.png", parts["development_windows"])]
    return [draw_curves(parts["training"], parts["curves"], folder / "learning_curves.png"), *paths,
            ranking_figure.draw(parts["ranking"], folder / "rankings.png")]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME", help="a study with all its evidence frozen")
    parser.add_argument("--check", action="store_true", help="compare the page that is there, write nothing")
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="default: beside this script")
    options = parser.parse_args(argv)
    parts = read_parts(options.study, ROOT / "research")
    path, text = options.out / f"{options.study}.md", page(options.study, parts)
    if options.check:
        checks = Checks()
        checks.expect(path.read_text(encoding="utf-8") == text, f"{path.name}: what the frozen evidence gives")
        return checks.close()
    figures = draw_figures(parts, options.out / options.study)
    write_atomic(path, text.encode())
    print(f"summary: {path}, with {', '.join(figure.name for figure in figures)}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
