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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, run_script, write_json
from research.batch_boundaries.diagnosis import count_statuses, described, diagnose, given_documents, make_documents


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
