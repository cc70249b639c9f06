"""Make documents, hand them to a function, and hold the batch that it returns against the checklist."""

import traceback
from pathlib import Path

from evidence import InputError, read_json
from research.batch_boundaries.checklist import check_all
from research.batch_boundaries.read_batches import read_batches
from research.batch_boundaries.trace_tokens import read_documents


def make_documents(lengths, *, bos, eos, pad, pad_in_text, first_id):
    """Documents of `lengths` tokens, bos and eos included; the ids between count up and occur once.

    With `pad_in_text` the middle of the longest document holds the padding's id, as real text may.
    """
    ends = (bos is not None) + (eos is not None)
    if len(lengths) < 2 or min(lengths) <= ends:
        raise InputError(f"--lengths {lengths}: expected two documents or more of at least {ends + 1} tokens")
    specials, following, documents = {bos, eos, pad}, first_id, []
    for length in lengths:
        text = []
        while len(text) < length - ends:
            text += [following] * (following not in specials)
            following += 1
        documents.append([bos] * (bos is not None) + text + [eos] * (eos is not None))
    if pad_in_text:
        longest = max(documents, key=len)
        if pad is None or len(longest) < ends + 3:
            raise InputError(f"--pad-in-text needs --pad-id and a document of {ends + 3} tokens or more")
        longest[len(longest) // 2] = pad
    return documents


def given_documents(path):
    """The documents of a JSON file: a list of two or more lists of integers."""
    documents = read_json(path)
    if not isinstance(documents, list) or len(documents) < 2:
        raise InputError(f"{path}: expected a list of two documents or more")
    for number, ids in enumerate(documents):
        if not isinstance(ids, list) or not ids or not all(type(id) is int and id >= 0 for id in ids):
            raise InputError(f"{path}: document {number}: expected token ids, found {ids!r}")
    return documents


def handed_over(documents, added, bos, eos):
    """The documents without what the function adds itself."""
    start, end = int("bos" in added and bos is not None), int("eos" in added and eos is not None)
    return [ids[start:len(ids) - end] for ids in documents]


def diagnose(function, documents, options):
    """{"documents", "batches", "keys_not_read", "padding_id", "items"} of one function; InputError when it fails.

    options: bos, eos, pad, added, convention, semantics (parse_arguments).
    """
    try:
        returned = function(handed_over(documents, options.added, options.bos, options.eos))
        handed = read_batches(returned)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{options.function}: running it failed: {described(error)}") from error
    reading = read_documents(documents, handed, options.pad)
    if not any(spot for found in reading.spots for spot in found):
        found = handed.rows[0].inputs[:6].tolist()
        raise InputError(f"{options.function}: no id of the documents is in the batch, which begins with {found}")
    return {"documents": documents, "batches": handed.batches, "keys_not_read": handed.unread,
            "padding_id": reading.pad_id, "items": check_all(reading, options)}


def count_statuses(items):
    """{status: items}, each status counted, also where it is none."""
    statuses = ("ok", "FAIL", "cannot tell", "not applied")
    return {status: sum(item["status"] == status for item in items) for status in statuses}


def described(error):
    """Kind, text and place of an exception of the reader's code."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
