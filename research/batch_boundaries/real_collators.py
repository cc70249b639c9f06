"""What do published collators really do with documents, in these versions?

Adapters for diagnose.py, one a collator and setting, and the diagnosis of each, frozen with the batches themselves, so
that the items can be derived again without the libraries.

    real_collators.py                             every setting: a line each, compared with collators.json
    diagnose.py real_collators.py:flattening      one of them in full

Reads   nothing; the tokenizer is made in memory, nothing is downloaded
Writes  research/batch_boundaries/collators.json, once: other content is refused
Needs   the optional extras: pip install -r requirements-extra.txt
About   20 seconds
"""

import argparse
import importlib.metadata
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, freeze_json, run_script
from research.batch_boundaries.diagnosis import count_statuses, diagnose, make_documents

HERE = Path(__file__).resolve().parent

PINNED = {"transformers": "4.57.1", "trl": "1.16.0"}
BOS, EOS, PAD, VOCABULARY = 1, 2, 0, 64
CAPACITY = 8


def features(documents):
    return [{"input_ids": ids, "attention_mask": [1] * len(ids)} for ids in documents]


# ------------------------------------------------------------------------------------ transformers


def tokenizer(pad):
    """A word-level tokenizer of VOCABULARY words, whose padding is the word of id `pad`."""
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
    """TRL's packing of a data set to rows of CAPACITY, then its collator, as SFTTrainer joins the two."""
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
    {"function": trl_wrapped, "library": "trl", "lengths": LONG, "pad": EOS},
]


def run_case(function, library, pad=None, pad_in_text=False, lengths=(4, 3, 7), semantics="independent"):
    """The record of one case: what was handed over, what came back, and what diagnose.py says to it."""
    documents = make_documents(list(lengths), bos=BOS, eos=EOS, pad=pad, pad_in_text=pad_in_text, first_id=10)
    options = argparse.Namespace(function=function.__name__, bos=BOS, eos=EOS, pad=pad, added=[],
                                 convention="internal", semantics=semantics)
    stated = {"convention": "internal", "eos": EOS, "pad": pad, "semantics": semantics}
    return diagnose(function, documents, options) | {"function": function.__name__, "library": library,
                                                     "options": stated}


def require_versions():
    """InputError unless the pinned libraries are there; {library: version}."""
    for library, version in PINNED.items():
        try:
            found = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            raise InputError(f"{library} is not installed: pip install -r requirements-extra.txt") from None
        if found != version:
            raise InputError(f"{library}: expected version {version}, found {found}")
    return dict(PINNED)


def summarise(case):
    """The line of one case: where it fails, or what cannot be told."""
    failed = [item["item"] for item in case["items"] if item["status"] == "FAIL"]
    counts = ", ".join(f"{n} {status}" for status, n in count_statuses(case["items"]).items())
    lengths = "+".join(str(len(ids)) for ids in case["documents"])
    what = f"{case['function']} (padding {case['options']['pad']}, documents {lengths}, {case['options']['semantics']})"
    return f"{case['library']:13}{what}: {counts}" + (f"; FAIL: {', '.join(failed)}" if failed else "")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE / "collators.json", metavar="FILE")
    options = parser.parse_args(argv)
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    versions = require_versions()
    cases = [run_case(**case) for case in CASES]
    print("\n".join(map(summarise, cases)))
    freeze_json(options.output, {"cases": cases, "inputs": [], "versions": versions})
    print(f"{len(cases)} cases, as frozen: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
