"""Which tokens of a document longer than a block are never trained on, and which twice, by the way it is cut?

Five ways side by side. Of every token: how many times it was an input and how many times a scored target. The first
token of a document has nothing before it and is no target under any of them.

    drop_rest         blocks of T tokens; what does not fill the last block is dropped
    pad_last          blocks of T tokens; the last is kept and padded
    shared_boundary   T + 1 tokens a window: the first T are inputs, the last T targets; windows share one token
    overlapping       windows of T tokens, each STRIDE after the one before; every pair inside a window is scored
    overlapping_new   the same windows, but only targets that no earlier window scored

    chunk_documents.py                                     the note's document: ten tokens, blocks of four
    chunk_documents.py --length 100 --block 16 --stride 8
    chunk_documents.py --study demo                        every document of a prepared study, T = its context
    chunk_documents.py --lengths lengths.npy --block 512

Reads   nothing; or protocols/NAME.json and data/NAME/train/lengths.npy; or the lengths named (tokens, BOS included)
Writes  chunking_note.json or chunking_NAME.json beside this file, once; nothing for lengths of your own
Needs   NumPy
About   a second

Source: the note "From Training Chunks to a Batch", section on position ids, chunk boundaries and shared ids.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tabulate import tabulate

from evidence import InputError, freeze_json, run_script
from research.batch_boundaries.study_lengths import read_counts, read_protocol, study_counts

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

NOTE = {"length": 10, "block": 4, "stride": 2}


# --------------------------------------------------------------------------------- ways of cutting


class Windows(NamedTuple):
    """Windows of one document, int64 (windows,) each: inputs are tokens first..inputs_end-1, targets
    targets_first..targets_end-1; token p is predicted from the tokens first..p-1."""

    first: np.ndarray
    inputs_end: np.ndarray
    targets_first: np.ndarray
    targets_end: np.ndarray


def drop_rest(length, block, stride):
    first = np.arange(length // block) * block
    return Windows(first, first + block, first + 1, first + block)


def pad_last(length, block, stride):
    first = np.arange(0, length, block)
    end = np.minimum(first + block, length)
    return Windows(first, end, first + 1, end)


def shared_boundary(length, block, stride):
    first = np.arange(0, length - 1, block)
    end = np.minimum(first + block + 1, length)
    return Windows(first, end - 1, first + 1, end)


def overlapping(length, block, stride):
    first = np.arange(0, max(length - block, 0) + stride, stride)
    end = np.minimum(first + block, length)
    return Windows(first, end, first + 1, end)


def overlapping_new(length, block, stride):
    windows = overlapping(length, block, stride)
    return windows._replace(targets_first=np.concatenate([[1], windows.targets_end[:-1]]))


DESIGNS = {cut.__name__: cut for cut in (drop_rest, pad_last, shared_boundary, overlapping, overlapping_new)}


# -------------------------------------------------------------------------------------- accounts


def times(first, end, length):
    """int64 (length,): how many of the slices first..end-1 hold each token."""
    return np.cumsum(np.bincount(first, minlength=length + 1) - np.bincount(end, minlength=length + 1))[:length]


def account(design, length, block, stride):
    """The account of one document of `length` tokens: a flat dict of counts that add up over documents."""
    windows = DESIGNS[design](length, block, stride)
    inputs = times(windows.first, windows.inputs_end, length)
    scored = times(windows.targets_first, windows.targets_end, length)
    positions = len(windows.first) * block
    return {
        "windows": len(windows.first),
        "positions": positions,
        "padding": positions - int(inputs.sum()),
        "tokens": length,
        "tokens_never_input": int((inputs == 0).sum()),
        "tokens_input_more_than_once": int((inputs > 1).sum()),
        "targets": length - 1,
        "targets_never_scored": int((scored[1:] == 0).sum()),
        "targets_scored_once": int((scored[1:] == 1).sum()),
        "targets_scored_more_than_once": int((scored[1:] > 1).sum()),
        "scorings": int(scored.sum()),
        "targets_with_whole_prefix": int(windows.targets_end[0]) - 1 if positions else 0,
        "documents_with_last_token_never_scored": int(length > 1 and scored[-1] == 0),
    }


def total(design, histogram, block, stride):
    """The account of a corpus given as {length: documents}."""
    sums = {}
    for length, documents in histogram.items():
        for key, count in account(design, length, block, stride).items():
            sums[key] = sums.get(key, 0) + count * documents
    return sums


def study(histogram, block, stride):
    """Evidence on a corpus: totals of every design, and the lengths they follow from."""
    return {
        "block": block,
        "stride": stride,
        "documents": sum(histogram.values()),
        "histogram": {str(length): documents for length, documents in histogram.items()},
        "designs": {design: total(design, histogram, block, stride) for design in DESIGNS},
    }


def one_document(length, block, stride):
    """Evidence on one document: totals of every design and, per token, times an input and times a target."""
    content = study({length: 1}, block, stride)
    for design, cut in DESIGNS.items():
        windows = cut(length, block, stride)
        content["designs"][design]["times_input"] = times(windows.first, windows.inputs_end, length).tolist()
        content["designs"][design]["times_target"] = times(windows.targets_first, windows.targets_end, length).tolist()
    return content


def lengths_histogram(lengths):
    """{length: documents} in rising order, of int64 (documents,)."""
    return dict(zip(*(column.tolist() for column in np.unique(lengths, return_counts=True))))


# ---------------------------------------------------------------------------------------- report


def percent(part, whole):
    return f"{100 * part / whole:.2f} %" if whole else "none"


def print_tokens(content):
    """The per-token table of one document."""
    rows = [[design.replace("_", " "), kind, *counts[f"times_{kind}"]]
            for design, counts in content["designs"].items() for kind in ("input", "target")]
    headers = ["cut", "times a", *range(len(rows[0]) - 2)]
    print(tabulate(rows, headers, tablefmt="simple"), end="\n\n")


def print_totals(content):
    """The finding in a sentence, then the totals of every design as a table."""
    drop, share = content["designs"]["drop_rest"], content["designs"]["shared_boundary"]
    print(f"Dropping the rest leaves {drop['targets_never_scored']:,} of {drop['targets']:,} targets never scored "
          f"({percent(drop['targets_never_scored'], drop['targets'])}); windows that share a boundary token leave "
          f"{share['targets_never_scored']:,}, and {share['targets_with_whole_prefix']:,} see their whole prefix.\n")
    shown = {"windows": "windows", "padding": "padding", "tokens_never_input": "never input",
             "targets_never_scored": "never scored", "targets_scored_once": "scored once",
             "targets_scored_more_than_once": "more than once", "scorings": "scorings",
             "targets_with_whole_prefix": "whole prefix", "documents_with_last_token_never_scored": "last unscored"}
    rows = [[design.replace("_", " "), *(f"{counts[key]:,}" for key in shown)]
            for design, counts in content["designs"].items()]
    print(tabulate(rows, ["cut", *shown.values()], stralign="right", disable_numparse=True))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--length", type=int, help=f"tokens of one document (default {NOTE['length']})")
    source.add_argument("--study", metavar="NAME")
    source.add_argument("--lengths", type=Path, metavar="FILE.npy")
    parser.add_argument("--block", type=int, metavar="T", help="tokens a window (a study's context, else 4)")
    parser.add_argument("--stride", type=int, help="between overlapping windows (default half of T)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where prepared studies lie")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the frozen file")
    return parser.parse_args(argv)


def read_source(options):
    """(name of the evidence or None, {length: documents}, default block, inputs) of the command line."""
    if options.study:
        block = read_protocol(options.study)["packing"]["context"]
        (lengths,), inputs = study_counts(options.study, options.data, "lengths")
        return options.study, lengths_histogram(lengths), block, inputs
    if options.lengths:
        return None, lengths_histogram(read_counts(options.lengths, "lengths")), NOTE["block"], []
    asked = (options.length, options.block, options.stride) != (None, None, None)
    length = NOTE["length"] if options.length is None else options.length
    return None if asked else "note", {length: 1}, NOTE["block"], []


def main(argv=None):
    """Print the accounts and freeze those of the note and of a study; 0, or 2 when they cannot be made."""
    options = parse(argv)
    name, histogram, block, inputs = read_source(options)
    block = block if options.block is None else options.block
    stride = max(block // 2, 1) if options.stride is None else options.stride
    if block < 2 or not 0 < stride < block or min(histogram) < 1:
        raise InputError(f"--block {block} --stride {stride}: a block of 2 or more and a stride in 1..{block - 1} are "
                         "wanted, and lengths above 0")
    if options.study or options.lengths:
        content = study(histogram, block, stride)
    else:
        content = one_document(*histogram, block, stride)
        print_tokens(content)
    print_totals(content)
    if name:
        path = options.output / f"chunking_{name}.json"
        freeze_json(path, {**content, "inputs": inputs, "source": name})
        print(f"\n{path}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
