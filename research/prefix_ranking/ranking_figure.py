"""The figure of the rankings: whether each contrast on a prefix lies inside what random rows give."""

from research.drawing import GREY, ROWS, plt, run_colours, save


def title(evidence):
    """State how many comparisons the prefixes reverse."""
    count, prefixes = sum(len(e["reversals"]) for e in evidence["prefixes"]), len(evidence["prefixes"])
    of = f"{evidence['pairs'] * prefixes} comparisons ({evidence['pairs']} pairs of models, {prefixes} prefixes)"
    return f"Prefixes of the official score reverse {count or 'none'} of {of}"


@plt.rc_context(ROWS)
def draw(evidence, path):
    """Write the figure, with one row for each contrast and prefix, and return its path."""
    shown = evidence["contrasts"]
    of_run = run_colours(contrast["checkpoint"] for contrast in shown)
    figure, axes = plt.subplots(figsize=(10, 1.7 + 0.36 * max(len(shown), 1)), layout="constrained")
    axes.axvline(0, color=GREY, linewidth=1)
    for place, contrast in enumerate(shown):
        colour = of_run[contrast["checkpoint"]]
        axes.plot(contrast["subsets_95"], [place] * 2, color=colour, linewidth=4, alpha=0.45, solid_capstyle="butt")
        axes.plot(contrast["full"], place, "|", color="black", markersize=14, markeredgewidth=2)
        axes.plot(contrast["prefix"], place, "o", color="white" if contrast["outside"] else colour,
                  markeredgecolor=colour, markersize=7, markeredgewidth=2)
    axes.set_yticks(range(len(shown)), [f"{c['checkpoint']}, first {c['targets']:,} targets" for c in shown])
    axes.invert_yaxis()
    axes.set_xlabel("bits per byte minus the same-seed baseline's. Dot: the prefix (white: outside its bar);\n"
                    "black: the whole population; bar: 95 % of random row subsets of the prefix's size")
    figure.suptitle(f"{title(evidence)}\n{evidence['study']}, {evidence['targets']:,} targets", x=0.01, ha="left",
                    fontsize=12)
    return save(figure, path)
