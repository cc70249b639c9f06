"""The audit's figures: one message each, direct labels."""

import numpy as np

from research import drawing
from research.drawing import DARK, GREY, LIGHT, OTHERS, colours, plt, save

FATES = {"emitted": DARK, "discarded": OTHERS[0], "buffered": GREY}
FATE_NAMES = {"emitted": "in training rows", "discarded": "cut off and dropped", "buffered": "waiting in the buffer"}
STYLE = drawing.STYLE | {"axes.titlelocation": "left", "axes.titlesize": 12, "axes.grid": True, "axes.grid.axis": "y",
                         "grid.color": LIGHT, "axes.axisbelow": True}
CURVE_POINTS = 200


def _alike(series):
    """[(joined names, values, colour)]: streams with equal values share one entry, not hiding each other."""
    groups = {}
    for name, values in series.items():
        groups.setdefault(tuple(values), []).append(name)
    colour = colours(series)
    return [(" = ".join(names), values, colour[names[0]]) for values, names in groups.items()]


def _label_ends(axes, ends, least_gap):
    """Write names at the right ends of lines, moved apart vertically where they would overlap."""
    placed = -np.inf
    for height, x, name, colour in sorted(ends):
        placed = max(height, placed + least_gap)
        axes.annotate(name, (x, placed), xytext=(8, 0), textcoords="offset points", color=colour, va="center",
                      annotation_clip=False)


def _lines(axes, groups, x, height):
    """A line with markers for every (names, values), gaps where a value is None, names at the ends."""
    ends = []
    for name, values, colour in groups:
        shown = [100 * value if value is not None else np.nan for value in values]
        axes.plot(x, shown, marker="o", color=colour, linewidth=2)
        there = np.flatnonzero(~np.isnan(shown))
        if there.size:
            ends.append((shown[there[-1]], x[there[-1]], name, colour))
    axes.set_ylim(-0.03 * height, 1.05 * height)
    _label_ends(axes, ends, 0.06 * height)


def started_by_length(path, records, about):
    """Draw the share of arrived documents that started, by length, of {name: record}.

    about: what was audited, as {"corpus": text, "capacity": int, "buffer_size": int}.
    """
    groups = _alike({name: [s["started_share"] for s in record["strata"]] for name, record in records.items()})
    (name, record), strata = next(iter(records.items())), next(iter(records.values()))["strata"]
    figure, axes = plt.subplots(figsize=(10, 5.2), layout="constrained")
    _lines(axes, groups, range(len(strata)), 100)
    arrived = sum(stratum["tokens"]["arrived"] for stratum in strata)
    labels = [f"{_two_lines(s)}\n{100 * s['tokens']['arrived'] / arrived:.1f} %" for s in strata]
    axes.set_xticks(range(len(strata)), labels, fontsize=9)
    axes.set_xlabel("length of the document in tokens; below it, the share of all tokens that arrived")
    axes.set_ylabel("documents that started,\n% of those that arrived")
    longer = [place for place, stratum in enumerate(strata) if stratum["over"] + 1 >= about["capacity"]]
    if longer:
        axes.axvspan(longer[0] - 0.5, len(strata) - 0.5, color=LIGHT, alpha=0.5, zorder=0)
        axes.text(longer[0] - 0.45, 42, f"a row ({about['capacity']:,} tokens) or longer", fontsize=9, va="bottom")
    axes.set_title(started_title(name, record))
    figure.supxlabel(f"{about['corpus']}: rows of {about['capacity']:,} tokens, a buffer of {about['buffer_size']:,} "
                     f"documents, {record['documents']['arrived']:,} documents arrived", fontsize=9, x=0.01, ha="left")
    return save(figure, path)


def _two_lines(stratum):
    low = f"{stratum['over'] + 1:,}"
    return f"{low}\nto {stratum['up_to']:,}" if stratum["up_to"] else f"{low}\nand longer"


def started_title(name, record):
    """State the finding of a stream as the title of its figure."""
    documents, protected = record["documents"], record["protected"]
    if protected["applies"] and protected["documents"] and not protected["started"]:
        share = 100 * protected["share_of_arrived"]
        return (f"{name}: the {protected['documents']:,} longest of {documents['arrived']:,} documents have not "
                f"started; they hold {share:.1f} % of the tokens")
    return f"{name}: {documents['started']:,} of {documents['arrived']:,} documents have started"


def token_fates(path, records):
    """Where each token that arrived went."""
    groups = _alike({name: [r["tokens"][fate] for fate in FATES] for name, r in records.items()})
    figure, axes = plt.subplots(figsize=(9, 1.6 + 0.75 * len(groups)), layout="constrained")
    for place, (_, values, _) in enumerate(groups):
        left = 0
        for fate, value in zip(FATES, values):
            width = 100 * value / sum(values)
            axes.barh(place, width, left=left, color=FATES[fate], edgecolor="white", height=0.6)
            if width > 7:
                axes.text(left + width / 2, place, f"{value / 1e6:,.2f} M\n{width:.1f} %", ha="center", va="center",
                          color="white" if fate == "emitted" else "black", fontsize=9)
            left += width
    axes.set_yticks(range(len(groups)), [name.replace(" = ", "\n= ") for name, _, _ in groups])
    axes.invert_yaxis()
    axes.grid(False)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the tokens that arrived (added BOS tokens included)")
    for number, fate in enumerate(FATES):
        place = (0.36 * number, 1.02)
        axes.annotate(FATE_NAMES[fate], place, xycoords="axes fraction", color=FATES[fate], weight="bold")
    (emitted, _, buffered), total = groups[0][1], sum(groups[0][1])
    axes.set_title(f"{next(iter(records))}: of 100 tokens that arrived {100 * emitted / total:.0f} were trained on, "
                   f"{100 * buffered / total:.0f} wait in the buffer", pad=22)
    return save(figure, path)


def exposure(path, records):
    """Share of text tokens shown, by position within the document."""
    panels = {"fits_a_row": "documents that fit a row", "longer_than_a_row": "documents longer than a row"}
    figure, both = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
    for axes, (key, title) in zip(both, panels.items()):
        series = {name: [emitted / arrived if arrived else None for arrived, emitted in r["positions"]["relative"][key]]
                  for name, r in records.items()}
        _lines(axes, _alike(series), range(5, 100, 10), 100)
        axes.set_title(title)
        axes.set_xlabel("position in the document, % of its text")
        axes.set_xlim(0, 100)
    both[0].set_ylabel("text tokens shown in training,\n% of those that arrived")
    name, record = next(iter(records.items()))
    beginning, end = (sum(record["positions"]["relative"][key][tenth][1] for key in panels) for tenth in (0, -1))
    if end:
        title = f"{name} reads {beginning / end:.1f} times as much of the first tenths of documents as of their last"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return save(figure, path)


def usable_buffer(path, curves):
    """What part of the buffer fits a row, over the stream; curves: {name: (fitting, held) int64 (selections,)}."""
    def shares(fitting, held):
        return tuple((100 * part).mean() for part in np.array_split(fitting / held, min(CURVE_POINTS, len(held))))

    figure, axes = plt.subplots(figsize=(9, 4.4), layout="constrained")
    ends = []
    for name, values, colour in _alike({name: shares(*curve) for name, curve in curves.items()}):
        axes.plot(100 * (np.arange(len(values)) + 0.5) / len(values), values, color=colour, linewidth=2)
        ends.append((values[-1], 100, name, colour))
    _label_ends(axes, ends, 6)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 105)
    axes.set_xlabel("progress through the stream, % of selections")
    axes.set_ylabel("buffered entries that fit a row, %")
    name, (fitting, held) = next(iter(curves.items()))
    tenth = fitting[len(fitting) * 9 // 10 :].mean()
    axes.set_title(f"{name}: {fitting[0]:,} of {held[0]:,} buffered entries fit a row at first, "
                   f"{tenth:,.0f} in the last tenth")
    return save(figure, path)


def draw(out, records, curves, about, prefix=""):
    """Write all figures of {name: record} and the training streams' curves into a folder; return their paths.

    about: what was audited, as `started_by_length` takes it.
    """
    training = {name: record for name, record in records.items() if name != "validation"}
    with plt.rc_context(STYLE):
        return [started_by_length(out / f"{prefix}started_by_length.png", records, about),
                token_fates(out / f"{prefix}token_fates.png", records),
                exposure(out / f"{prefix}exposure.png", training),
                usable_buffer(out / f"{prefix}usable_buffer.png", curves)]
