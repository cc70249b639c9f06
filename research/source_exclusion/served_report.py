"""What serve_repeated.py prints and draws: the finding in a sentence, tables, a figure."""

import numpy as np
from tabulate import tabulate

from research.drawing import OTHERS, plt, save
from research.source_exclusion.audit_figures import STYLE


def sentence(name, evidence):
    """Return the finding in one sentence."""
    last = evidence["steady"]["last_passes"]
    rates = [evidence["passes"][0]["discarded"], last["discarded"] / last["passes"]]
    first, final = (f"{100 * rate / evidence['tokens']:.1f} %" for rate in rates)
    discarded = (f"{first} of the tokens are discarded in the first pass, {final} in the last ones" if any(rates) else
                 "no token is discarded")
    return f"{name}: repeating {evidence['documents']:,} documents, {_longest_started(evidence)}; {discarded}."


def _longest_started(evidence):
    if not evidence["longest"]:
        return "none is longer than a row"
    longest = evidence["longest"][0]
    start = longest["first_begun"]
    when = (f"first starts in pass {start['pass']:,}" if start else
            f"does not start in {evidence['replayed']:,} passes")
    return f"the longest ({longest['length']:,} tokens) {when} (earliest possible: {longest['bound']['pass']:,})"


def bound_sentence(distinct, first_begun_at_the_bound, bound_after_the_replay):
    """Return how many lengths start exactly at their bound, as a sentence."""
    after = f"; for {bound_after_the_replay:,} the bound lies after the replay" if bound_after_the_replay else ""
    return (f"For {first_begun_at_the_bound:,} of {distinct:,} different lengths over a row, the first document of at "
            f"least that length starts after exactly the refill that the theorem names{after}.")


def steady_sentence(steady, passes):
    """Return whether the passes have become alike, as a sentence."""
    waiting, repeats = steady["waiting_unchanged_from_pass"], steady["state_repeats"]
    same = (f"The waiting documents are the same from the end of pass {waiting:,} on" if waiting else
            "The waiting documents still change at the end")
    if not repeats:
        return f"{same}; no state of the buffer recurs in {passes:,} passes."
    return (f"{same}; all passes from pass {repeats['equals_pass'] + 1:,} on repeat with period "
            f"{repeats['period']:,}, and each document starts once a pass from then on.")


def print_tables(evidence):
    """Print the tables of the classes, of the longest documents and of the passes."""
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
        ("Documents by least length", ["tokens from", "documents", "bound: pass", "first start: pass",
         "all started: pass", "not started", "starts per pass at the end"], classes),
        ("The longest documents", ["document", "tokens", "bound: pass", "first start: pass", "starts"], longest),
        ("Tokens and starts in each pass; buffered tokens, and those of the longest documents, at its end",
         ["pass", "emitted", "discarded", "buffered", "in the longest", "starts", "longer than a row"], shown),
    ):
        print(f"\n{title}\n{tabulate(rows, headers, intfmt=',', floatfmt=',.1f', missingval='-')}")


def draw(path, lengths, bound, first, passes):
    """Draw the pass of the first start and its bound by the length of the document; return the path."""
    documents = len(lengths)
    longer = np.flatnonzero(lengths >= min(bound, default=lengths.max() + 1))
    started, waiting = longer[first[longer] > 0], longer[first[longer] == 0]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9, 4.8), layout="constrained")
        axes.scatter(lengths[started], -(-first[started] // documents), s=14, color=OTHERS[1], label="first start")
        if len(waiting):
            axes.scatter(lengths[waiting], np.full(len(waiting), passes), s=24, marker="^", color=OTHERS[0],
                         label=f"not started in {passes:,} passes")
        axes.step(list(bound), [-(-earliest // documents) for _, earliest, _ in bound.values()], where="post",
                  color="black", linewidth=1, label="bound: as many as the buffer holds have arrived")
        axes.set(xscale="log", yscale="log", xlabel="length of the document in tokens",
                 ylabel="pass in which it first starts")
        axes.set_title("The longer a document, the more passes it waits: first start, and its bound")
        axes.legend(frameon=False)
        return save(figure, path)
