"""Draw the figures of the summary page of a study from its frozen evidence.

    python research/summary/draw_figures.py [--study NAME] [--root DIR]

Reads   the frozen evidence of the study under research/
Writes  research/summary/NAME/: started_by_length.png, learning_curves.png, contrasts.png, position_parts.png and
        rankings.png; the page itself, NAME.md, is written by research/pages.py
Needs   NumPy and matplotlib
About   five seconds

The same evidence and the same fonts give the same bytes; another machine may draw a few pixels differently, which
check_manifests.py then finds. `git restore research/summary` brings the frozen figures back.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import parser, read_json, run_script
from research.matched_training.training_figures import draw_curves
from research.prefix_ranking import ranking_figure
from research.source_exclusion import audit_figures
from research.source_windows import window_figures

ROOT = Path(__file__).resolve().parents[2]


def draw_started(root, study, folder):
    """Draw the share of documents that a training run starts, by length; return the figure's path."""
    audit = read_json(root / f"research/source_exclusion/{study}.json")
    about = {"corpus": f"study {study}", "capacity": audit["capacity"], "buffer_size": audit["buffer_size"]}
    with audit_figures.plt.rc_context(audit_figures.STYLE):
        return audit_figures.started_by_length(folder / "started_by_length.png", audit["training"], about)


def draw_figures(root, study, folder):
    """Draw every figure of the summary page into a folder; return their paths."""
    def frozen(name):
        return read_json(root / "research" / name)

    return [
        draw_started(root, study, folder),
        draw_curves(frozen(f"matched_training/{study}.json"), frozen(f"matched_training/curves_{study}.json"),
                    folder / "learning_curves.png"),
        window_figures.forest(folder / "contrasts.png", frozen(f"source_windows/{study}_confirmation.json")),
        window_figures.position_parts(folder / "position_parts.png",
                                      frozen(f"source_windows/{study}_development.json")),
        ranking_figure.draw(frozen(f"prefix_ranking/{study}.json"), folder / "rankings.png")]


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", default="wheels", metavar="NAME", help="a study with all its evidence frozen")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    figures = draw_figures(options.root, options.study, options.root / f"research/summary/{options.study}")
    print(f"figures: {', '.join(map(str, figures))}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
