"""Where each token of each document went in a batch: found by content, never by position, mask or padding id.

Every document holds an id that occurs once in all documents. From there its neighbours are followed as long as they
are the document's own; what is left over and has the padding's id is padding. So an EOS whose id is the padding's is
told from padding by standing where its document ends.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evidence import InputError
from loaders.batches import IGNORED


class Prediction(NamedTuple):
    """A label that counts: the token it is, and the token whose output predicts it; each (document, offset) or None."""

    query: tuple | None
    target: tuple | None


@dataclass(frozen=True)
class Reading:
    """Documents and what became of them.

    documents: lists of ids as they are to be read. spots: for each row, (document, offset) or None of each input.
    padding: bool (width,) a row. convention: "internal" (a label stands at its own input), "external" (at the input
    that predicts it) or None. wrong: labels that are neither. ahead: {how many tokens labels are ahead: labels}.
    not_integers: {key: dtype} of ids that are not integers.
    """

    documents: list
    rows: list
    spots: list
    padding: list
    pad_id: int | None
    convention: str | None
    predictions: list
    wrong: int
    ahead: Counter
    not_integers: dict


def read_documents(documents, handed, pad_id):
    """The Reading of a Handed; `pad_id` None: inferred where the left-over ids at row ends are all one."""
    rows, anchors = handed.rows, anchors_of(documents, pad_id)
    spots = find_tokens(anchors, documents, rows)
    left = [np.array([spot is None for spot in row], bool) for row in spots]
    if pad_id is None:
        edges = {int(id) for row, free in zip(rows, left) for id in row.inputs[_edges(free)]}
        pad_id = edges.pop() if len(edges) == 1 else None
    padding = [free & (row.inputs == pad_id) if pad_id is not None else free & False for row, free in zip(rows, left)]
    convention, predictions, wrong = find_predictions(documents, rows, spots)
    return Reading(documents, rows, spots, padding, pad_id, convention, predictions, wrong,
                   _ahead(anchors, rows, spots), handed.not_integers)


def _edges(free):
    """bool: the True runs of `free` that touch a row's end."""
    return np.logical_and.accumulate(free) | np.logical_and.accumulate(free[::-1])[::-1]


# ------------------------------------------------------------------------------------------- tokens


def anchors_of(documents, pad_id):
    """{id: (document, offset)} of ids that occur once, the padding's excepted; InputError when a document has none."""
    times = Counter(id for document in documents for id in document) + Counter([pad_id, pad_id])
    anchors = {id: (d, o) for d, document in enumerate(documents) for o, id in enumerate(document) if times[id] == 1}
    for d in set(range(len(documents))) - {d for d, _ in anchors.values()}:
        raise InputError(f"document {d} {documents[d]}: no id of its own, so it cannot be found in a batch")
    return anchors


def find_tokens(anchors, documents, rows):
    """[[(document, offset) or None of each input] of each Row]."""
    spots = [[anchors.get(id) for id in row.inputs.tolist()] for row in rows]
    for row, found in zip(rows, spots):
        follow(documents, row.inputs.tolist(), found)
    link_rows(documents, rows, spots)
    return spots


def neighbour(documents, spot, step, id):
    """The token `step` after `spot` in its document if it has that id, else None."""
    if spot is None:
        return None
    document, offset = spot[0], spot[1] + step
    tokens = documents[document]
    return (document, offset) if 0 <= offset < len(tokens) and tokens[offset] == id else None


def follow(documents, ids, found):
    """Fill `found` for a list of ids, forwards and then backwards from what is known."""
    for step, order in ((1, range(1, len(ids))), (-1, range(len(ids) - 2, -1, -1))):
        for i in order:
            found[i] = found[i] or neighbour(documents, found[i - step], step, ids[i])


def link_rows(documents, rows, spots):
    """A row's last or first token without neighbours in its row continues the next or the last row, or is shared."""
    seen = {spot for found in spots for spot in found}
    for k in range(len(rows) - 1):
        for row, found, at, other, step in ((rows[k], spots[k], -1, spots[k + 1][:1], -1),
                                            (rows[k + 1], spots[k + 1], 0, spots[k][-1:], 1)):
            if not found or not other or found[at]:
                continue
            ids = row.inputs.tolist()
            spot = neighbour(documents, other[0], step, ids[at])
            if spot in seen:
                spot = None
            found[at] = spot or (neighbour(documents, other[0], 0, ids[at]) if may_share(row, at) else None)
            seen.add(found[at])
            follow(documents, ids, found)


def may_share(row, at):
    """Whether a row's first or last token may be the other row's: a shared last one is a target, padding is not."""
    counts = at == 0 or row.labels is not None and row.labels[at] != IGNORED
    return counts and (row.mask is None or row.mask[at])


# ------------------------------------------------------------------------------------------- labels


def find_predictions(documents, rows, spots):
    """(convention, predictions, labels that fit neither convention); the convention is the one most labels fit."""
    if any(row.labels is None for row in rows):
        return None, [], 0
    counted = sum(int(np.count_nonzero(row.labels != IGNORED)) for row in rows)
    internal, external = internal_predictions(rows, spots), external_predictions(documents, rows, spots)
    reached = counted - sum(int(row.labels[0] != IGNORED) for row in rows if len(row.labels))
    fits = {"internal": (internal, reached - len(internal)), "external": (external, counted - len(external))}
    convention = min(fits, key=lambda name: fits[name][1])
    predictions, wrong = fits[convention]
    return (convention, predictions, wrong) if len(predictions) > wrong else (None, [], counted)


def internal_predictions(rows, spots):
    """Predictions of labels equal to their own input, the row's first excepted: no output comes before it."""
    return [Prediction(found[i - 1], found[i]) for row, found in zip(rows, spots) for i in range(1, len(found))
            if row.labels[i] != IGNORED and row.labels[i] == row.inputs[i]]


def external_predictions(documents, rows, spots):
    """Predictions of labels equal to the next input, or in a row's last place to what follows in the stream."""
    predictions = []
    for k, (row, found) in enumerate(zip(rows, spots)):
        following = spots[k + 1][:1] if k + 1 < len(rows) else []
        for i in np.flatnonzero(row.labels != IGNORED).tolist():
            label = int(row.labels[i])
            if i + 1 < len(found):
                target = [found[i + 1]] if label == row.inputs[i + 1] else []
            else:
                inside = neighbour(documents, found[i], 1, label)
                target = [inside] if inside else [spot for spot in following if spot and spot[1] == 0
                                                  and documents[spot[0]][0] == label]
            predictions += [Prediction(found[i], spot) for spot in target]
    return predictions


def _ahead(anchors, rows, spots):
    """Counter: how many tokens a label is ahead of its input in their document, where the label's id tells."""
    steps = Counter()
    for row, found in zip(rows, spots):
        for spot, label in zip(found, row.labels.tolist() if row.labels is not None else []):
            known = anchors.get(label)
            if spot and known and known[0] == spot[0]:
                steps[known[1] - spot[1]] += 1
    return steps


# --------------------------------------------------------------------------------------- quantities


def tokens_of(reading, first=0):
    """Every (document, offset) from offset `first` on."""
    return [(d, o) for d, document in enumerate(reading.documents) for o in range(first, len(document))]


def runs_of(found):
    """int64 (width,): numbers of the runs of consecutive tokens of one document in a row; -1 where none stands."""
    numbers, number = np.full(len(found), -1, np.int64), -1
    for i, spot in enumerate(found):
        if spot:
            number += not (i and found[i - 1] and (spot[0], spot[1] - 1) == found[i - 1])
            numbers[i] = number
    return numbers


def boundaries_of(reading):
    """How often one document follows another without a gap, rows apart."""
    return sum(bool(a and b) and (b[0], b[1] - 1) != a for found in reading.spots for a, b in zip(found, found[1:]))


def sort_predictions(reading):
    """(Counter of tokens predicted by the token before them, tokens predicted by another document, padding pairs)."""
    inside, across, padding = Counter(), [], 0
    for query, target in reading.predictions:
        if not query or not target:
            padding += 1
        elif (target[0], target[1] - 1) == query:
            inside[target] += 1
        else:
            across.append(target)
    return inside, across, padding


def times_read(reading):
    """Counter of tokens as inputs. With internal labels a row's last input only carries the last label: it counts
    where the token is no other row's."""
    times, last = Counter(), []
    for found in reading.spots:
        body = found[:-1] if reading.convention == "internal" else found
        times.update(spot for spot in body if spot)
        last += [spot for spot in found[len(body):] if spot]
    times.update(spot for spot in dict.fromkeys(last) if spot not in times)
    return times


def leaks(allowed, found, padding):
    """(pairs that read ahead, another document or padding, pairs of a document that are not read) of one row.

    allowed: bool (width, width). Only tokens of documents are asked; what they read of ids that are neither a
    document's nor padding, or of another piece of their own document, is not judged.
    """
    runs, documents = runs_of(found), np.array([spot[0] if spot else -1 for spot in found])
    real, causal = documents >= 0, np.tri(len(found), dtype=bool)
    foreign = ~real & ~padding
    forbidden = ~causal | (documents[:, None] != documents) & ~foreign
    wanted = causal & (runs[:, None] == runs)
    return int((allowed & forbidden)[real].sum()), int((wanted & ~allowed)[real].sum())
