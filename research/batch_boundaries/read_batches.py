"""Read the batches that tools return, under the key names in use, into rows of plain integers.

A batch is a mapping, a named tuple, a pair (inputs, targets), or a pair (mapping, labels). Arrays are torch tensors,
NumPy arrays or lists, with or without a batch dimension, ragged or not. A function returns one batch or several.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from evidence import InputError
from loaders.batches import IGNORED
from research.batch_boundaries.key_names import KEYS, KINDS, SINGLE
from research.batch_boundaries.plain_arrays import by_rows, checked, plain
from research.batch_boundaries.read_masks import read_masks, relation
from research.batch_boundaries.read_sequences import read_sequences

LARGEST = 1000


@dataclass(frozen=True)
class Row:
    """One row of a batch: int64 (width,) arrays; None where the batch has no such key.

    labels: IGNORED where a label does not count. mask: bool (width,), True where the batch says that a token is no
    padding. relations: {key: bool (heads, width, width)}, explicit attention. documents: {key: int64 (width,)}, numbers
    of documents, -1 where there is none. sequences: the keys of `documents` that state lengths. longest: {key: tokens}.
    """

    inputs: np.ndarray
    labels: np.ndarray | None
    positions: np.ndarray | None
    mask: np.ndarray | None
    relations: dict
    documents: dict
    sequences: set
    longest: dict


@dataclass(frozen=True)
class ReturnedBatches:
    """The rows of all batches, and what could not be read.

    batches: what was read, as JSON. unread: keys that were not read. open_keys: those that could decide an item:
    they hold several numbers. open_labels: label keys that differ from the one that was read. kinds: kinds of the keys
    that were read. not_integers: {key: dtype} of ids that are no integers. notes: sentences for the reader.
    """

    rows: list
    batches: list
    unread: list
    open_keys: list
    open_labels: list
    kinds: set
    not_integers: dict
    notes: list


# ------------------------------------------------------------------------------------------ batches


def as_json(value):
    """Return lists of numbers; of a mask with more than two dimensions, the attention relation as 0 and 1."""
    value = plain(value)
    if isinstance(value, list):
        return [as_json(part) for part in value]
    if value.ndim > 2:
        return [relation(row).any(axis=0).astype(int).tolist() for row in value]
    return value.tolist()


def as_mapping(value):
    """Return {key: value} for a mapping, a named tuple, a pair of arrays or a pair (mapping, labels); else None."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, list | tuple) and len(value) == 2 and hasattr(value[1], "shape"):
        if isinstance(value[0], Mapping):
            return dict(value[0]) | {"labels": value[1]}
        if hasattr(value[0], "shape"):
            return {"inputs": value[0], "targets": value[1]}
    return None


def batches_of(returned):
    """Return a list of {key: value} for whatever the function returned; InputError if that is no batch."""
    batch = as_mapping(returned)
    if batch is not None:
        return [batch]
    if not isinstance(returned, Iterable) or isinstance(returned, str | bytes):
        raise InputError(f"the function returned {type(returned).__name__}; expected a batch or several batches")
    found = [as_mapping(item) for item in itertools.islice(returned, LARGEST + 1)]
    if not found or None in found:
        raise InputError("the function returned no batch: expected mappings with input_ids, or pairs (inputs, targets)")
    if len(found) > LARGEST:
        raise InputError(f"the function still yields after {LARGEST} batches: return those of the documents only")
    return found


def read_batches(returned, *, ignore=None, read_as=None):
    """Return the ReturnedBatches of everything that a function returned.

    ignore: label ids that do not count; None means every negative id. read_as: {key: kind} of a user's own key names.
    """
    names, rows, batches, not_integers = KINDS | (read_as or {}), [], [], {}
    unread, open_keys, open_labels, read, ignored = set(), set(), set(), set(), set()
    for batch in batches_of(returned):
        kinds = {}
        for key, value in batch.items():
            kinds.setdefault(names.get(key), {})[key] = value
        unknown = kinds.pop(None, {})
        unread |= set(unknown)
        open_keys |= {key for key, value in unknown.items() if holds_numbers(value)}
        kinds.pop("nothing", None)
        for kind in SINGLE:
            others = dict(list(kinds.get(kind, {}).items())[1:])
            unread |= set(others)
            open_labels |= {key for key in others if kind == "labels" and not same(others[key], kinds[kind])}
        for key, value in (kinds.get("inputs", {}) | kinds.get("labels", {})).items():
            others = [str(part.dtype) for part in by_rows(value) if part.dtype.kind not in "iu"]
            if others:
                not_integers[key] = others[0]
        rows += read_rows(kinds, ignore, ignored)
        read |= set(kinds)
        batches.append({key: as_json(value) for values in kinds.values() for key, value in values.items()})
    if not sum(len(row.inputs) for row in rows):
        raise InputError("the batch has no tokens")
    notes = [f"the labels {' and '.join(map(str, sorted(ignored)))} are both read as ignored; say which with "
             "--ignore-id"] if len(ignored) > 1 else []
    notes += [f"{key} differs from the label key that was read, and it is unknown which one the model uses; say "
              f"--read-as {key}=nothing, or the same of the other" for key in sorted(open_labels)]
    return ReturnedBatches(rows, batches, sorted(unread), sorted(open_keys), sorted(open_labels), read, not_integers,
                           notes)


def holds_numbers(value):
    """Return whether a value of an unknown key holds several numbers, which may be a mask, positions or documents."""
    try:
        parts = by_rows(value)
    except (TypeError, ValueError):
        return False
    return all(isinstance(part, np.ndarray) and part.dtype.kind in "biuf" for part in parts) and sum(
        part.size for part in parts) > 1


def same(value, read):
    """Return whether a value has the same rows as the first value of {key: value}."""
    first = next(iter(read.values()))
    return all(np.array_equal(a, b) for a, b in itertools.zip_longest(by_rows(value), by_rows(first)))


# --------------------------------------------------------------------------------------------- rows


def read_rows(kinds, ignore, ignored):
    """Return the Rows of one batch given as {kind: {key: value}}; add the ids of ignored labels to `ignored`."""
    if "inputs" not in kinds:
        raise InputError(f"the batch has none of the keys {', '.join(KEYS['inputs'])}")
    inputs = one_array(kinds, "inputs", None)
    widths = [len(row) for row in inputs]
    labels, positions = (one_array(kinds, kind, widths) for kind in ("labels", "positions"))
    masks, relations, documents = read_masks(kinds.get("mask", {}), widths)
    if labels:
        labels = [countable(row, ignore, ignored) for row in labels]
        for key, value in kinds.get("loss", {}).items():
            weights = checked(key, by_rows(value), widths, float)
            labels = [np.where(weight != 0, row, IGNORED) for row, weight in zip(labels, weights)]
    for kind, first in (("segments", 0), ("segments_from_1", 1)):
        for key, value in kinds.get(kind, {}).items():
            documents[key] = [np.maximum(row - first, -1) for row in checked(key, by_rows(value), widths)]
    lists = {kind: {key: by_rows(value) for key, value in kinds.get(kind, {}).items()}
             for kind in ("lengths", "cumulative")}
    sequences = read_sequences(lists["lengths"], lists["cumulative"], widths, masks)
    documents |= sequences
    longest = {key: int(np.max(plain(value))) for key, value in kinds.get("longest", {}).items()}
    return [Row(ids, labels and labels[r], positions and positions[r], masks and masks[r],
                {key: value[r] for key, value in relations.items()},
                {key: value[r] for key, value in documents.items()}, set(sequences), longest)
            for r, ids in enumerate(inputs)]


def countable(labels, ignore, ignored):
    """Return labels with IGNORED for every one that does not count; add the ignored negative ids to `ignored`."""
    left_out = labels < 0 if ignore is None else np.isin(labels, ignore)
    if ignore is None:
        ignored |= set(labels[left_out].tolist())
    counting = np.where(labels == IGNORED, IGNORED - 1, labels)  # An id that counts must not look like an ignored one.
    return np.where(left_out, IGNORED, counting)


def one_array(kinds, kind, widths):
    """Return the rows of the first key of a kind, None without one; one row of position ids serves all rows."""
    if kind not in kinds:
        return None
    key, value = next(iter(kinds[kind].items()))
    rows = by_rows(value)
    if kind == "positions" and len(rows) == 1:
        rows *= len(widths)
    return checked(key, rows, widths)
