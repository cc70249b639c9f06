"""Does your collator or data loader build the batch that you think it builds?

The script hands documents to FUNCTION and reads the batch that comes back: padding, labels, shift, boundaries,
positions, attention, and the uses of every token. Each item of the checklist is ok, FAIL, cannot tell or not applied,
with its counts. "Cannot tell" names the option that would decide.

    python research/batch_boundaries/diagnose.py MODULE:FUNCTION [--pad-id N] [--eos-id N|none] [--bos-id N|none]
        [--convention internal|external] [--semantics independent|continuous] [--isolation batch|model]
        [--ignore-id N ...] [--prompt-tokens N ...] [--read-as KEY=KIND ...] [--lengths N ...] [--json FILE]

MODULE is importable or the path of a .py file. FUNCTION(documents) takes lists of token ids and returns one batch or
several: a mapping, a named tuple, a pair (inputs, targets) or a pair (mapping, labels). A collator takes three lines:

    def collate(documents):
        return my_collator([{"input_ids": ids} for ids in documents])

The script knows the key names of the common libraries (key_names.py) and names the keys that it does not read. Say what
a key of your own means by --read-as KEY=KIND, with one of the kinds inputs, labels, loss, mask, positions, segments,
segments_from_1, lengths, cumulative, longest and nothing. Pass --pad-id if the padding's id is in your own --documents.

Reads   your module; with --documents a JSON list of documents, each with an id that occurs nowhere else
Writes  nothing; with --json the documents, the batches and every item
Needs   NumPy, and what your module needs
About   a second, and what your module takes

Exit 0: no item FAILs. 1: one does. 2: nothing could be checked, or the function could not be run.
"""

import importlib
import importlib.util
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, parser, require, run_script, write_json
from research.batch_boundaries.diagnosis import (
    count_statuses,
    described,
    diagnose,
    given_documents,
    make_documents,
    targets_after,
)
from research.batch_boundaries.key_names import KEYS
from research.batch_boundaries.verdicts import Declared


def load_function(name):
    """Return the callable of MODULE:FUNCTION; InputError says what is missing or how the module failed."""
    module_name, colon, attribute = name.rpartition(":")
    require(colon and module_name and attribute, name,
            "expected MODULE:FUNCTION, the module importable or the path of a .py file")
    module = load_module(module_name)
    function = getattr(module, attribute, None)
    if not callable(function):
        there = sorted(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise InputError(f"{module_name}: no function {attribute}; it has {', '.join(there) or 'none'}")
    return function


def load_module(name):
    """Return the module of a name or of the path of a .py file, which may import its neighbours."""
    path = Path(name)
    is_file = path.suffix == ".py"
    require(path.is_file() or not is_file, name, "no such file")
    before = list(sys.path)
    sys.path[:] = [str(path.resolve().parent if is_file else Path.cwd()), *before]
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
        sys.path[:] = before


def print_items(result):
    for item in result["items"]:
        print(f"{item['status']:11}  {item['item']}: {item['reason']}")
    for note in result["notes"]:
        print(f"note: {note}")
    if result["keys_not_read"]:
        print(f"not read: {', '.join(result['keys_not_read'])}")
    print(f"{len(result['items'])} items: " + ", ".join(f"{n} {s}" for s, n in count_statuses(result["items"]).items()))


def token_id(text):
    return None if text == "none" else int(text)


def key_and_kind(text):
    key, _, kind = text.partition("=")
    if kind not in KEYS:
        raise ValueError(text)
    return key, kind


def parse_arguments(argv):
    arguments = parser(__doc__)
    add = arguments.add_argument
    add("function", metavar="MODULE:FUNCTION")
    add("--pad-id", dest="pad", type=int, metavar="N", help="default: the one left-over id at the ends of rows")
    add("--eos-id", dest="eos", type=token_id, default=2, metavar="N", help="default: 2; none: documents have no end")
    add("--bos-id", dest="bos", type=token_id, default=1, metavar="N", help="default: 1; none: documents have no start")
    add("--ignore-id", dest="ignore", type=int, nargs="+", metavar="N",
        help="label ids that do not count in the loss (default: every negative id)")
    add("--convention", choices=["auto", "internal", "external"], default="auto",
        help="internal: your model shifts the labels; external: it does not (default: the output says which it must)")
    add("--semantics", choices=["independent", "continuous"], default="independent",
        help="continuous: a row is one stream, and documents may read each other (default: independent)")
    add("--isolation", choices=["auto", "batch", "model"], default="auto",
        help="batch: your model knows documents only by masks, numbers or lengths in the batch; model: it finds them "
             "itself, by restarting positions or by EOS")
    add("--position-ids", choices=["absolute", "relative"], default="absolute",
        help="relative: your model uses only differences of positions, so they may run on (default: absolute)")
    add("--prompt-tokens", type=int, nargs="+", metavar="N",
        help="tokens at the beginning of each document that are meant to be no targets, one number or one a document")
    add("--read-as", type=key_and_kind, nargs="+", default=[], metavar="KEY=KIND", help="what a key of your own means")
    add("--lengths", type=int, nargs="+", default=[4, 3, 7], metavar="N", help="default: 4 3 7")
    add("--first-id", type=int, default=10, metavar="N", help="text ids count up from it (default: 10)")
    add("--added", nargs="+", choices=["bos", "eos"], default=[], help="specials that your function adds itself")
    add("--pad-in-text", action="store_true", help="the padding's id is also a real token")
    add("--documents", type=Path, metavar="FILE",
        help='documents in JSON instead of --lengths: lists of ids, or {"ids": [...], "targets": [0 or 1, ...]}')
    add("--json", type=Path, metavar="FILE", help="write documents, batches and items")
    return arguments.parse_args(argv)


def declared_by(options):
    """Return the Declared of parsed options."""
    stated = {name: getattr(options, name) for name in Declared.__dataclass_fields__}
    return Declared(**stated | {"read_as": dict(options.read_as), "added": tuple(options.added)})


def main(argv=None):
    options = parse_arguments(argv)
    targets = None
    if options.documents:
        documents, targets = given_documents(options.documents)
    else:
        made = {name: getattr(options, name) for name in ("bos", "eos", "pad", "pad_in_text", "first_id")}
        documents = make_documents(options.lengths, **made)
    if options.prompt_tokens:
        targets = targets_after(options.prompt_tokens, documents)
    declared = declared_by(options)
    result = diagnose(load_function(options.function), documents, declared, targets, options.function)
    print_items(result)
    if options.json:
        write_json(options.json, result | {"function": options.function, "options": asdict(declared)})
        print(f"written: {options.json}")
    counts = count_statuses(result["items"])
    if counts["FAIL"]:
        return 1
    return 0 if counts["ok"] else 2


if __name__ == "__main__":
    sys.exit(run_script(main))
