"""Lay documents out in rows of cells, before a form writes them as arrays."""

from typing import NamedTuple


class Cell(NamedTuple):
    """One position of a row: its id, and what its label is.

    spot: (document, offset) of the input, None for padding. wanted: (document, offset) of the label. counts: whether
    the label counts. position: position id. number: document of the row from 0, -1 for padding. real: no padding.
    """

    spot: tuple | None
    id: int
    wanted: tuple | None
    label: int
    counts: bool
    position: int
    number: int
    real: bool


def padding(id):
    return Cell(None, id, None, id, False, 0, -1, False)


def cells_of(documents, d, number, *, by_document, prompt):
    """Return the cells of one document; with `by_document` each label is the next token, else the cell's own."""
    ids, ahead = documents[d], int(by_document)
    return [Cell((d, o), ids[o], (d, o + ahead), ids[o + ahead], o + ahead >= max(1, prompt), o, number, True)
            for o in range(len(ids) - ahead)]


# ------------------------------------------------------------------------------------------ layouts


def lay_out(form, documents, prompts, order=None):
    """Return the rows of a right batch of `documents` (lists of ids) in a form's layout.

    prompts: tokens of each document that are no targets. order: the documents that are in the batch; all by default.
    """
    parts, order = [], order or range(len(documents))
    for number, d in enumerate(order):
        number = 0 if form.layout in ("padded", "left") else number
        parts.append(cells_of(documents, d, number, by_document=form.shift == "document", prompt=prompts[d]))
    pad = padding(form.pad)
    if form.layout in ("padded", "left"):
        width = max(map(len, parts)) + form.spare
        free = [[pad] * (width - len(part)) for part in parts]
        return [empty + part if form.layout == "left" else part + empty for part, empty in zip(parts, free)]
    if form.layout == "rows":
        half = len(parts) // 2
        rows = [sum(parts[:half], []), sum(parts[half:], [])]
        rows[1] = [cell._replace(number=cell.number - half) for cell in rows[1]]
        width = max(map(len, rows))
        return [row + [pad] * (width - len(row)) for row in rows]
    if form.layout == "spaced":
        parts = [part + [pad] * 2 for part in parts]
    row = sum(parts, []) + [pad] * form.spare
    if form.declared.get("semantics") == "continuous":
        row = row[:1] + [cell._replace(counts=cell.counts or cell.wanted[1] == 0) for cell in row[1:]]
        if not form.restarts:
            row = [cell._replace(position=column) for column, cell in enumerate(row)]
    return [row]


def shifted(rows, shift):
    """Return the rows after an external shift: by "row" the last input goes, by "width" it stays without a label."""
    found = []
    for row in rows:
        labels = [(cell.wanted, cell.label, cell.counts) for cell in row[1:]] + [(None, row[-1].id, False)]
        row = [cell._replace(wanted=w, label=label, counts=counts) for cell, (w, label, counts) in zip(row, labels)]
        found.append(row[:-1] if shift == "row" else row)
    return found
