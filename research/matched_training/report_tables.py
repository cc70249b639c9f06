"""The report of the matched runs in words: tables of scores and of the stream audit, and warnings."""

from tabulate import tabulate

RATIO = 0.01  # share by which supplied and raw bytes may differ without a warning


def interval_text(found):
    """Return an interval of difference_intervals as text; a dash where there is none."""
    return f"[{found[0][0]:+.5f}, {found[0][1]:+.5f}]" if found and found[0] else "-"


def score_table(evidence, intervals, style="pipe"):
    """Return the official scores of {"runs", "bits_per_byte_minus_baseline"} as a table, a row a run.

    intervals: as difference_intervals returns them; an empty dict leaves the column out.
    """
    rows = []
    for name, result in evidence["runs"].items():
        score, seconds = result["score"], result["seconds"]
        difference = evidence["bits_per_byte_minus_baseline"].get(name)
        rows.append([result["condition"], result["seed"], f"{score['bits_per_byte']:.8f}",
                     "" if difference is None else f"{difference:+.8f}",
                     *([interval_text(intervals[name]) if name in intervals else ""] if intervals else []),
                     f"{score['raw_bits_per_byte']:.8f}", f"{score['cross_entropy']:.8f}", f"{score['perplexity']:.5f}",
                     f"{seconds['loop']:.3f}", f"{seconds['run']:.3f}", f"{result['peak_bytes'] / 2**20:.2f}"])
    headers = ["condition", "seed", "bits per byte", "minus baseline", *(["95 % over rows"] if intervals else []),
               "bits per raw byte", "nats a target", "perplexity", "loop s", "total s", "peak MiB"]
    return tabulate(rows, headers, style, disable_numparse=True, colalign=("left", *["right"] * (len(headers) - 1)))


def audit_table(audit):
    """Return as text where the tokens of each condition's stream went, and which documents did not start."""
    rows = []
    for name, record in audit["training"].items():
        tokens, documents, protected = record["tokens"], record["documents"], record["protected"]
        incoming = tokens["arrived"] + tokens["synthetic_bos"]
        rows.append([name, f"{documents['arrived']:,}", f"{documents['unstarted']:,}", f"{documents['cropped']:,}",
                     *(f"{tokens[key] / incoming:.1%}" for key in ("emitted", "discarded", "buffered")),
                     f"{protected['tokens'] / tokens['arrived']:.1%}" if protected["applies"] else "-"])
    headers = ["condition", "documents\narrived", "documents\nnot started", "documents\ncropped", "tokens\nemitted",
               "tokens\ndiscarded", "tokens\nbuffered", "tokens of the\nB - 1 longest"]
    return tabulate(rows, headers, disable_numparse=True, colalign=("left",) + ("right",) * 7)


def run_warnings(name, result):
    """Return what a result knows to be unusual about its run."""
    found, score = [], result["score"]
    if result["empty_updates"]:
        found.append(f"{name}: {result['empty_updates']:,} of {result['updates']:,} updates had no target in the loss")
    positions = result.get("positions", result["targets"])
    if result["effective_targets"] < positions:
        found.append(f"{name}: only {result['effective_targets']:,} of {positions:,} positions were targets of the "
                     "loss; the others were padding or masked")
    if result["attempts"] > 1:
        found.append(f"{name}: training was started {result['attempts']} times, so its seconds are of several attempts")
    excess = score["supplied_bytes"] / score["raw_bytes"] - 1
    if abs(excess) > RATIO:
        found.append(f"{name}: the supplied bytes of the scored text differ from its raw bytes by {excess:+.1%}; for "
                     "such text read the bits per raw byte, and compare the official score within the study only")
    return found


def stream_warnings(audit):
    """Return what the audit knows to be unusual about the stream of the official score."""
    record = audit["evaluation"]
    arrived, corpus = record["documents"]["arrived"], record["documents"]["corpus"]
    if arrived <= corpus:
        return []
    return [f"the official score draws {arrived:,} documents from {corpus:,} validation documents, so it reads them "
            f"{arrived / corpus:.1f} times over; its rows are no independent sample. Take more validation text"]


def warnings(evidence, audit):
    """Return all warnings of a report, one line each."""
    found = stream_warnings(audit)
    for name, result in evidence["runs"].items():
        found += run_warnings(name, result)
    return found
