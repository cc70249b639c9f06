"""The faults that are planted in right batches, each with the item of the checklist that must FAIL."""

from collections.abc import Callable
from typing import NamedTuple

from research.batch_boundaries.planted_cells import padding, shifted

FOREIGN = 97
READ, SCORED, END = "every token is read once", "every target is scored once", "the real end stays a target"
IDS, PADDING, PAD_LABELS = "token ids are preserved", "padding is found by length", "padding labels are ignored"
SHIFT, BOUNDARY, POSITIONS = "labels are shifted once", "boundary labels are ignored", "positions restart"
ISOLATED, IDLE = "attention isolates documents", "no row is idle"


class Fault(NamedTuple):
    """A planted fault: the item that must FAIL, what a form needs for it, and how the rows change.

    A fault without `change` is planted when the batch is built or written. order: the documents in the batch.
    """

    item: str
    needs: frozenset = frozenset()
    change: Callable | None = None
    order: tuple | None = None


def fault(item, needs, change=None, order=None):
    return Fault(item, frozenset(needs.split()), change, order)


def each_cell(change):
    """Return a fault that replaces each cell by change(cell, column, row)."""
    return lambda rows: [[change(cell, column, row) for column, cell in enumerate(row)] for row in rows]


def not_counted(spot):
    return each_cell(lambda cell, column, row: cell._replace(counts=False) if cell.wanted == spot else cell)


def boundary_kept(cell, column, row):
    follows = column > 0 and row[column - 1].real and cell.real
    return cell._replace(counts=True) if follows and cell.wanted[1] == 0 else cell


def padding_kept(cell, column, row):
    return cell if cell.real or not column else cell._replace(counts=True)


def prompt_kept(cell, column, row):
    return cell._replace(counts=True) if cell.real and cell.wanted[1] > 0 else cell


def id_changed(cell, column, row):
    return cell._replace(id=FOREIGN, label=FOREIGN if cell.wanted == cell.spot else cell.label) if cell.spot == (
        2, 3) else cell


def two_ahead(rows):
    """Move every label one token further ahead than it should be."""
    return shifted(rows, "width")


def positions_run_on(cell, column, row):
    return cell._replace(position=column)


def one_document(cell, column, row):
    return cell._replace(number=0) if cell.real else cell


def boundary_off_by_one(cell, column, row):
    before = row[column - 1]
    return cell._replace(number=before.number) if column and cell.real and before.real and cell.number == 1 and (
        before.number == 0) else cell


def padding_unmasked(cell, column, row):
    return cell._replace(real=True)


def real_token_masked(cell, column, row):
    return cell._replace(real=False) if cell.spot == (1, 1) else cell


def idle_row(rows):
    """Append a row of padding."""
    pad = next((cell for row in rows for cell in row if not cell.real), padding(0))
    return [*rows, [pad._replace(counts=False)] * len(rows[0])]


# --------------------------------------------------------------------------------------------- table

FAULTS = {
    "a document is lost": fault(READ, "", order=(0, 1)),
    "a document is read twice": fault(READ, "", order=(0, 1, 2, 0)),
    "an id is changed": fault(IDS, "", each_cell(id_changed)),
    "the first target of a document is ignored": fault(SCORED, "first", not_counted((0, 1))),
    "a target in the middle is ignored": fault(SCORED, "", not_counted((2, 4))),
    "the ends are ignored": fault(END, "", lambda rows: not_counted((2, 6))(not_counted((0, 3))(rows))),
    "prompts are scored": fault(SCORED, "prompts", each_cell(prompt_kept)),
    "the labels are one token too far ahead": fault(SHIFT, "", two_ahead),
    "the labels follow the other convention": fault(SHIFT, ""),
    "a boundary target is kept": fault(BOUNDARY, "boundary", each_cell(boundary_kept)),
    "padding is scored": fault(PAD_LABELS, "padding", each_cell(padding_kept)),
    "padding is not masked": fault(PADDING, "padding mask", each_cell(padding_unmasked)),
    "a real token is masked": fault(PADDING, "padding mask", each_cell(real_token_masked)),
    "positions run on": fault(POSITIONS, "positions independent", each_cell(positions_run_on)),
    "two documents have one number": fault(ISOLATED, "isolation independent", each_cell(one_document)),
    "a boundary is off by one": fault(ISOLATED, "isolation independent", each_cell(boundary_off_by_one)),
    "the key that isolates documents is left out": fault(ISOLATED, "isolation independent unnamed"),
    "the longest length is too short": fault(ISOLATED, "longest"),
    "one head reads only itself": fault(ISOLATED, "heads"),
    "a row has only padding": fault(IDLE, "rows", idle_row),
}
