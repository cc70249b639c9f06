"""The audit's figures: one message each, labels beside what they name, and what was audited written on each."""

import numpy as np

from research import drawing
from research.drawing import DARK, GREY, LIGHT, OTHERS, colours, plt, save

FATES = {"emitted": DARK, "discarded": OTHERS[0], "buffered": GREY}
FATE_NAMES = {"emitted": "emitted", "discarded": "discarded", "buffered": "still in the buffer"}
STYLE = drawing.STYLE | {"axes.titlelocation": "left", "axes.titlesize": 12, "axes.grid": True, "axes.grid.axis": "y",
                         "grid.color": LIGHT, "axes.axisbelow": True}


def _alike(series):
    """Return [(joined names, values, colour)]: streams with equal values share one entry and hide no other."""
    groups = {}
    for name, values in series.items():
        groups.setdefault(tuple(values), []).append(name)
    colour = colours(series)
    return [(" = ".join(names), values, colour[names[0]]) for values, names in groups.items()]


def _label_ends(axes, ends, least_gap):
    """Write names at the right ends of lines, moved apart vertically where they would overlap."""
    ends, heights = sorted(ends), []
    for height, *_ in ends:
        heights.append(max(height, heights[-1] + least_gap) if heights else height)
    ceiling = axes.get_ylim()[1]
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], ceiling)
        ceiling = heights[place] - least_gap
    for height, (_, x, name, colour) in zip(heights, ends, strict=True):
        axes.annotate(name, (x, height), xytext=(8, 0), textcoords="offset points", color=colour, va="center",
                      annotation_clip=False)


def _lines(axes, groups, x, height):
    """Draw a line with markers for every (names, values), with gaps where a value is None and names at the ends."""
    ends = []
    for name, values, colour in groups:
        shown = [100 * value if value is not None else np.nan for value in values]
        axes.plot(x, shown, color=colour, marker="o", markersize=4, linewidth=2)
        there = np.flatnonzero(~np.isnan(shown))
        if there.size:
            ends.append((shown[there[-1]], x[there[-1]], name, colour))
    axes.set_ylim(-0.03 * height, 1.05 * height)
    _label_ends(axes, ends, 0.06 * height)


def _tell_about(figure, about, record):
    """Write below a figure what was audited: the corpus, the row, the buffer and how far the stream runs."""
    figure.supxlabel(f"{about['corpus']}: rows of {about['capacity']:,} tokens, a buffer of {about['buffer_size']:,} "
                     f"documents; {record['documents']['arrived']:,} documents arrived for {record['rows']:,} rows",
                     fontsize=9, x=0.01, ha="left")


def started_by_length(path, records, about):
    """Draw the share of arrived documents that started, by length, of {name: record}; return the path.

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
        axes.text(len(strata) - 0.55, 50, f"a row ({about['capacity']:,} tokens)\nor longer", fontsize=9, ha="right")
    axes.set_title(started_title(name, record))
    _tell_about(figure, about, record)
    return save(figure, path)


def _two_lines(stratum):
    low = f"{stratum['over'] + 1:,}"
    return f"{low}\nto {stratum['up_to']:,}" if stratum["up_to"] else f"{low}\nand longer"


def started_title(name, record):
    """State the finding of a stream as the title of its figure."""
    documents, protected = record["documents"], record["protected"]
    if protected["applies"] and protected["documents"] and not protected["started"]:
        share = 100 * protected["share_of_arrived"]
        whose = f"the {protected['documents']:,} longest of {documents['arrived']:,} documents"
        if "ranks" in record:
            whose = f"the longest documents of {len(record['ranks'])} ranks ({protected['documents']:,} in all)"
        return f"{name}: {whose} have not started; they hold {share:.1f} % of the tokens"
    return f"{name}: {documents['started']:,} of {documents['arrived']:,} documents have started"


def amount(tokens):
    """Return a number of tokens with a unit and three to four digits."""
    for size, unit in ((10**9, " billion"), (10**6, " million")):
        if tokens >= size:
            return f"{tokens / size:,.{1 if tokens >= 100 * size else 2}f}{unit}"
    return f"{tokens:,}"


def token_fates(path, records, about):
    """Draw what became of all tokens that arrived; return the path."""
    groups = _alike({name: [r["tokens"][fate] for fate in FATES] for name, r in records.items()})
    figure, axes = plt.subplots(figsize=(10, 2.3 + 0.75 * len(groups)), layout="constrained")
    for place, (_, values, _) in enumerate(groups):
        left = 0
        for fate, value in zip(FATES, values, strict=True):
            width = 100 * value / sum(values)
            axes.barh(place, width, left=left, color=FATES[fate], edgecolor="white", height=0.6,
                      label=FATE_NAMES[fate] if place == 0 else None)
            if width > 12:
                axes.text(left + width / 2, place, f"{amount(value)}\n{width:.1f} %", ha="center", va="center",
                          color="white" if fate == "emitted" else "black", fontsize=9)
            left += width
        shares = {fate: 100 * value / sum(values) for fate, value in zip(FATES, values, strict=True)}
        small = [f"{FATE_NAMES[fate]} {share:.1f} %" for fate, share in shares.items() if 0 < share <= 12]
        axes.annotate("\n".join(small), (100, place), xytext=(6, 0), textcoords="offset points", va="center",
                      fontsize=9)
    axes.set_yticks(range(len(groups)), [name.replace(" = ", "\n= ") for name, _, _ in groups])
    axes.invert_yaxis()
    axes.grid(False)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the tokens that arrived (added BOS tokens included)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, frameon=False)
    name, record = next(iter(records.items()))
    emitted, discarded, buffered = (100 * value / sum(groups[0][1]) for value in groups[0][1])
    axes.set_title(f"{name}: {emitted:.1f} % of the tokens were emitted, {discarded:.1f} % discarded, "
                   f"{buffered:.1f} % stayed in the buffer")
    _tell_about(figure, about, record)
    return save(figure, path)


def exposure(path, records, about):
    """Draw the share of text tokens that were emitted, by position within the document; return the path."""
    panels = {"fits_a_row": "documents that fit a row", "longer_than_a_row": "documents longer than a row"}
    figure, both = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", sharey=True)
    for axes, (key, title) in zip(both, panels.items(), strict=True):
        series = {name: [emitted / arrived if arrived else None for arrived, emitted in r["positions"]["relative"][key]]
                  for name, r in records.items()}
        _lines(axes, _alike(series), range(5, 100, 10), 100)
        axes.set_title(title)
        axes.set_xlabel("position in the document, % of its text")
        axes.set_xlim(0, 100)
    both[0].set_ylabel("text tokens emitted,\n% of those that arrived")
    name, record = next(iter(records.items()))
    beginning, end = (sum(record["positions"]["relative"][key][tenth][1] for key in panels) for tenth in (0, -1))
    if end:
        title = f"{name} emits {beginning / end:.1f} times as many tokens of the first tenths of texts as of the last"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    _tell_about(figure, about, record)
    return save(figure, path)


def _usable_shares(parts):
    """Return the share of the buffer that fits a row, in %, in each of the parts of a stream that has selections."""
    held = parts[parts[:, 1] > 0]
    return tuple((100 * held[:, 0] / held[:, 1]).tolist())


def usable_buffer(path, accounts, records, about):
    """Draw the part of the buffer that fits a row, over the stream of each Account; return the path.

    More than three ranks are thin grey lines below the line of all of them together.
    """
    figure, axes = plt.subplots(figsize=(10, 4.8), layout="constrained")
    lines = [(name, account.parts) for name, account in accounts.items()]
    if len(lines) > 3 and lines[0][0].startswith("rank "):
        for _, parts in lines:
            values = _usable_shares(parts)
            axes.plot(100 * (np.arange(len(values)) + 0.5) / len(values), values, color=GREY, linewidth=0.6)
        lines = [(f"{len(lines)} ranks together", sum(parts for _, parts in lines))]
    ends = []
    for name, values, colour in _alike({name: _usable_shares(parts) for name, parts in lines}):
        axes.plot(100 * (np.arange(len(values)) + 0.5) / len(values), values, color=colour, linewidth=2)
        ends.append((values[-1], 100, name, colour))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 105)
    _label_ends(axes, ends, 6)
    axes.set_xlabel("progress through the stream, % of selections")
    axes.set_ylabel("entries in the buffer that fit a row, %")
    name, parts = lines[0]
    first, last = _usable_shares(parts)[0], _usable_shares(parts[-len(parts) // 10 :].sum(axis=0, keepdims=True))[0]
    axes.set_title(f"{name}: {first:.1f} % of the buffered entries fit a row at first, {last:.1f} % in the last "
                   "tenth")
    _tell_about(figure, about, next(iter(records.values())))
    return save(figure, path)


def draw(out, records, accounts, about, prefix=""):
    """Write all figures of {name: record} and of the streams' Accounts into a folder; return their paths.

    about: what was audited, as `started_by_length` takes it.
    """
    training = {name: record for name, record in records.items() if name != "validation"}
    with plt.rc_context(STYLE):
        return [started_by_length(out / f"{prefix}started_by_length.png", training, about),
                token_fates(out / f"{prefix}token_fates.png", records, about),
                exposure(out / f"{prefix}exposure.png", training, about),
                usable_buffer(out / f"{prefix}usable_buffer.png", accounts, training, about)]
