"""What do published collators really do with documents, in these versions?

The module has one adapter for diagnose.py for each collator and setting. The frozen record has what each collator
returned, so that it can be diagnosed again without the libraries; its statuses are those of the checklist at that time.

    python research/batch_boundaries/real_collators.py            # every setting, compared with collators.json
    python research/batch_boundaries/diagnose.py research/batch_boundaries/real_collators.py:flattening

Reads   nothing; the tokenizer is made in memory, and nothing is downloaded
Writes  nothing, or the documents, batches and items with --json FILE
Needs   the optional packages of requirements-extra.txt
About   20 seconds
"""

import importlib.metadata
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, first_difference, parser, read_json, require, run_script, write_json
from research.batch_boundaries.diagnosis import count_statuses, diagnose, make_documents
from research.batch_boundaries.verdicts import Declared

FROZEN = Path(__file__).resolve().parent / "collators.json"

PINNED = {"transformers": "4.57.1", "trl": "1.16.0"}
BOS, EOS, PAD, VOCABULARY = 1, 2, 0, 64
CAPACITY = 8


def features(documents):
    return [{"input_ids": ids, "attention_mask": [1] * len(ids)} for ids in documents]


# ------------------------------------------------------------------------------------ transformers


def tokenizer(pad):
    """Return a word-level tokenizer of VOCABULARY words, whose padding is the word of id `pad`."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {f"w{id}": id for id in range(VOCABULARY)}
    made = Tokenizer(models.WordLevel(words, unk_token="w3"))
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=f"w{BOS}", eos_token=f"w{EOS}", pad_token=f"w{pad}")


def language_modeling(documents, pad):
    from transformers import DataCollatorForLanguageModeling

    return DataCollatorForLanguageModeling(tokenizer(pad), mlm=False)(features(documents))


def language_modeling_pad_is_eos(documents):
    return language_modeling(documents, EOS)


def language_modeling_own_pad(documents):
    return language_modeling(documents, PAD)


def flattening(documents, **settings):
    from transformers import DataCollatorWithFlattening

    return DataCollatorWithFlattening(return_tensors="pt", **settings)([{"input_ids": ids} for ids in documents])


def flattening_numbered(documents):
    return flattening(documents, return_seq_idx=True)


def flattening_lengths(documents):
    return flattening(documents, return_flash_attn_kwargs=True)


def flattening_lengths_alone(documents):
    return flattening(documents, return_flash_attn_kwargs=True, return_position_ids=False)


# --------------------------------------------------------------------------------------------- trl


def trl_collated(examples, **settings):
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    return DataCollatorForLanguageModeling(pad_token_id=EOS, **settings)(examples)


def trl_packed(documents, strategy, **settings):
    """Pack a data set to rows of CAPACITY as TRL does, then collate it, as SFTTrainer joins the two."""
    import datasets
    from trl import pack_dataset

    datasets.disable_progress_bars()
    packed = pack_dataset(datasets.Dataset.from_dict({"input_ids": documents}), CAPACITY, strategy)
    return trl_collated(packed.to_list(), **settings)


def trl_padded(documents):
    return trl_collated([{"input_ids": ids} for ids in documents])


def trl_best_fit(documents):
    return trl_packed(documents, "bfd", padding_free=True)


def trl_best_fit_split(documents):
    return trl_packed(documents, "bfd_split", padding_free=True)


def trl_wrapped(documents):
    return trl_packed(documents, "wrapped")


# ------------------------------------------------------------------------------------- the record

LONG = [4, 3, 11]
CASES = [
    {"function": language_modeling_pad_is_eos, "library": "transformers", "pad": EOS},
    {"function": language_modeling_own_pad, "library": "transformers", "pad": PAD},
    {"function": language_modeling_own_pad, "library": "transformers", "pad": PAD, "pad_in_text": True},
    {"function": flattening, "library": "transformers"},
    {"function": flattening_numbered, "library": "transformers"},
    {"function": flattening_lengths, "library": "transformers"},
    {"function": flattening_lengths_alone, "library": "transformers"},
    {"function": trl_padded, "library": "trl", "pad": EOS},
    {"function": trl_best_fit, "library": "trl"},
    {"function": trl_best_fit, "library": "trl", "lengths": LONG},
    {"function": trl_best_fit_split, "library": "trl", "lengths": LONG},
    {"function": trl_wrapped, "library": "trl", "lengths": LONG, "pad": EOS, "semantics": "continuous"},
    {"function": trl_wrapped, "library": "trl", "lengths": LONG, "pad": EOS, "isolation": "batch"},
]


def run_case(function, library, pad=None, pad_in_text=False, lengths=(4, 3, 7), semantics="independent",
             isolation="auto"):
    """Return the record of one case: the documents, the batches, and what diagnose.py says about them."""
    documents = make_documents(list(lengths), bos=BOS, eos=EOS, pad=pad, pad_in_text=pad_in_text, first_id=10)
    stated = {"convention": "internal", "eos": EOS, "pad": pad, "semantics": semantics}
    result = diagnose(function, documents, Declared(**stated, bos=BOS, isolation=isolation), name=function.__name__)
    return result | {"function": function.__name__, "library": library, "options": stated}


def require_versions():
    """Return {library: version}; InputError unless the pinned libraries are installed."""
    for library, version in PINNED.items():
        try:
            found = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            raise InputError(f"{library} is not installed: pip install -r requirements-extra.txt") from None
        require(found == version, library, f"expected version {version}, found {found}")
    return dict(PINNED)


def summarise(case):
    """Return the line of one case: how many items have each status, and which FAIL."""
    failed = [item["item"] for item in case["items"] if item["status"] == "FAIL"]
    counts = ", ".join(f"{n} {status}" for status, n in count_statuses(case["items"]).items())
    lengths = "+".join(str(len(ids)) for ids in case["documents"])
    what = f"{case['function']} (padding {case['options']['pad']}, documents {lengths}, {case['options']['semantics']})"
    line = f"{case['library']:13}{what}: {counts}"
    return f"{line}; FAIL: {', '.join(failed)}" if failed else line


def what_was_returned(record):
    """Return the part of a record that does not depend on the checklist: documents, batches, options and versions."""
    keys = ("batches", "documents", "function", "keys_not_read", "library", "options", "padding_id")
    return {"versions": record["versions"], "cases": [{key: case[key] for key in keys} for case in record["cases"]]}


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--json", type=Path, metavar="FILE", help="write the record of all cases to FILE")
    options = arguments.parse_args(argv)
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    versions = require_versions()
    cases = [run_case(**case) for case in CASES]
    print("\n".join(map(summarise, cases)))
    record = {"cases": cases, "inputs": [], "versions": versions}
    if options.json:
        write_json(options.json, record)
        print(f"written: {options.json}")
    difference = first_difference(what_was_returned(read_json(FROZEN)), what_was_returned(record))
    checks = Checks()
    checks.expect(difference is None, difference or f"{len(cases)} cases return what {FROZEN.name} says")
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
