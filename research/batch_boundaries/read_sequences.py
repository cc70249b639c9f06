"""Read document numbers from sequence lengths, and from the places where sequences end."""

import numpy as np

from evidence import InputError


def read_sequences(lengths, cumulative, widths, masks):
    """Return {key: document numbers a row}, int64 (width,) each, -1 where a position is in no sequence.

    lengths, cumulative: {key: list of arrays}, one list for all rows or one a row. widths: tokens of each row. masks:
    bool (width,) a row or None; if the sequences cover exactly the unmasked tokens, padding was taken out of the count.
    """
    found = {key: number(key, [(ends_of(part), np.asarray(part)) for part in lists], widths, masks)
             for key, lists in lengths.items()}
    for key, lists in cumulative.items():
        base = key.removesuffix("_padded").removesuffix("_unpadded")
        if base != key and base in cumulative:
            continue  # It is read together with its partner.
        layout, sizes = lists, lists
        if f"{key}_padded" in cumulative:
            layout = cumulative[f"{key}_padded"]
        elif f"{key}_unpadded" in cumulative:
            sizes = cumulative[f"{key}_unpadded"]
        parts = [(whole(ends), np.diff(whole(size))) for ends, size in zip(layout, sizes, strict=True)]
        found[key] = number(key, parts, widths, masks)
    return found


def ends_of(lengths):
    return np.append(0, np.cumsum(lengths))


def whole(ends):
    """Return the ends without the -1 that fills a list up to a fixed size."""
    ends = np.asarray(ends).reshape(-1)
    return ends[: len(ends) - int((np.cumprod(ends[::-1] < 0)).sum())]


def number(key, parts, widths, masks):
    """Return document numbers a row from (ends, sizes) of one list of sequences for all rows, or of one list a row."""
    spans = [sum(widths)] if len(parts) == 1 else widths
    if len(parts) != len(spans):
        raise InputError(f"{key}: expected one list or {len(widths)}, found {len(parts)}")
    flat = []
    for place, (width, (ends, sizes)) in enumerate(zip(spans, parts)):
        if len(ends) != len(sizes) + 1:
            raise InputError(f"{key}: expected as many sequences with padding as without, found {len(ends) - 1} and "
                             f"{len(sizes)}")
        if not len(ends) or (np.diff(ends) < 0).any() or ends[0] != 0 or ends[-1] > width:
            raise InputError(f"{key}: expected to rise from 0 to at most {width} tokens, found {ends.tolist()}")
        counted = np.arange(width)
        if masks:
            mask = np.concatenate(masks) if len(parts) == 1 else masks[place]
            if ends[-1] == mask.sum():
                counted = np.where(mask, np.cumsum(mask) - 1, width)
        sequence = np.searchsorted(ends, counted, side="right") - 1
        starts, sizes = np.append(ends[:-1], 0), np.append(sizes, 0)
        inside = (sequence < len(ends) - 1) & (counted - starts[sequence] < sizes[sequence])
        flat.append(np.where(inside, sequence, -1))
    return np.split(np.concatenate(flat), np.cumsum(widths)[:-1])
