"""A replay's evidence in words: the finding, tables for the terminal, a figure."""

import numpy as np
from tabulate import tabulate

from research.drawing import OTHERS, plt, save
from research.source_exclusion.audit_figures import STYLE


def sentence(name, evidence):
    """The finding in one sentence."""
    last = evidence["steady"]["last_passes"]
    rates = [evidence["passes"][0]["discarded"], last["discarded"] / last["passes"]]
    first, final = (f"{100 * rate / evidence['tokens']:.1f} %" for rate in rates)
    discarded = (f"{first} of the tokens are discarded in the first pass, {final} in the last ones" if any(rates) else
                 "no token is discarded")
    return f"{name}: repeating {evidence['documents']:,} documents, {_longest_begun(evidence)}; {discarded}."


def _longest_begun(evidence):
    if not evidence["longest"]:
        return "none is longer than a row"
    longest = evidence["longest"][0]
    begun = longest["first_begun"]
    when = f"first begun in pass {begun['pass']:,}" if begun else f"not begun in {evidence['replayed']:,} passes"
    return f"the longest ({longest['length']:,} tokens) is {when} (earliest possible: {longest['bound']['pass']:,})"


def bound_sentence(distinct, first_begun_at_the_bound, bound_after_the_replay):
    """How often the bound is the date."""
    after = f"; for {bound_after_the_replay:,} that lies after the replay" if bound_after_the_replay else ""
    return (f"For {first_begun_at_the_bound:,} of {distinct:,} different lengths over a row, the first document of at "
            f"least that length is begun in the very refill of its bound{after}.")


def steady_sentence(steady, passes):
    """Whether the passes have become alike."""
    waiting, repeats = steady["waiting_unchanged_from_pass"], steady["state_repeats"]
    same = (f"What waits is the same from the end of pass {waiting:,} on" if waiting else
            "What waits still changes at the end")
    if not repeats:
        return f"{same}; no state comes back in {passes:,} passes."
    return (f"{same}; everything repeats from pass {repeats['equals_pass'] + 1:,} on with period "
            f"{repeats['period']:,}, so each document is begun once a pass for ever.")


def print_tables(evidence):
    """Classes of documents, the longest documents, passes."""
    def passes(*moments):
        return [point and point["pass"] for point in moments]

    last = evidence["steady"]["last_passes"]
    classes = [[c["from"], c["documents"], *passes(c["bound"], c["first_begun"], c["all_begun"]), c["never_begun"],
                last[f"started_from_{c['from']}"] / last["passes"]] for c in evidence["classes"]]
    longest = [[d["document"], d["length"], *passes(d["bound"], d["first_begun"]), d["services"]]
               for d in evidence["longest"]]
    columns = ["pass", "emitted", "discarded", "buffered", "protected", "started_from_1",
               f"started_from_{evidence['capacity'] + 1}"]
    shown = [[record[key] for key in columns] for record in evidence["passes"]]
    for title, headers, rows in (
        ("Documents by least length", ["tokens from", "documents", "bound: pass", "first begun: pass",
         "all begun: pass", "never begun", "begun per pass at the end"], classes),
        ("The longest documents", ["document", "tokens", "bound: pass", "first begun: pass", "times begun"], longest),
        ("Tokens and documents begun in a pass; buffered and protected tokens at its end", ["pass", "emitted",
         "discarded", "buffered", "protected", "documents begun", "longer than a row"], shown),
    ):
        print(f"\n{title}\n{tabulate(rows, headers, intfmt=',', floatfmt=',.1f', missingval='-')}")


def draw(path, lengths, bound, first, passes):
    """First pass of service and its bound by the length of the document, both logarithmic; the path."""
    documents = len(lengths)
    longer = np.flatnonzero(lengths >= min(bound, default=lengths.max() + 1))
    begun, never = longer[first[longer] > 0], longer[first[longer] == 0]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 4.8), layout="constrained")
        axes.scatter(lengths[begun], -(-first[begun] // documents), s=14, color=OTHERS[1], label="first begun")
        if len(never):
            axes.scatter(lengths[never], np.full(len(never), passes), s=24, marker="^", color=OTHERS[0],
                         label=f"not begun in {passes:,} passes")
        axes.step(list(bound), [-(-earliest // documents) for _, earliest, _ in bound.values()], where="post",
                  color="black", linewidth=1, label="bound: as many as the buffer holds have arrived")
        axes.set(xscale="log", yscale="log", xlabel="length of the document in tokens",
                 ylabel="pass in which it is first begun")
        axes.set_title("The longer a document, the more passes it waits: first service, and its bound")
        axes.legend(frameon=False)
        return save(figure, path)
