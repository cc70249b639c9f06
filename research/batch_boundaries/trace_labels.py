"""Find what each label of a batch predicts, and under which of the two conventions labels are stored."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from loaders.batches import IGNORED


class Prediction(NamedTuple):
    """A label that counts: the token whose output predicts it, and the token that it is; (document, offset) or None."""

    query: tuple | None
    target: tuple | None


def neighbour(documents, spot, step, id):
    """Return the token `step` after `spot` in its document if it has that id, else None."""
    if spot is None:
        return None
    document, offset = spot[0], spot[1] + step
    tokens = documents[document]
    return (document, offset) if 0 <= offset < len(tokens) and tokens[offset] == id else None


def find_predictions(documents, rows, spots, declared):
    """Return (convention, predictions, number of labels that fit neither); most labels fit the convention returned.

    Where labels fit both, the declared convention is returned.
    """
    if any(row.labels is None for row in rows):
        return None, [], 0
    counted = sum(int(np.count_nonzero(row.labels != IGNORED)) for row in rows)
    internal, external = internal_predictions(rows, spots), external_predictions(documents, rows, spots)
    reached = counted - sum(int(row.labels[0] != IGNORED) for row in rows if len(row.labels))
    fits = {"internal": (internal, reached - len(internal)), "external": (external, counted - len(external))}
    convention = min(fits, key=lambda name: (fits[name][1], name != declared))
    predictions, wrong = fits[convention]
    return (convention, predictions, wrong) if len(predictions) > wrong else (None, [], counted)


def internal_predictions(rows, spots):
    """Return the predictions of labels equal to their own input, without the first of a row: no output predicts it."""
    return [Prediction(found[i - 1], found[i]) for row, found in zip(rows, spots) for i in range(1, len(found))
            if row.labels[i] != IGNORED and row.labels[i] == row.inputs[i]]


def external_predictions(documents, rows, spots):
    """Return the predictions of labels equal to what follows their input.

    That is the next token of the input's document, also where the row does not have it, because each document may be
    shifted by itself. Otherwise it is the next input of the row, or after the row's end the beginning of the next row.
    """
    predictions = []
    for k, (row, found) in enumerate(zip(rows, spots)):
        next_row = spots[k + 1][:1] if k + 1 < len(rows) else []
        for i in np.flatnonzero(row.labels != IGNORED).tolist():
            label = int(row.labels[i])
            target = neighbour(documents, found[i], 1, label)
            if target or i + 1 < len(found) and label == row.inputs[i + 1]:
                predictions.append(Prediction(found[i], target or found[i + 1]))
            elif i + 1 == len(found):
                predictions += [Prediction(found[i], spot) for spot in next_row
                                if spot and spot[1] == 0 and documents[spot[0]][0] == label]
    return predictions


def labels_ahead(anchors, rows, spots):
    """Return a Counter of how many tokens labels are ahead of their input in their document, where the id tells."""
    steps = Counter()
    for row, found in zip(rows, spots):
        for spot, label in zip(found, row.labels.tolist() if row.labels is not None else []):
            known = anchors.get(label)
            if spot and known and known[0] == spot[0]:
                steps[known[1] - spot[1]] += 1
    return steps
