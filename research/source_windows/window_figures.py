"""The figures of the source windows; each has one message."""

from itertools import pairwise

from research.drawing import GREY, ROWS, colours, plt, run_colours, save, shades
from research.source_windows.titles import forest_title, parts_title


def _title(figure, message, evidence, status):
    figure.suptitle(f"{message}\n{evidence['study']}, {evidence['population']} documents, {status}", x=0.01, ha="left",
                    fontsize=12)


def _label(cell):
    census = ", census" if cell["census"] else ""
    return f"{cell['condition']}, seed {cell['seed']}, {cell['stratum']} tokens (n = {cell['sources']}{census})"


@plt.rc_context(ROWS)
def forest(path, evidence):
    """Draw tail minus beginning of every contrast that has intervals."""
    shown = [cell for cell in evidence["cells"] if cell["contrast"] and not cell["degenerate"]
             and cell["quantities"]["tail_minus_beginning"]["interval_adjusted"]]
    of_condition = colours(cell["condition"] for cell in shown)
    figure, axes = plt.subplots(figsize=(10, 1.9 + 0.42 * max(len(shown), 1)), layout="constrained")
    axes.axvline(0, color=GREY, linewidth=1)
    for place, cell in enumerate(shown):
        entry, colour = cell["quantities"]["tail_minus_beginning"], of_condition[cell["condition"]]
        axes.plot(entry["interval_adjusted"], [place] * 2, color=colour, linewidth=1.2)
        axes.plot(entry["interval_95"], [place] * 2, color=colour, linewidth=4, solid_capstyle="butt")
        axes.plot(entry["value"], place, "o", color="white", markeredgecolor=colour, markersize=7, markeredgewidth=2)
    axes.set_yticks(range(len(shown)), [_label(cell) for cell in shown])
    axes.invert_yaxis()
    level = 100 - 5 / evidence["contrasts"]["number"]
    census = ".\nCensus: all documents of that length, not a sample" if any(cell["census"] for cell in shown) else ""
    axes.set_xlabel("change of tails minus change of beginnings, bits per byte;\nnegative: tails gain more. "
                    f"Thick: 95 %, thin: {level:g} % over documents"
                    + census)
    message = forest_title([cell["quantities"]["tail_minus_beginning"] for cell in shown])
    _title(figure, message, evidence, evidence["contrasts"]["status"])
    return save(figure, path)


def bin_names(edges):
    """Name the position bins, from [0, 32) to the last one, which has no upper end."""
    return [f"targets {low}-{high - 1}" for low, high in pairwise([0, *edges])] + [f"from {edges[-1]} on"]


def _stack(axes, place, parts):
    """Draw the parts side by side: gains to the left of zero, losses to the right."""
    ends = {True: 0.0, False: 0.0}
    for part, colour in zip(parts, shades(len(parts))):
        axes.barh(place, part, left=ends[part < 0], color=colour, edgecolor="white", height=0.62)
        ends[part < 0] += part


@plt.rc_context(ROWS)
def position_parts(path, evidence):
    """Draw the tail differences of the contrast strata, divided by target position."""
    rows = [row for row in evidence["position_parts"]["rows"]
            if row["window"] == "tail" and row["stratum"] in evidence["contrast_strata"]]
    figure, axes = plt.subplots(figsize=(10, 2.3 + 0.42 * max(len(rows), 1)), layout="constrained")
    axes.axvline(0, color=GREY, linewidth=1)
    of_run = run_colours(row["run"] for row in rows)
    for place, row in enumerate(rows):
        _stack(axes, place, row["parts"])
        axes.plot(row["whole"], place, "D", color=of_run[row["run"]], markeredgecolor="white", markersize=8, zorder=3)
    axes.set_yticks(range(len(rows)), [f"{row['run']}, {row['stratum']} tokens" for row in rows])
    axes.invert_yaxis()
    names = bin_names(evidence["bins"])
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in shades(len(names))]
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    axes.set_xlabel("change of tails, bits per byte against the same-seed baseline;\ndiamond: the whole window")
    _title(figure, parts_title(rows), evidence, "post hoc")
    return save(figure, path)


def draw(evidence, folder):
    """Write the figures that the evidence allows into a folder, and return their paths."""
    paths = [forest(folder / "contrasts.png", evidence)]
    if evidence["position_parts"]:
        paths.append(position_parts(folder / "position_parts.png", evidence))
    return paths
