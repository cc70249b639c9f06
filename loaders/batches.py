"""From documents to a batch: ids, labels, positions and document numbers, under one label convention.

A label is stored at its own input's position: `labels[r, i]` is `inputs[r, i]`, or IGNORED where it is no target.
Exactly one shift follows, `shifted`: the output at i - 1 predicts the label at i, so column 0 is always IGNORED.
The length decides what is padding: its segment id is -1, whatever its token id. (After "From Training Chunks to a
Batch".)
"""

from typing import NamedTuple

import numpy as np

IGNORED = -100
PADDING = -1


class Batch(NamedTuple):
    """Four int64 arrays (rows, width).

    segment_ids count a row's documents from 0; padding is -1. Positions restart in every document where documents are
    independent and run on otherwise; they are 0 in padding.
    """

    inputs: np.ndarray
    labels: np.ndarray
    positions: np.ndarray
    segment_ids: np.ndarray


# ------------------------------------------------------------------------------------------- layout


def lay_out(ids, rows, sizes, *, width, pad, independent):
    """Return the Batch of segments that follow each other.

    ids: int (tokens,). rows, sizes: the row (ascending from 0) and the number of tokens of each segment. The first
    token of a row is no target; where segments are independent, neither is the first token of any segment.
    """
    ids = np.asarray(ids, np.int64)  # unsigned ids would turn IGNORED into a large one
    segment = np.repeat(np.arange(len(sizes)), sizes)
    first = np.searchsorted(rows, rows)
    starts = np.cumsum(sizes) - sizes
    row, token = rows[segment], np.arange(len(segment))
    column, position = token - starts[first][segment], token - starts[segment]
    position = position if independent else column
    batch = Batch(*(np.full((int(rows[-1]) + 1, width), value, np.int64) for value in (pad, IGNORED, 0, PADDING)))
    found = ids, np.where(position > 0, ids, IGNORED), position, (np.arange(len(rows)) - first)[segment]
    for array, values in zip(batch, found, strict=True):
        array[row, column] = values
    return batch


def shifted(batch):
    """Return (inputs, targets, positions, segment_ids), (rows, width - 1) each; targets are labels[:, 1:]."""
    return (batch.inputs[:, :-1], batch.labels[:, 1:], batch.positions[:, :-1], batch.segment_ids[:, :-1])
