"""Find each token of each document in a batch by content, never by position, mask or padding id.

Every document has an id that occurs once in all documents. From there its neighbours are followed as long as they are
the document's own. What is left over and has the padding's id is padding. So an EOS whose id is the padding's differs
from padding by being where its document ends.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from evidence import InputError
from loaders.batches import IGNORED
from research.batch_boundaries.read_batches import ReturnedBatches
from research.batch_boundaries.trace_labels import find_predictions, labels_ahead, neighbour


@dataclass(frozen=True)
class TracedBatch:
    """Documents, the batch that they were put in, and where each of their tokens went.

    documents: lists of ids. spots: (document, offset) or None of each input, a list a row. padding: bool (width,) each
    row. pad_id: id of the padding or None. convention: "internal" (a label is at its own input), "external" (at the
    input that predicts it) or None. predictions: the labels that count. wrong: how many labels fit neither convention.
    ahead: {how many tokens labels are ahead of their input: labels}. wanted: the (document, offset) that should be
    targets. prompts: the wanted tokens that the batch may leave out on purpose, because they look like a prompt.
    """

    documents: list
    returned: ReturnedBatches
    spots: list
    padding: list
    pad_id: int | None
    convention: str | None
    predictions: list
    wrong: int
    ahead: Counter
    wanted: set
    prompts: set

    @property
    def rows(self):
        return self.returned.rows


def trace(documents, returned, *, pad_id, convention, targets, last_tokens=True):
    """Return the TracedBatch of ReturnedBatches.

    pad_id: None infers it where the left-over ids at row ends are all one. convention: "internal", "external" or
    "auto"; it decides where labels fit both. targets: a list of bools a document, which tokens should be targets, or
    None: all but the first, and a batch may leave out a prompt. last_tokens: whether the last tokens of documents are
    inputs; if each document is shifted by itself, they are only labels, and padding or a BOS may have their id.
    """
    rows, anchors = returned.rows, anchors_of(documents, pad_id)
    inputs = documents if last_tokens else [document[:-1] for document in documents]
    spots = find_tokens(anchors, inputs, rows)
    left = [np.array([spot is None for spot in row], bool) for row in spots]
    if pad_id is None:
        edges = {int(id) for row, free in zip(rows, left) for id in row.inputs[edges_of(free)]}
        pad_id = edges.pop() if len(edges) == 1 else None
    padding = [free & (row.inputs == pad_id) if pad_id is not None else free & False for row, free in zip(rows, left)]
    convention, predictions, wrong = find_predictions(documents, rows, spots, convention)
    wanted = {(d, o) for d, ids in enumerate(documents) for o in range(1, len(ids)) if targets is None or targets[d][o]}
    prompts = set() if targets else prompts_of(documents, predictions)
    return TracedBatch(documents, returned, spots, padding, pad_id, convention, predictions, wrong,
                       labels_ahead(anchors, rows, spots), wanted, prompts)


def edges_of(free):
    """Return bool: the True runs of `free` that touch an end of the row."""
    return np.logical_and.accumulate(free) | np.logical_and.accumulate(free[::-1])[::-1]


def prompts_of(documents, predictions):
    """Return the tokens before the first target of each document, if everything after it is a target.

    Such a batch may mask prompts on purpose. A document without any target may be a prompt too if it is no longer than
    the prompt of another document. A document with a gap between its targets is none.
    """
    scored = {p.target for p in predictions if p.query and p.target and (p.target[0], p.target[1] - 1) == p.query}
    found, longest, without = set(), 0, []
    for document, ids in enumerate(documents):
        offsets = [offset for offset in range(1, len(ids)) if (document, offset) in scored]
        if not offsets:
            without.append(document)
        elif offsets == list(range(offsets[0], len(ids))):
            found |= {(document, offset) for offset in range(1, offsets[0])}
            longest = max(longest, offsets[0])
    for document in without:
        if 1 < len(documents[document]) <= longest:
            found |= {(document, offset) for offset in range(1, len(documents[document]))}
    return found


# ------------------------------------------------------------------------------------------- tokens


def anchors_of(documents, pad_id):
    """Return {id: (document, offset)} for ids that occur once and are not the padding's; InputError without one."""
    times = Counter(id for document in documents for id in document) + Counter([pad_id, pad_id])
    anchors = {id: (d, o) for d, document in enumerate(documents) for o, id in enumerate(document) if times[id] == 1}
    for d in set(range(len(documents))) - {d for d, _ in anchors.values()}:
        raise InputError(f"document {d} {documents[d]}: no id of its own, so it cannot be found in a batch")
    return anchors


def find_tokens(anchors, documents, rows):
    """Return [[(document, offset) or None of each input] of each Row]."""
    known = {id: (d, o) for id, (d, o) in anchors.items() if o < len(documents[d])}
    spots = [[known.get(id) for id in row.inputs.tolist()] for row in rows]
    for row, found in zip(rows, spots):
        anchor_by_labels(anchors, documents, row, found)
        follow(documents, row.inputs.tolist(), found)
    link_rows(documents, rows, spots)
    return spots


def anchor_by_labels(anchors, documents, row, found):
    """Fill `found` where a label is the next token of a document: a short document may have its only own id there."""
    for i, label in enumerate(row.labels.tolist() if row.labels is not None else []):
        if found[i] is None and label in anchors:
            found[i] = neighbour(documents, anchors[label], -1, int(row.inputs[i]))


def follow(documents, ids, found):
    """Fill `found` for a list of ids, forwards and then backwards from what is known."""
    for step, order in ((1, range(1, len(ids))), (-1, range(len(ids) - 2, -1, -1))):
        for i in order:
            found[i] = found[i] or neighbour(documents, found[i - step], step, ids[i])


def link_rows(documents, rows, spots):
    """Fill the last or first token of a row that has no neighbour there: it continues another row, or both share it."""
    seen = {spot for found in spots for spot in found}
    internal = labels_are_own_inputs(rows)
    for k in range(len(rows) - 1):
        for row, found, at, other, step in ((rows[k], spots[k], -1, spots[k + 1][:1], -1),
                                            (rows[k + 1], spots[k + 1], 0, spots[k][-1:], 1)):
            if not found or not other or found[at]:
                continue
            ids = row.inputs.tolist()
            spot = neighbour(documents, other[0], step, ids[at])
            if spot in seen:
                spot = None
            found[at] = spot or (neighbour(documents, other[0], 0, ids[at]) if may_share(row, at, internal) else None)
            seen.add(found[at])
            follow(documents, ids, found)


def may_share(row, at, internal):
    """Return whether the first or last token of a row may be another row's too: it is a target or it predicts one."""
    label = 1 if at == 0 and internal else at
    if row.labels is None:
        counts = at == 0
    else:
        counts = label < len(row.labels) and row.labels[label] != IGNORED
    return counts and (row.mask is None or row.mask[at])


def labels_are_own_inputs(rows):
    """Return whether most labels that count equal their own input."""
    counting = own = 0
    for row in rows:
        if row.labels is not None:
            counting += int((row.labels != IGNORED).sum())
            own += int(((row.labels != IGNORED) & (row.labels == row.inputs)).sum())
    return 2 * own > counting


# --------------------------------------------------------------------------------------- quantities


def tokens_of(traced):
    """Return every (document, offset)."""
    return [(d, o) for d, document in enumerate(traced.documents) for o in range(len(document))]


def runs_of(found):
    """Return int64 (width,): numbers of the runs of consecutive tokens of one document; -1 where there is no token."""
    numbers, number = np.full(len(found), -1, np.int64), -1
    for i, spot in enumerate(found):
        if spot:
            number += not (i and found[i - 1] and (spot[0], spot[1] - 1) == found[i - 1])
            numbers[i] = number
    return numbers


def boundaries_of(traced):
    """Return how often one document follows another in a row without a gap."""
    return sum(bool(a and b) and (b[0], b[1] - 1) != a for found in traced.spots for a, b in zip(found, found[1:]))


def sort_predictions(traced):
    """Return (Counter of tokens predicted by the token before them, tokens predicted by another one, padding pairs)."""
    inside, across, padding = Counter(), [], 0
    for query, target in traced.predictions:
        if not query or not target:
            padding += 1
        elif (target[0], target[1] - 1) == query:
            inside[target] += 1
        else:
            across.append(target)
    return inside, across, padding


def times_read(traced):
    """Return a Counter of tokens as inputs.

    With internal labels, the last input of a row only carries the last label; it counts if no other row has the token.
    """
    times, last = Counter(), []
    for found in traced.spots:
        body = found[:-1] if traced.convention == "internal" else found
        times.update(spot for spot in body if spot)
        last += [spot for spot in found[len(body):] if spot]
    times.update(spot for spot in dict.fromkeys(last) if spot not in times)
    return times
