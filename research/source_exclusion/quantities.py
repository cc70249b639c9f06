"""Token mass, documents started and positions exposed, from the account of every document that arrived.

The first three of the four quantities of the paper's section 6; the fourth, the evaluation population, is the same
account of the validation stream. Counts are exact integers, shares are ratios of two of them.
"""

from dataclasses import dataclass, fields

import numpy as np

from loaders.accounting import ARRIVAL, BOS, COUNT, START
from research.source_exclusion.streams import rests

TENTHS = 10
SEEN_UP_TO = {"up_to_a_quarter": 1, "up_to_a_half": 2, "up_to_three_quarters": 3, "more_but_not_all": 4}


@dataclass(frozen=True)
class Account:
    """What became of each arrived occurrence of a document, and the text slices that were emitted.

    document (number in the corpus), length (BOS included), synthetic, emitted, discarded, buffered: int64 (arrivals,),
    with length + synthetic = emitted + discarded + buffered; started, whole: bool (arrivals,);
    slice_of (arrival), slice_start, slice_end (text tokens): int64 (segments,).
    """

    document: np.ndarray
    length: np.ndarray
    synthetic: np.ndarray
    emitted: np.ndarray
    discarded: np.ndarray
    buffered: np.ndarray
    started: np.ndarray
    whole: np.ndarray
    slice_of: np.ndarray
    slice_start: np.ndarray
    slice_end: np.ndarray


def share(part, whole):
    """part / whole of two integers; None when whole is 0."""
    return part / whole if whole else None


def _sums(places, values, size):
    total = np.zeros(size, np.int64)
    np.add.at(total, places, values)
    return total


def account(plan, stream, packing, arrived):
    """The Account of a plan at its last token, `arrived` documents having arrived."""
    arrival, start, count = plan[:, ARRIVAL], plan[:, START], plan[:, COUNT]
    length = np.resize(stream.lengths, arrived)
    synthetic = packing.entries(length) - 1
    emitted = _sums(arrival, plan[:, BOS] + count, arrived)
    rest = rests(plan, stream, packing)
    discarded = _sums(arrival, 0 if packing.loader.continues else rest, arrived)
    whole = np.zeros(arrived, bool)
    whole[arrival[count == length[arrival] - 1]] = True
    return Account(np.resize(stream.documents, arrived), length, synthetic, emitted, discarded,
                   length + synthetic - emitted - discarded, np.bincount(arrival, minlength=arrived) > 0, whole,
                   arrival, start, start + count)


def merge(accounts):
    """One Account of several ranks' accounts."""
    first = np.cumsum([0, *(len(part.length) for part in accounts)])
    columns = {field.name: [getattr(part, field.name) for part in accounts] for field in fields(Account)}
    columns["slice_of"] = [of + begin for of, begin in zip(columns["slice_of"], first)]
    return Account(**{name: np.concatenate(parts) for name, parts in columns.items()})


# ------------------------------------------------------------------------------- mass and documents


def token_mass(parts, row_tokens):
    """Quantity 1. `row_tokens`: tokens that the emitted rows hold, padding included."""
    mass = {name: int(getattr(parts, name).sum()) for name in ("emitted", "discarded", "buffered")}
    return {"arrived": int(parts.length.sum()), "synthetic_bos": int(parts.synthetic.sum()), **mass,
            "utilisation": share(mass["emitted"], row_tokens)}


def document_counts(parts, corpus):
    """Quantity 2: occurrences by state, and distinct documents of a corpus of `corpus` documents."""
    cropped = parts.discarded > 0
    states = {"arrived": np.ones(len(parts.length), bool), "started": parts.started, "unstarted": ~parts.started,
              "whole": parts.whole, "cropped": cropped, "split": parts.started & ~parts.whole & ~cropped}
    distinct = {f"distinct_{name}": len(np.unique(parts.document[states[name]])) for name in ("arrived", "started")}
    return {"corpus": corpus, **distinct, **{name: int(np.count_nonzero(state)) for name, state in states.items()}}


def select(parts, chosen):
    """The Account of the chosen (bool (arrivals,)) occurrences, without their slices."""
    names = [field.name for field in fields(Account)]
    slices = {name: np.empty(0, np.int64) for name in names if name.startswith("slice")}
    return Account(**slices, **{name: getattr(parts, name)[chosen] for name in names if name not in slices})


def strata(parts, edges, corpus_lengths):
    """One record a length stratum: (0, edges[0]], (edges[0], edges[1]], ..., over the last edge (BOS included)."""
    place, corpus = (np.searchsorted(edges, lengths, side="left") for lengths in (parts.length, corpus_lengths))
    records = []
    for number, (low, high) in enumerate(zip([0, *edges], [*edges, None])):
        inside = select(parts, place == number)
        tokens = token_mass(inside, int(parts.emitted.sum()))
        tokens["share_of_emitted"] = tokens.pop("utilisation")
        documents = document_counts(inside, int(np.count_nonzero(corpus == number)))
        records.append({
            "over": low, "up_to": high, "documents": documents, "tokens": tokens,
            "started_share": share(documents["started"], documents["arrived"]),
            "retained_share": share(tokens["emitted"], tokens["arrived"] + tokens["synthetic_bos"]),
        })
    return records


# ---------------------------------------------------------------------------------------- positions


def overlap(start, end, low, high):
    """int64 total of positions of [start, end) that lie in [low, high), over all slices."""
    return int(np.maximum(np.minimum(end, high) - np.maximum(start, low), 0).sum())


def relative_exposure(parts, chosen):
    """[[arrived, emitted] text tokens] in each tenth of the chosen (bool (arrivals,)) documents' text.

    Position p of a text of n tokens lies in tenth 10 p // n.
    """
    text, taken = parts.length - 1, chosen[parts.slice_of]
    of, start, end = parts.slice_of[taken], parts.slice_start[taken], parts.slice_end[taken]
    edges = [-(-text * tenth // TENTHS) for tenth in range(TENTHS + 1)]
    return [[int((high - low)[chosen].sum()), overlap(start, end, low[of], high[of])]
            for low, high in zip(edges, edges[1:])]


def absolute_exposure(parts, edges):
    """One record a bin of text positions [from, to): text tokens arrived and emitted there."""
    furthest = int(parts.length.max())
    records = []
    for low, high in zip([0, *edges], [*edges, None]):
        end = furthest if high is None else high
        arrived = overlap(np.zeros_like(parts.length), parts.length - 1, low, end)
        emitted = overlap(parts.slice_start, parts.slice_end, low, end)
        records.append({"from": low, "to": high, "arrived": arrived, "emitted": emitted,
                        "share": share(emitted, arrived)})
    return records


def seen_positions(parts, corpus_lengths):
    """int64 (documents,): text positions of each corpus document that were emitted at least once, over all passes."""
    offset = np.cumsum(corpus_lengths) - corpus_lengths
    document = parts.document[parts.slice_of]
    order = np.argsort(offset[document] + parts.slice_start, kind="stable")
    document = document[order]
    start, end = (offset[document] + values[order] for values in (parts.slice_start, parts.slice_end))
    reached = np.maximum.accumulate(end)
    fresh = np.maximum(end - np.maximum(start, np.concatenate([[0], reached[:-1]])), 0)
    return _sums(document, fresh, len(corpus_lengths))


def documents_by_share_seen(parts, corpus_lengths):
    """Distinct arrived documents by the share of their text positions that was emitted at least once."""
    arrived = np.unique(parts.document)
    seen, text = seen_positions(parts, corpus_lengths)[arrived], corpus_lengths[arrived] - 1
    left = (text > 0) & (seen > 0)
    counts = {"without_text": int((text == 0).sum()), "nothing": int(((seen == 0) & (text > 0)).sum())}
    for name, quarter in SEEN_UP_TO.items():
        reached = left & (4 * seen <= quarter * text) & (seen < text)
        counts[name] = int(reached.sum())
        left &= ~reached
    return {**counts, "everything": int(left.sum())}


def positions(parts, edges, capacity, corpus_lengths):
    """Quantity 3: exposure by relative and absolute position, and how much of each document was seen."""
    fits = parts.length <= capacity
    return {"relative": {"fits_a_row": relative_exposure(parts, fits),
                         "longer_than_a_row": relative_exposure(parts, ~fits)},
            "absolute": absolute_exposure(parts, edges),
            "documents_by_share_seen": documents_by_share_seen(parts, corpus_lengths)}
