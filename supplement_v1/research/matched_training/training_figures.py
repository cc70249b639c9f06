"""The figures of the matched runs: learning curves and official scores."""

COLOURS = {"baseline": "#0072B2", "random_crop": "#E69F00", "segmented": "#009E73"}  # Okabe and Ito


def smoothed(values):
    """Exponential moving average over a fiftieth of the values, at least ten, without the bias of its start."""
    share, mean, weight, out = 1 - 1 / max(10, len(values) / 50), 0.0, 0.0, []
    for value in values:
        mean, weight = share * mean + (1 - share) * value, share * weight + (1 - share)
        out.append(mean / weight)
    return out


def save(figure, path):
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path


def draw_curves(evidence, curves, path):
    """Training loss of every run over targets seen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, result in evidence["runs"].items():
        per_update = result["targets"] / result["updates"] / 1e3
        made = [(i, loss) for i, loss in enumerate(curves["runs"][name]["loss"], 1) if loss is not None]
        targets, losses = [per_update * update for update, _ in made], [loss for _, loss in made]
        style = "-" if result["seed"] == min(r["seed"] for r in evidence["runs"].values()) else "--"
        axes.plot(targets, smoothed(losses), style, color=COLOURS.get(result["condition"]), label=name, linewidth=1.4)
    axes.set(xlabel="training targets seen (thousands)", ylabel="training loss (nats a target, smoothed)",
             title="Each condition learns on its own sample of the corpus:\ncompare scores, not training losses")
    axes.legend(frameon=False)
    return save(figure, path)


def draw_scores(evidence, path):
    """Official score of every run, one row a condition, its values written out."""
    from matplotlib.figure import Figure

    by_condition = {}
    for result in evidence["runs"].values():
        by_condition.setdefault(result["condition"], []).append((result["seed"], result["score"]["bits_per_byte"]))
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.add_subplot()
    for y, (condition, scores) in enumerate(by_condition.items()):
        for marker, (_, score) in zip("os^v", scores):
            axes.plot(score, y, marker, color=COLOURS.get(condition), markersize=8, fillstyle="none")
        text = ", ".join(f"{score:.4f} (seed {seed})" for seed, score in scores)
        axes.annotate(text, (max(score for _, score in scores), y), (0, 10), textcoords="offset points", ha="center",
                      fontsize=8, annotation_clip=False)
    axes.set(yticks=range(len(by_condition)), yticklabels=by_condition, ylim=(len(by_condition) - 0.5, -0.8))
    axes.margins(x=0.25)
    axes.set_xlabel("official score, bits per byte (lower is better)")
    axes.grid(axis="x", alpha=0.3)
    axes.set_title("Official score: held-out text as the baseline packer shows it", fontsize=11)
    return save(figure, path)
