"""Generated blocks of this question's page (see research/pages.py)."""

from tabulate import tabulate

from evidence import read_json

STUDIES = ("demo", "wheels")
POLICIES = ("baseline", "random_crop", "segmented", "lossless")


def _evidence(root, name):
    return read_json(root / f"research/source_exclusion/{name}.json")


def _stream_row(name, record):
    """Return the cells of one stream; a stream outside the theorem has no protected documents."""
    tokens, documents, protected = record["tokens"], record["documents"], record["protected"]
    whole = tokens["arrived"] + tokens["synthetic_bos"]
    shares = [f"{100 * tokens[key] / whole:.1f} %" for key in ("emitted", "discarded", "buffered")]
    longest = ("-", "-")
    if protected["applies"]:
        longest = (f"{protected['documents']:,}", f"{100 * protected['share_of_arrived']:.1f} %")
    started = f"{documents['distinct_started']:,} of {documents['corpus']:,}"
    return [name, f"{documents['arrived']:,}", f"{tokens['arrived']:,}", *shares, *longest, started]


def streams(root):
    """Return the table of all audited streams: what arrived, and where its tokens went."""
    rows = []
    for study in STUDIES:
        audit = _evidence(root, study)
        rows += [_stream_row(f"`{study}`, run, `{name}`", record) for name, record in audit["training"].items()]
        rows.append(_stream_row(f"`{study}`, official score, `baseline`", audit["evaluation"]))
    for study in STUDIES:
        audit = _evidence(root, f"repeated_{study}")
        rows += [_stream_row(f"`{study}`, {audit['passes']} passes, `{name}`", audit["training"][name])
                 for name in POLICIES]
    header = ["stream", "documents arrived", "tokens arrived", "emitted", "discarded", "buffered",
              "longest, not started", "their share of the tokens", "distinct documents started"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", *["right"] * 8))


def sizes(root):
    """State the rows that the audited streams have."""
    lines = []
    for study in STUDIES:
        audit, repeated = _evidence(root, study), _evidence(root, f"repeated_{study}")
        lines.append(f"* The runs of `{study}` read {audit['training']['baseline']['rows']:,} rows of "
                     f"{audit['capacity']:,} tokens. Its repeated stream has {repeated['passes']} passes of the corpus "
                     f"in rows of {repeated['capacity']:,}.")
    return "\n".join(lines)


def orders(root):
    """State the ranges over shuffled orders of each corpus."""
    lines = []
    for study in STUDIES:
        ranges = _evidence(root, f"permutations_{study}")["ranges"]
        start, share = ranges["startup_target"], ranges["protected_share"]
        lines.append(f"* `{study}`, {start['orders']} orders: the first document longer than a row starts between "
                     f"targets {start['least']:,} and {start['most']:,}, and the longest documents hold "
                     f"{100 * share['least']:.1f} to {100 * share['most']:.1f} % of the tokens that arrived.")
    return "\n".join(lines)


def repeated(root):
    """Return the table of the pass in which documents of a repeated corpus first start, by length."""
    rows = []
    for study in STUDIES:
        for group in _evidence(root, f"served_{study}")["classes"]:
            if group["from"] >= 4096:
                rows.append([f"`{study}`", f"{group['from']:,}", f"{group['documents']:,}",
                             f"{group['bound']['pass']:,}", f"{group['first_begun']['pass']:,}"])
    header = ["corpus", "documents of at least", "in a pass", "earliest pass by the theorem", "first start in pass"]
    return tabulate(rows, header, "pipe", disable_numparse=True, colalign=("left", *["right"] * 4))


def steady(root):
    """State from which pass on every pass of a repeated corpus is like the one before."""
    lines = []
    for study in STUDIES:
        served = _evidence(root, f"served_{study}")
        last, repeats = served["steady"]["last_passes"], served["steady"]["state_repeats"]
        discarded = 100 * last["discarded"] / last["passes"] / served["tokens"]
        first = 100 * served["passes"][0]["discarded"] / served["tokens"]
        lines.append(f"* `{study}`: the buffer after pass {repeats['pass']:,} equals the buffer after pass "
                     f"{repeats['equals_pass']:,}, so all later passes are alike. Each of them starts every document "
                     f"once and discards {discarded:.1f} % of the tokens; the first pass discarded {first:.1f} %.")
    return "\n".join(lines)


BLOCKS = {"source_exclusion.streams": streams, "source_exclusion.sizes": sizes, "source_exclusion.orders": orders,
          "source_exclusion.repeated": repeated, "source_exclusion.steady": steady}
