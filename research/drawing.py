"""How the figures of all questions look: one colour a condition, wherever it is drawn.

The same evidence gives the same bytes: no dates, no software names, fixed size and resolution.
"""

from itertools import cycle

import matplotlib.pyplot as plt

plt.switch_backend("Agg")
plt.rcdefaults()  # a user's matplotlibrc must not change the figures

# The palette of Okabe and Ito, told apart by colour-blind readers. What is no condition has no condition's colour.
CONDITIONS = {"baseline": "#0072B2", "random_crop": "#D55E00", "segmented": "#009E73", "lossless": "#CC79A7"}
OTHERS = ("#E69F00", "#56B4E9", "#000000")
LIGHT, GREY, DARK = "#dddddd", "#999999", "#333333"
STYLE = {"axes.spines.top": False, "axes.spines.right": False, "font.family": "DejaVu Sans", "font.size": 10,
         "legend.frameon": False}
# A row for each entry, named at its left.
ROWS = STYLE | {"axes.spines.left": False, "ytick.major.size": 0}


def colours(names):
    """{name: colour}: a condition's own, and for other names the other colours in their order."""
    others = cycle(OTHERS)
    return {name: CONDITIONS.get(name) or next(others) for name in dict.fromkeys(names)}


def run_colours(names):
    """{name: colour of its condition} of runs, named CONDITION_sSEED."""
    conditions = {name: name.rsplit("_s", 1)[0] for name in names}
    colour = colours(conditions.values())
    return {name: colour[condition] for name, condition in conditions.items()}


def shades(count):
    """`count` greys from light to dark, for parts that have an order."""
    return [str(0.85 - 0.65 * place / max(count - 1, 1)) for place in range(count)]


def save(figure, path):
    """Write the figure as PNG and forget it; the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)
    return path
