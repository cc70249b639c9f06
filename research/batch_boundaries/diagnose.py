"""Does your collator or data loader build the batch you think it builds?

Hands documents to FUNCTION and reads the batch that comes back: padding, labels, shift, boundaries, positions,
attention, every token's uses. Each item of the checklist is ok, FAIL, cannot tell or not applied, with its counts.

    diagnose.py MODULE:FUNCTION [--pad-id N] [--eos-id N|none] [--bos-id N|none] [--convention internal|external]
                [--semantics independent|continuous] [--lengths N...] [--json FILE]

MODULE is importable or the path of a .py file. FUNCTION(documents) takes lists of token ids and returns one batch or
several: a mapping, a named tuple, or a pair (inputs, targets). Around a collator it is three lines:

    def collate(documents):
        return my_collator([{"input_ids": ids} for ids in documents])

Read are input_ids, labels, attention_mask (2-D, 3-D, 4-D, or numbering documents from 1), position_ids, document
numbers (segment_ids, seq_idx, sequence_id, document_ids) and sequence lengths (seq_lens, cu_seq_lens_q, cu_seqlens,
max_length_q). Hand over --pad-id where the padding's id is in your own --documents.

Reads   your module; with --documents a JSON list of lists of ids (each document with an id that is in no other place)
Writes  nothing; with --json the documents, the batches and every item
Needs   NumPy, and what your module needs
About   a second, and what your module takes

Exit 0: no item FAILs. 1: one does. 2: nothing could be checked, or the function could not be run.
"""

import argparse
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, read_json, run_script, write_json


def load_function(name):
    """The callable of MODULE:FUNCTION; InputError saying what is missing or how the module failed."""
    module_name, colon, attribute = name.rpartition(":")
    if not colon or not module_name or not attribute:
        raise InputError(f"{name}: expected MODULE:FUNCTION, the module importable or the path of a .py file")
    module = load_module(module_name)
    function = getattr(module, attribute, None)
    if not callable(function):
        there = sorted(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise InputError(f"{module_name}: no function {attribute}; it has {', '.join(there) or 'none'}")
    return function


def load_module(name):
    path = Path(name)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise InputError(f"{name}: no such file")
    sys.path.insert(0, str(path.resolve().parent if is_file else Path.cwd()))
    try:
        if not is_file:
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except Exception as error:
        raise InputError(f"{name}: importing it failed: {described(error)}") from error
    finally:
        sys.path.pop(0)


def described(error):
    """Kind, text and place of an exception of the reader's code."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


# ------------------------------------------------------------------------------------------ documents


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


# ---------------------------------------------------------------------------------------- the checks


def diagnose(function, documents, options):
    """{"documents", "batches", "keys_not_read", "padding_id", "items"} of one function; InputError when it fails.

    options: bos, eos, pad, added, convention, semantics (parse_arguments).
    """
    from research.batch_boundaries.checklist import check_all
    from research.batch_boundaries.read_batches import read_batches
    from research.batch_boundaries.trace_tokens import read_documents

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


def print_items(result):
    for item in result["items"]:
        print(f"{item['status']:11}  {item['item']}: {item['reason']}")
    if result["keys_not_read"]:
        print(f"not read: {', '.join(result['keys_not_read'])}")
    print(f"{len(result['items'])} items: " + ", ".join(f"{n} {s}" for s, n in count_statuses(result["items"]).items()))


def token_id(text):
    return None if text == "none" else int(text)


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="MODULE:FUNCTION")
    parser.add_argument("--pad-id", dest="pad", type=int, metavar="N", help="default: the one left-over id at row ends")
    parser.add_argument("--eos-id", dest="eos", type=token_id, default=2, metavar="N", help="default 2; none: no end")
    parser.add_argument("--bos-id", dest="bos", type=token_id, default=1, metavar="N", help="default 1; none: no start")
    parser.add_argument("--convention", choices=["auto", "internal", "external"], default="auto",
                        help="internal: your model shifts the labels; external: it does not (default: say which it is)")
    parser.add_argument("--semantics", choices=["independent", "continuous"], default="independent",
                        help="continuous: documents of a row may read each other, on purpose")
    parser.add_argument("--lengths", type=int, nargs="+", default=[4, 3, 7], metavar="N", help="default 4 3 7")
    parser.add_argument("--first-id", type=int, default=10, metavar="N", help="text ids count up from it (default 10)")
    parser.add_argument("--added", nargs="+", choices=["bos", "eos"], default=[], help="your function adds them itself")
    parser.add_argument("--pad-in-text", action="store_true", help="the padding's id is also a real token")
    parser.add_argument("--documents", type=Path, metavar="FILE", help="JSON list of lists of ids, not --lengths")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write documents, batches and items")
    return parser.parse_args(argv)


def main(argv=None):
    options = parse_arguments(argv)
    made = {name: getattr(options, name) for name in ("bos", "eos", "pad", "pad_in_text", "first_id")}
    documents = given_documents(options.documents) if options.documents else make_documents(options.lengths, **made)
    result = diagnose(load_function(options.function), documents, options)
    print_items(result)
    if options.json:
        stated = {name: getattr(options, name) for name in ("added", "bos", "convention", "eos", "pad", "semantics")}
        write_json(options.json, result | {"function": options.function, "options": stated})
        print(f"written: {options.json}")
    counts = count_statuses(result["items"])
    return 1 if counts["FAIL"] else 0 if counts["ok"] else 2


if __name__ == "__main__":
    sys.exit(run_script(main))
