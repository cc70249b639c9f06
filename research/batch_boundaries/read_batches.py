"""Batches as tools hand them over, under the key names in use, read into rows of plain integers.

A batch is a mapping, a named tuple, or a pair (inputs, targets); arrays are torch tensors, NumPy arrays or lists, with
or without the batch dimension, ragged or not. A function returns one batch or several.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from evidence import InputError

LARGEST = 1000
KEYS = {
    "inputs": ("input_ids", "inputs", "tokens"),
    "labels": ("labels", "targets"),
    "mask": ("attention_mask",),
    "positions": ("position_ids", "positions"),
    "segments": ("segment_ids", "seq_idx", "sequence_id", "sequence_ids", "document_ids", "doc_ids"),
    "lengths": ("seq_lens", "seq_lengths", "sequence_lengths"),
    "cumulative": ("cu_seq_lens", "cu_seq_lens_q", "cu_seq_lens_k", "cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"),
    "longest": ("max_length_q", "max_length_k", "max_seqlen", "max_seqlen_q", "max_seqlen_k"),
}
KINDS = {key: kind for kind, keys in KEYS.items() for key in keys}


@dataclass(frozen=True)
class Row:
    """One row of a batch: int64 (width,) arrays; None where the batch has no such key.

    mask: bool (width,), True where the batch says a token is no padding. documents: {key: int64 (width,)} document
    numbers, -1 in none. allowed: bool (width, width), an explicit attention relation. longest: {key: tokens}, stated.
    """

    inputs: np.ndarray
    labels: np.ndarray | None
    positions: np.ndarray | None
    mask: np.ndarray | None
    allowed: np.ndarray | None
    documents: dict
    longest: dict


@dataclass(frozen=True)
class Handed:
    """Every row of all batches; the batches as JSON (what is read of them); the keys that are not read; {key: dtype}
    of ids that are not integers."""

    rows: list
    batches: list
    unread: list
    not_integers: dict


def plain(value):
    """A torch tensor, array or list as a NumPy array, or a list of arrays where it is ragged."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)) or _of_arrays(value):
        parts = [plain(part) for part in value]
        alike = len({getattr(part, "shape", None) for part in parts}) == 1
        return np.stack(parts) if alike and all(isinstance(part, np.ndarray) for part in parts) else parts
    return np.asarray(value)


def _of_arrays(value):
    return isinstance(value, (list, tuple)) and bool(value) and getattr(value[0], "ndim", 0) > 0


def by_rows(value):
    """A list of one-row values from what has a batch dimension, or one row from what has none."""
    value = plain(value)
    return [value] if isinstance(value, np.ndarray) and value.ndim < 2 else list(value)


def batches_of(returned):
    """A list of {key: value} from whatever the function returned; InputError when that is no batch."""
    batch = as_mapping(returned)
    if batch is not None:
        return [batch]
    if not isinstance(returned, Iterable) or isinstance(returned, (str, bytes)):
        raise InputError(f"the function returned {type(returned).__name__}; expected a batch or several batches")
    found = [as_mapping(item) for item in itertools.islice(returned, LARGEST + 1)]
    if not found or None in found:
        raise InputError("the function returned no batch: expected mappings with input_ids, or pairs (inputs, targets)")
    if len(found) > LARGEST:
        raise InputError(f"the function still yields after {LARGEST} batches: return those of the documents only")
    return found


def as_mapping(value):
    """{key: value} of a mapping, a named tuple, or a pair of arrays; else None."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(hasattr(part, "shape") for part in value):
        return {"inputs": value[0], "targets": value[1]}
    return None


def read_batches(returned):
    """Handed: the rows of everything the function returned."""
    rows, batches, unread, not_integers = [], [], set(), {}
    for batch in batches_of(returned):
        kinds = {}
        for key, value in batch.items():
            kinds.setdefault(KINDS.get(key), {})[key] = value
        unread |= set(kinds.pop(None, {}))
        for key, value in (kinds.get("inputs", {}) | kinds.get("labels", {})).items():
            for part in by_rows(value):
                if part.dtype.kind not in "iu":
                    not_integers[key] = str(part.dtype)
        rows += read_rows(kinds)
        batches.append({key: as_json(value) for values in kinds.values() for key, value in values.items()})
    if not sum(len(row.inputs) for row in rows):
        raise InputError("the batch has no tokens")
    return Handed(rows, batches, sorted(unread), not_integers)


def as_json(value):
    """Lists of numbers; of a mask with more than two dimensions, the relation as 0 and 1."""
    value = plain(value)
    if isinstance(value, list):
        return [as_json(part) for part in value]
    return [relation(row).astype(int).tolist() for row in value] if value.ndim > 2 else value.tolist()


def read_rows(kinds):
    """The rows of one batch given as {kind: {key: value}}."""
    if "inputs" not in kinds:
        raise InputError(f"the batch has none of the keys {', '.join(KEYS['inputs'])}")
    inputs = one_array(kinds, "inputs", None)
    widths = [len(row) for row in inputs]
    labels, positions = (one_array(kinds, kind, widths) for kind in ("labels", "positions"))
    masks, allowed, documents = read_masks(kinds.get("mask", {}), widths)
    documents |= {key: checked(key, by_rows(value), widths) for key, value in kinds.get("segments", {}).items()}
    for kind in ("lengths", "cumulative"):
        documents |= {key: numbered(key, value, widths, kind) for key, value in kinds.get(kind, {}).items()}
    longest = {key: int(np.max(plain(value))) for key, value in kinds.get("longest", {}).items()}
    return [Row(ids, labels and labels[r], positions and positions[r], masks and masks[r], allowed and allowed[r],
                {key: value[r] for key, value in documents.items()}, longest) for r, ids in enumerate(inputs)]


def one_array(kinds, kind, widths):
    """The rows of the first key of a kind, None without one; (rows, width) position ids may be one row for all."""
    if kind not in kinds:
        return None
    key, value = next(iter(kinds[kind].items()))
    rows = by_rows(value)
    if kind == "positions" and len(rows) == 1:
        rows *= len(widths)
    return checked(key, rows, widths)


def checked(key, rows, widths):
    """Rows as int64 whose widths are those of the inputs; InputError naming the key."""
    found = [len(row) if row.ndim == 1 else row.shape for row in rows]
    if widths is not None and found != widths:
        raise InputError(f"{key}: expected rows of {widths} tokens as in the inputs, found {found}")
    return [row.astype(np.int64) for row in rows]


def read_masks(masks, widths):
    """(2-D masks as bool rows, explicit relations, {key: document numbers}) of the attention_mask, in its three forms.

    0 and 1: not padding. Larger numbers: the documents of a row from 1, 0 is padding. Three or four dimensions: who
    reads whom, boolean, 0/1, or added to the scores (0 where allowed).
    """
    for key, value in masks.items():
        rows = by_rows(value)
        if rows[0].ndim >= 2:
            return None, [relation(row) for row in rows], {}
        rows = checked(key, rows, widths)
        numbers = {key: [row - 1 for row in rows]} if max(row.max(initial=0) for row in rows) > 1 else {}
        return [row > 0 for row in rows], None, numbers
    return None, None, {}


def relation(mask):
    """bool (width, width) of a row's mask (width, width) or (heads, width, width): allowed for any head."""
    allowed = mask > 0 if mask.dtype.kind in "biu" or mask.max() > 0 else mask == 0
    return allowed.any(axis=0) if allowed.ndim == 3 else allowed


def numbered(key, value, widths, kind):
    """Document numbers from sequence lengths, or from where sequences end, a list a row or one list for all rows."""
    lists = by_rows(value)
    rows = [sum(widths)] if len(lists) == 1 else widths
    if len(lists) != len(rows):
        raise InputError(f"{key}: expected one list or {len(widths)}, found {len(lists)}")
    ends = [np.asarray(part) if kind == "cumulative" else np.append(0, np.cumsum(part)) for part in lists]
    flat = []
    for width, part in zip(rows, ends):
        if (np.diff(part) < 0).any() or part[0] != 0 or part[-1] > width:
            raise InputError(f"{key}: expected to rise from 0 to at most {width} tokens, found {part.tolist()}")
        number = np.searchsorted(part, np.arange(width), side="right") - 1
        flat.append(np.where(number < len(part) - 1, number, -1))
    return np.split(np.concatenate(flat), np.cumsum(widths)[:-1])
