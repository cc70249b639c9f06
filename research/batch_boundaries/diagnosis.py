"""Make documents, hand them to a function, and hold the batch that it returns against the checklist."""

import traceback
from pathlib import Path

import numpy as np

from evidence import InputError, read_json, require
from research.batch_boundaries.checklist import check_all
from research.batch_boundaries.read_batches import read_batches
from research.batch_boundaries.trace_tokens import trace

STATUSES = ("ok", "FAIL", "cannot tell", "not applied")


def make_documents(lengths, *, bos, eos, pad, pad_in_text, first_id):
    """Return documents of `lengths` tokens, bos and eos included; the ids between count up and occur once.

    With `pad_in_text` the middle of the longest document has the padding's id, as real text may.
    """
    ends = (bos is not None) + (eos is not None)
    require(len(lengths) >= 2 and min(lengths) > ends, f"--lengths {lengths}",
            f"expected two documents or more of at least {ends + 1} tokens")
    specials, following, documents = {bos, eos, pad}, first_id, []
    for length in lengths:
        text = []
        while len(text) < length - ends:
            if following not in specials:
                text.append(following)
            following += 1
        documents.append(([] if bos is None else [bos]) + text + ([] if eos is None else [eos]))
    if pad_in_text:
        longest = max(documents, key=len)
        require(pad is not None and len(longest) >= ends + 3, "--pad-in-text",
                f"expected --pad-id and a document of {ends + 3} tokens or more")
        longest[len(longest) // 2] = pad
    return documents


def given_documents(path):
    """Return (documents, targets) of a JSON file: a list of two or more documents.

    A document is a list of ids, or {"ids": [...], "targets": [0 or 1, ...]}, which says what should be a target.
    """
    given = read_json(path)
    require(isinstance(given, list) and len(given) >= 2, path, "expected a list of two documents or more")
    documents, targets = [], []
    for number, document in enumerate(given):
        ids, wanted = document, None
        if isinstance(document, dict) and set(document) == {"ids", "targets"}:
            ids, wanted = document["ids"], document["targets"]
        where = f"{path}: document {number}"
        require(isinstance(ids, list) and ids and all(type(id) is int and id >= 0 for id in ids), where,
                f"expected token ids, found {ids!r}")
        require(wanted is None or isinstance(wanted, list) and len(wanted) == len(ids)
                and all(value in (0, 1) for value in wanted), f"{where}: targets",
                f"expected {len(ids)} numbers 0 or 1, found {wanted!r}")
        documents.append(ids)
        targets.append(wanted or [1] * len(ids))
    return documents, targets if any(isinstance(document, dict) for document in given) else None


def targets_after(prompts, documents):
    """Return which tokens should be targets after prompts of these lengths, one for all documents or one each."""
    require(len(prompts) in (1, len(documents)), "--prompt-tokens",
            f"expected one number or {len(documents)}, found {len(prompts)}")
    prompts = prompts * len(documents) if len(prompts) == 1 else prompts
    return [[offset >= prompt for offset in range(len(ids))] for ids, prompt in zip(documents, prompts)]


def handed_over(documents, declared):
    """Return the documents without the specials that the function adds itself."""
    start = int("bos" in declared.added and declared.bos is not None)
    end = int("eos" in declared.added and declared.eos is not None)
    return [ids[start:len(ids) - end] for ids in documents]


def diagnose(function, documents, declared, targets=None, name="the function"):
    """Return {"documents", "batches", "keys_not_read", "padding_id", "notes", "items"} of one function.

    declared: a Declared. targets: a list of bools a document, or None if nobody said. InputError says how the function
    failed.
    """
    try:
        returned = function(handed_over(documents, declared))
        batches = read_batches(returned, ignore=declared.ignore, read_as=declared.read_as)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{name}: running it failed: {described(error)}") from error
    traced, items = best_reading(documents, batches, declared, targets)
    if not any(spot for found in traced.spots for spot in found):
        found = batches.rows[0].inputs[:6].tolist()
        raise InputError(f"{name}: no id of the documents is in the batch, which begins with {found}")
    return {"documents": documents, "batches": batches.batches, "keys_not_read": batches.unread,
            "padding_id": traced.pad_id, "notes": batches.notes + numbered_padding(traced),
            "items": items}


def best_reading(documents, batches, declared, targets):
    """Return (TracedBatch, items) of the reading of the batch under which fewer items FAIL.

    The last tokens of documents are inputs, or each document was shifted by itself and they are not. Where their id is
    also the padding's or the BOS's, only the trial of both can tell.
    """
    readings = []
    for last_tokens in (True, False):
        traced = trace(documents, batches, pad_id=declared.pad, convention=declared.convention, targets=targets,
                       last_tokens=last_tokens)
        items = check_all(traced, declared)
        failed = count_statuses(items)["FAIL"]
        if not failed:
            return traced, items
        readings.append((failed, traced, items))
    _, traced, items = min(readings, key=lambda reading: reading[0])
    return traced, items


def numbered_padding(traced):
    """Return notes on keys that number padding as a document of its own, which is harmless."""
    notes = []
    for key in sorted({key for row in traced.rows for key in row.documents}):
        count = 0
        for row, spots, padding in zip(traced.rows, traced.spots, traced.padding):
            numbers = row.documents[key]
            real = numbers[np.array([spot is not None for spot in spots])]
            count += int((padding & (numbers >= 0) & ~np.isin(numbers, real)).sum())
        notes += [f"{key} numbers {count} padding tokens as a document of their own"] if count else []
    return notes


def count_statuses(items):
    """Return {status: number of items} for all four statuses."""
    return {status: sum(item["status"] == status for item in items) for status in STATUSES}


def described(error):
    """Return the kind, text and place of an exception in a user's code."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
