"""Which tokens of a long document are never trained on, and which twice, by the way the document is cut?

The script compares five ways of cutting a document into blocks of T tokens. For each token it counts how often the
token is an input and how often it is a scored target. The first token of a document is never a target, because nothing
comes before it.

    drop_rest         Blocks of T tokens. Tokens that do not fill the last block are dropped.
    pad_last          Blocks of T tokens. The last block is kept and padded.
    shared_boundary   Windows of T + 1 tokens: the first T are inputs, the last T are targets. Neighbours share a token.
    overlapping       Windows of T tokens, each STRIDE tokens after the one before. Every pair in a window is scored.
    overlapping_new   The same windows, but each scores only the targets that no earlier window scored.

    python research/batch_boundaries/chunk_documents.py                     # the note's ten tokens
    python research/batch_boundaries/chunk_documents.py --length 100 --block 16 --stride 8
    python research/batch_boundaries/chunk_documents.py --study demo        # every document; T is the study's context
    python research/batch_boundaries/chunk_documents.py --lengths lengths.npy --block 512

Reads   nothing; or protocols/NAME.json and data/NAME/train/lengths.npy; or a .npy file of lengths, BOS included
Writes  nothing, or the counts with --json FILE
Needs   NumPy
About   one second

The example is that of the note "From Training Chunks to a Batch".
"""

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tabulate import tabulate

from corpora.prepared import Prepared, read_counts
from evidence import InputError, freeze_json, parser, run_script

ROOT = Path(__file__).resolve().parents[2]

NOTE = {"length": 10, "block": 4, "stride": 2}


# --------------------------------------------------------------------------------- ways of cutting


class Windows(NamedTuple):
    """The windows of one document, int64 (windows,) each.

    The inputs of a window are the tokens first..inputs_end-1 and its targets are the tokens
    targets_first..targets_end-1. Token p is predicted from the tokens first..p-1.
    """

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
    """Return int64 (length,): how many of the slices first..end-1 contain each token."""
    return np.cumsum(np.bincount(first, minlength=length + 1) - np.bincount(end, minlength=length + 1))[:length]


def account(design, length, block, stride):
    """Return the counts of one document of `length` tokens as a flat dict; counts of documents can be added."""
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
    """Return the sum of the counts over a corpus given as {length: documents}."""
    sums = {}
    for length, documents in histogram.items():
        for key, count in account(design, length, block, stride).items():
            sums[key] = sums.get(key, 0) + count * documents
    return sums


def study(histogram, block, stride):
    """Return the evidence on a corpus: the totals of every design, and the lengths that they follow from."""
    return {
        "block": block,
        "stride": stride,
        "documents": sum(histogram.values()),
        "histogram": {str(length): documents for length, documents in histogram.items()},
        "designs": {design: total(design, histogram, block, stride) for design in DESIGNS},
    }


def one_document(length, block, stride):
    """Return the evidence on one document, which also says how often each token is an input and a target."""
    content = study({length: 1}, block, stride)
    for design, cut in DESIGNS.items():
        windows = cut(length, block, stride)
        content["designs"][design]["times_input"] = times(windows.first, windows.inputs_end, length).tolist()
        content["designs"][design]["times_target"] = times(windows.targets_first, windows.targets_end, length).tolist()
    return content


def lengths_histogram(lengths):
    """Return {length: documents} in rising order for int64 (documents,)."""
    values, documents = np.unique(lengths, return_counts=True)
    return dict(zip(values.tolist(), documents.tolist(), strict=True))


# ---------------------------------------------------------------------------------------- report


def percent(part, whole):
    return f"{100 * part / whole:.2f} %" if whole else "none"


def print_tokens(content):
    """Print how often each token of one document is an input and a target."""
    rows = [[design.replace("_", " "), kind, *counts[f"times_{kind}"]]
            for design, counts in content["designs"].items() for kind in ("input", "target")]
    headers = ["cut", "times a", *range(len(rows[0]) - 2)]
    print(tabulate(rows, headers, tablefmt="simple"), end="\n\n")


def print_totals(content):
    """Print the finding as a sentence, then the totals of every design as a table."""
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
    arguments = parser(__doc__)
    source = arguments.add_mutually_exclusive_group()
    source.add_argument("--length", type=int, help=f"tokens of one document (default: {NOTE['length']})")
    source.add_argument("--study", metavar="NAME", help="count every training document of a prepared study")
    source.add_argument("--lengths", type=Path, metavar="FILE.npy", help="count documents of these lengths")
    arguments.add_argument("--block", type=int, metavar="T", help="tokens of a block (default: a study's, or 4)")
    arguments.add_argument("--stride", type=int, help="tokens between overlapping windows (default: half of T)")
    arguments.add_argument("--data", type=Path, default=ROOT / "data", help="folder of the prepared studies")
    arguments.add_argument("--json", type=Path, metavar="FILE",
                           help="write the counts to FILE; if FILE exists, its content must be the same")
    return arguments.parse_args(argv)


def read_source(options):
    """Return (name of the source, {length: documents}, default block, inputs) for the command line."""
    if options.study:
        prepared = Prepared(ROOT, options.study, options.data)
        histogram = lengths_histogram(prepared.lengths("train"))
        return prepared.study, histogram, prepared.capacity - 1, prepared.inputs(["train/lengths.npy"])
    if options.lengths:
        return options.lengths.name, lengths_histogram(read_counts(options.lengths)), NOTE["block"], []
    length = NOTE["length"] if options.length is None else options.length
    return "note", {length: 1}, NOTE["block"], []


def main(argv=None):
    options = parse(argv)
    name, histogram, block, inputs = read_source(options)
    block = block if options.block is None else options.block
    stride = max(block // 2, 1) if options.stride is None else options.stride
    if block < 2 or not 0 < stride < block or min(histogram) < 1:
        raise InputError(f"--block {block} --stride {stride}: expected a block of at least 2, a stride in "
                         f"1..{block - 1}, and lengths above 0")
    if options.study or options.lengths:
        content = study(histogram, block, stride)
    else:
        content = one_document(*histogram, block, stride)
        print_tokens(content)
    print_totals(content)
    if options.json:
        freeze_json(options.json, {**content, "inputs": inputs, "source": name})
        print(f"\nwritten: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
