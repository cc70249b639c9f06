"""The records of an audit counted again from a ReferenceStream, for verify_source_exclusion.py.

Positions are counted on one line of all text positions, where the audit compares intervals. Key names are those of the
audit; the quantities are those of the paper's section 6. Standard library and NumPy.
"""

import hashlib
import statistics

import numpy as np

TENTHS = 10
RETAINING = ("baseline", "random_crop", "lossless")  # the policies that the theorem is about
SEEN = ("without_text", "nothing", "up_to_a_quarter", "up_to_a_half", "up_to_three_quarters", "more_but_not_all",
        "everything")


def ratio(part, whole):
    """Return part / whole of two integers, or None when whole is 0."""
    return int(part) / int(whole) if whole else None


def tokens_and_documents(stream, chosen, corpus, schema):
    """Return (tokens, documents) of the chosen arrivals, bool (arrivals,); the corpus has `corpus` such documents.

    A whole document has its BOS and all its text in one segment. Evidence of schema 1 also called a document whole
    whose BOS stood alone in an earlier segment; schema 2 counts those as `bos_apart`.
    """
    names = {"arrived": "length", "synthetic_bos": "added", "emitted": "emitted", "discarded": "discarded",
             "buffered": "buffered"}
    tokens = {name: int(getattr(stream, column)[chosen].sum()) for name, column in names.items()}
    started, cut = stream.segments[chosen] > 0, stream.discarded[chosen] > 0
    whole, document = (stream.text_whole if schema == 1 else stream.whole)[chosen], stream.document[chosen]
    documents = {"corpus": int(corpus), "distinct_arrived": len(set(document.tolist())),
                 "distinct_started": len(set(document[started].tolist())), "arrived": len(document),
                 "started": int(started.sum()), "unstarted": len(document) - int(started.sum()),
                 "whole": int(whole.sum()), "cropped": int(cut.sum())}
    documents["split"] = documents["started"] - int((whole | cut).sum())
    if schema != 1:
        documents["bos_apart"] = int((stream.text_whole[chosen] & ~whole).sum())
    return tokens, documents


def strata(stream, edges, schema):
    """Return the same by document length (BOS included): over each edge, and up to the next."""
    records, total = [], int(stream.emitted.sum())
    for low, high in zip([0, *edges], [*edges, None], strict=True):
        inside, corpus = ((low < length) & (length <= (high or length)) for length in (stream.length, stream.corpus))
        tokens, documents = tokens_and_documents(stream, inside, corpus.sum(), schema)
        records.append({"over": low, "up_to": high, "documents": documents,
                        "tokens": {**tokens, "share_of_emitted": ratio(tokens["emitted"], total)},
                        "started_share": ratio(documents["started"], documents["arrived"]),
                        "retained_share": ratio(tokens["emitted"], tokens["arrived"] + tokens["synthetic_bos"])})
    return records


def relative_exposure(stream, chosen):
    """Return [[arrived, emitted] text tokens] by tenths of a document; position p of n is in tenth 10p // n."""
    def below(tenth, of, start, end):
        return np.clip(-(-tenth * (stream.length[of] - 1) // TENTHS), start, end).sum()

    everywhere = np.flatnonzero(chosen)
    slices = stream.plan[chosen[stream.plan[:, 1]]]
    arrived = [below(t, everywhere, 0, stream.length[everywhere] - 1) for t in range(TENTHS + 1)]
    emitted = [below(t, slices[:, 1], slices[:, 3], slices[:, 3] + slices[:, 4]) for t in range(TENTHS + 1)]
    return [[int(a), int(e)] for a, e in zip(np.diff(arrived), np.diff(emitted), strict=True)]


def absolute_exposure(stream, edges):
    """Return the text tokens that arrived and were emitted in each bin of positions."""
    starts, stops = stream.plan[:, 3], stream.plan[:, 3] + stream.plan[:, 4]
    bounds = [0, *edges, max(edges[-1], int(stream.length.max()))]
    arrived = np.diff([np.minimum(stream.length - 1, bound).sum() for bound in bounds]).tolist()
    emitted = np.diff([(np.minimum(stops, bound) - np.minimum(starts, bound)).sum() for bound in bounds]).tolist()
    return [{"from": low, "to": high, "arrived": a, "emitted": e, "share": ratio(e, a)}
            for low, high, a, e in zip([0, *edges], [*edges, None], arrived, emitted, strict=True)]


def documents_by_share_seen(stream):
    """Count the distinct arrived documents by the share of their text positions that was emitted at least once."""
    text = stream.corpus - 1
    offset = np.cumsum(text) - text
    change = np.zeros(int(text.sum()) + 1, np.int32)
    start = offset[stream.plan[:, 1] % len(text)] + stream.plan[:, 3]
    np.add.at(change, start, 1)
    np.add.at(change, start + stream.plan[:, 4], -1)
    shown = np.concatenate([[0], np.cumsum(np.cumsum(change[:-1], out=change[:-1]) > 0)])
    seen, counts = shown[offset + text] - shown[offset], dict.fromkeys(SEEN, 0)
    for document in set(stream.document.tolist()):
        counts[_seen_name(int(seen[document]), int(text[document]))] += 1
    return counts


def _seen_name(seen, text):
    if not text or not seen or seen == text:
        return "without_text" if not text else "nothing" if not seen else "everything"
    return SEEN[1 - (-4 * seen // text)]


# ----------------------------------------------------------------------------------------- a record


def protected(stream):
    """Return the protected set in numbers."""
    keys, arrived = stream.longest_long(), int(stream.length.sum())
    tokens, buffered = int(stream.length[keys].sum()), int(stream.buffered[keys].sum())
    return {"applies": stream.policy in RETAINING, "documents": len(keys), "tokens": tokens,
            "shortest": min(stream.length[keys].tolist(), default=None),
            "started": int((stream.segments[keys] > 0).sum()), "share_of_arrived": ratio(tokens, arrived),
            "share_of_buffered": ratio(buffered, stream.buffered.sum())}


def usable_buffer(stream):
    """Return how many buffered entries fit an empty row, and the discarded shares, by tenths of the selections."""
    size = len(stream.plan)
    parts = [slice(size * tenth // TENTHS, size * (tenth + 1) // TENTHS) for tenth in range(TENTHS)]
    taken = stream.plan[:, 2] + stream.plan[:, 4]
    return {"first": int(stream.fitting[0]), "least": int(stream.fitting.min()), "held_first": int(stream.held[0]),
            "held_most": int(stream.held.max()),
            "mean_by_tenth": [ratio(stream.fitting[part].sum(), len(stream.fitting[part])) for part in parts],
            "discarded_share_by_tenth": [ratio(stream.dropped[part].sum(), (stream.dropped + taken)[part].sum())
                                         for part in parts]}


def crops(stream):
    """Count the selections that discard tokens, and what they keep."""
    kept = (stream.plan[:, 2] + stream.plan[:, 4])[stream.dropped > 0].tolist()
    median = float(statistics.median(kept)) if kept else None
    return {"events": len(kept), "bos_only": kept.count(1), "median_kept": median}


def record(stream, edges, schema):
    """Return the audit's record of one stream in a schema, 1 or 2, without the digest of its rows."""
    tokens, documents = tokens_and_documents(stream, stream.length > 0, len(stream.corpus), schema)
    long, fits = stream.length > stream.capacity, stream.length <= stream.capacity
    tokens["utilisation"] = ratio(tokens["emitted"], stream.rows * stream.capacity)
    return {
        **({} if schema == 1 else {"schema": schema}),
        "rows": stream.rows, "targets": stream.rows * (stream.capacity - 1), "selections": len(stream.plan),
        "tokens": tokens, "documents": documents, "protected": protected(stream),
        "strata": strata(stream, edges, schema),
        "over_capacity": {"arrived": int(long.sum()), "started": int((long & (stream.segments > 0)).sum()),
                          "share_of_arrived_tokens": ratio(stream.length[long].sum(), tokens["arrived"]),
                          "share_of_emitted_tokens": ratio(stream.emitted[long].sum(), tokens["emitted"])},
        "positions": {"relative": {"fits_a_row": relative_exposure(stream, fits),
                                   "longer_than_a_row": relative_exposure(stream, long)},
                      "absolute": absolute_exposure(stream, edges),
                      "documents_by_share_seen": documents_by_share_seen(stream)},
        "usable_buffer": usable_buffer(stream), "first_over_capacity_start": stream.first_long_start(),
        "crops": crops(stream), "plan_sha256": hashlib.sha256(stream.plan.astype("<i8").tobytes()).hexdigest(),
    }


def rows_sha256(stream, tokens, bos, microbatch, accumulation):
    """Return the trainer's chained digest of all rows.

    tokens: the text tokens of all documents, (tokens,). Each microbatch is hashed as little-endian uint32; an update
    hashes the digest of the update before it, then the digests of its own microbatches.
    """
    text = stream.corpus - 1
    offset = (np.cumsum(text) - text)[stream.plan[:, 1] % len(text)] + stream.plan[:, 3]
    pieces = [[] for _ in range(stream.rows)]
    for (row, _, own, _, count), at in zip(stream.plan.tolist(), offset.tolist(), strict=True):
        pieces[row] += [np.full(own, bos), tokens[at:at + count]]
    chained = ""
    for update in range(0, stream.rows, microbatch * accumulation):
        for first in range(update, update + microbatch * accumulation, microbatch):
            batch = np.concatenate([piece for row in pieces[first:first + microbatch] for piece in row])
            chained += hashlib.sha256(batch.astype("<u4").tobytes()).hexdigest()
        chained = hashlib.sha256(chained.encode()).hexdigest()
    return chained
