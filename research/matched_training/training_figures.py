"""The figures of the matched runs: learning curves and official scores."""

from research.drawing import STYLE, colours, plt, save


def smoothed(values):
    """Return an exponential moving average over a fiftieth of the values, at least ten, without a biased start."""
    share, mean, weight, out = 1 - 1 / max(10, len(values) / 50), 0.0, 0.0, []
    for value in values:
        mean, weight = share * mean + (1 - share) * value, share * weight + (1 - share)
        out.append(mean / weight)
    return out


def by_seed(runs):
    """Return {seed: {run: result}}, both in order."""
    return {seed: {name: result for name, result in runs.items() if result["seed"] == seed}
            for seed in sorted({result["seed"] for result in runs.values()})}


def draw_curve(axes, result, losses, **line):
    """Draw the training loss of one run over its targets; an update without a loss is left out."""
    per_update = result["targets"] / result["updates"] / 1e3
    made = [(per_update * update, loss) for update, loss in enumerate(losses, 1) if loss is not None]
    axes.plot([targets for targets, _ in made], smoothed([loss for _, loss in made]), **line)


@plt.rc_context(STYLE)
def draw_curves(evidence, curves, path):
    """Draw the training loss of every run, one panel for each seed, and return `path`."""
    seeds = by_seed(evidence["runs"])
    colour = colours(result["condition"] for result in evidence["runs"].values())
    figure, panels = plt.subplots(1, len(seeds), figsize=(1.2 + 4.4 * len(seeds), 4.6), layout="constrained",
                                  sharex=True, sharey=True, squeeze=False)
    for axes, (seed, runs) in zip(panels[0], seeds.items(), strict=True):
        for place, (name, result) in enumerate(runs.items()):  # the first line is the widest, so none hides another
            draw_curve(axes, result, curves["runs"][name]["loss"], color=colour[result["condition"]],
                       label=result["condition"], linewidth=max(2.5 - 0.8 * place, 0.9))
        axes.set(title=f"seed {seed}", xlabel="training targets seen (thousands)")
        axes.grid(axis="y", alpha=0.3)
    panels[0][0].set_ylabel("training loss (nats a target, smoothed)")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(colour))
    figure.suptitle("Each condition learns on its own sample of the corpus: compare scores, not training losses",
                    x=0.01, ha="left", fontsize=12)
    return save(figure, path)


@plt.rc_context(STYLE)
def draw_scores(evidence, path):
    """Draw the official score of every run, one row for each condition, and return `path`."""
    by_condition = {}
    for result in evidence["runs"].values():
        by_condition.setdefault(result["condition"], []).append((result["seed"], result["score"]["bits_per_byte"]))
    colour = colours(by_condition)
    figure, axes = plt.subplots(figsize=(8, 2.8), layout="constrained")
    for y, (condition, scores) in enumerate(by_condition.items()):
        for marker, (_, score) in zip("os^v", scores, strict=False):
            axes.plot(score, y, marker, color=colour[condition], markersize=8, fillstyle="none")
        text = ", ".join(f"{score:.4f} (seed {seed})" for seed, score in scores)
        axes.annotate(text, (max(score for _, score in scores), y), (0, 10), textcoords="offset points", ha="center",
                      fontsize=8, annotation_clip=False)
    axes.set(yticks=range(len(by_condition)), yticklabels=by_condition, ylim=(len(by_condition) - 0.5, -0.8))
    axes.margins(x=0.25)
    axes.set_xlabel("official score, bits per byte (lower is better)")
    axes.grid(axis="x", alpha=0.3)
    result = next(iter(evidence["runs"].values()))
    axes.set_title(f"Study {evidence['study']}: score on {result['score']['targets']:,} held-out targets, packed by "
                   f"the baseline loader,\nafter {result['targets']:,} training targets a run", loc="left", fontsize=10)
    return save(figure, path)
