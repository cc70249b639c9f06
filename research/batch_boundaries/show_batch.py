"""What does a model see of these documents when they are padded, and when they are packed into one row?

The script prints three views of the same documents, one line a position: the token, its document, its position id, its
label at its own position (a dot where it is ignored), and the positions that it may read.

    padded       One document a row, as wide as the longest document.
    independent  Packed. No document reads another, positions restart, and the next BOS is no target.
    continuous   Packed as one stream on purpose. A token may read everything before it, and the next BOS is a target.

    python research/batch_boundaries/show_batch.py                      # BOS x y EOS and BOS z EOS, as in the note
    python research/batch_boundaries/show_batch.py --text 'first text' 'second text' --width 24
    python research/batch_boundaries/show_batch.py --text 'first text' --tokenizer data/demo/tokenizer
    python research/batch_boundaries/show_batch.py --pad-is-eos         # padding has the id of EOS

Reads   nothing, or a tokenizer folder that prepare.py wrote; otherwise a token is a byte
Writes  nothing, or the views with --json FILE
Needs   NumPy and tabulate; tiktoken with --tokenizer
About   one second

The example is that of the note "From Training Chunks to a Batch".
"""

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tabulate import tabulate

from evidence import InputError, freeze_json, parser, run_script
from loaders.batches import IGNORED, PADDING
from research.batch_boundaries.layouts import (
    allowed,
    effective_targets,
    pack_documents,
    pad_documents,
    require_unshifted,
)

NOTE = ("xy", "z")
DRAWN = 64


# ------------------------------------------------------------------------------------- tokenizers


class Bytes:
    """A tokenizer that needs no files: each byte is a token, and a document lies between BOS and EOS."""

    bos, eos, pad = 256, 257, 258
    names = {bos: "BOS", eos: "EOS", pad: "PAD"}

    def encode(self, text):
        return np.array([self.bos, *text.encode(), self.eos], np.int64)

    def name(self, token):
        return self.names.get(token) or printable(bytes([token]))


class PreparedTokenizer:
    """The tokenizer of a prepared corpus: BOS precedes every document, nothing follows it, and BOS also pads."""

    def __init__(self, folder):
        from corpora.tokenizer import make_encoding, read_tokenizer

        ranks, settings = read_tokenizer(folder)
        self.encoding, self.eos = make_encoding(ranks, settings), None
        self.bos = self.pad = settings["bos"]

    def encode(self, text):
        return np.array([self.bos, *self.encoding.encode_ordinary(text)], np.int64)

    def name(self, token):
        return "BOS" if token == self.bos else printable(self.encoding.decode_single_token_bytes(token))


def printable(data):
    """Return the bytes of a token escaped as in a program, so that spaces and line ends are visible."""
    text = data.decode("utf-8", "backslashreplace").replace(" ", "␣")
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


# ------------------------------------------------------------------------------------------ views


class View(NamedTuple):
    """A batch of the documents and the rule by which its positions read each other."""

    batch: object
    independent: bool


def views(documents, width, pad):
    """Return {name: View} of the three layouts of the documents, which are int64 id arrays."""
    return {
        "padded": View(pad_documents(documents, pad=pad), True),
        "independent": View(pack_documents(documents, width, pad=pad), True),
        "continuous": View(pack_documents(documents, width, pad=pad, independent=False), False),
    }


def counts(view):
    """Return the exact counts of a view."""
    batch, segments = view.batch, view.batch.segment_ids
    begins = (segments[:, 1:] != segments[:, :-1]) & (segments[:, 1:] != PADDING)
    return {
        "cells": batch.inputs.size,
        "non_padding": int((segments != PADDING).sum()),
        "effective_targets": effective_targets(batch),
        "boundary_targets": int((begins & (batch.labels[:, 1:] != IGNORED)).sum()),
        "readable_pairs": int(allowed(batch, view.independent).sum()),
    }


def record(documents, pad):
    """Return the evidence on the documents: the arrays, readable pairs (one string a query) and counts of each view."""
    content = {"documents": [document.tolist() for document in documents], "pad": pad, "views": {}}
    for name, view in views(documents, sum(map(len, documents)), pad).items():
        arrays = {key: array.tolist() for key, array in view.batch._asdict().items()}
        reads = [["".join("1" if cell else "0" for cell in query) for query in row]
                 for row in allowed(view.batch, view.independent)]
        content["views"][name] = {**arrays, "reads": reads, "counts": counts(view)}
    return content


# ---------------------------------------------------------------------------------------- display


def letter(number):
    """Return A for 0 to Z for 25, then the number itself."""
    return chr(ord("A") + number) if number < 26 else str(number)


def drawn_reads(readable):
    """Return one sign for each position that a query may or may not read; for a long row, the first and last."""
    if len(readable) <= DRAWN:
        return "".join("■" if cell else "·" for cell in readable)
    found = np.flatnonzero(readable)
    return f"{found[0]}..{found[-1]}" if len(found) else "nothing"


def table(view, row, first_document, tokenizer):
    """Return the lines of one row of a view: at, id, token, document, position, label, reads."""
    batch, readable = view.batch, allowed(view.batch, view.independent)[row]
    lines = []
    for at, (token, label, position, segment) in enumerate(zip(*(array[row].tolist() for array in batch))):
        padding = segment == PADDING
        lines.append([at, token, "PAD" if padding else tokenizer.name(token),
                      "" if padding else letter(first_document + segment), position,
                      "." if label == IGNORED else tokenizer.name(label), drawn_reads(readable[at])])
    return lines


def print_view(name, view, tokenizer):
    document = 0
    for row in range(len(view.batch.inputs)):
        print(f"{name}, row {row}")
        print(tabulate(table(view, row, document, tokenizer), disable_numparse=True,
                       headers=["at", "id", "token", "document", "position", "label", "reads"]), end="\n\n")
        document += int(view.batch.segment_ids[row].max()) + 1


def print_counts(laid_out):
    """Print one line a view: the table shows that cells without padding are not the same as effective targets."""
    rows = []
    for name, view in laid_out.items():
        found = counts(view)
        share = f"{found['non_padding']}/{found['cells']} = {100 * found['non_padding'] / found['cells']:.1f} %"
        rows.append([name, share, found["effective_targets"], found["boundary_targets"], found["readable_pairs"]])
    print(tabulate(rows, ["view", "non-padding", "effective targets", "of them across documents", "readable pairs"]))


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--text", nargs="+", metavar="TEXT", help="one document each (default: the note's)")
    arguments.add_argument("--tokenizer", type=Path, metavar="DIR", help="a folder of prepare.py (default: bytes)")
    arguments.add_argument("--width", type=int, help="tokens of a packed row (default: one row for all documents)")
    arguments.add_argument("--pad-is-eos", action="store_true", help="give padding the id of EOS")
    arguments.add_argument("--json", type=Path, metavar="FILE",
                           help="write the views to FILE; if FILE exists, its content must be the same")
    options = arguments.parse_args(argv)
    tokenizer = PreparedTokenizer(options.tokenizer) if options.tokenizer else Bytes()
    if options.pad_is_eos and tokenizer.eos is None:
        raise InputError("--pad-is-eos: this tokenizer has no EOS; leave --tokenizer out")
    pad = tokenizer.eos if options.pad_is_eos else tokenizer.pad
    documents = [tokenizer.encode(text) for text in options.text or NOTE]
    width = sum(map(len, documents)) if options.width is None else options.width
    try:
        laid_out = views(documents, width, pad)
    except ValueError as error:
        raise InputError(f"--width {width}: {error}; a packed row must hold the longest document") from None
    for name, view in laid_out.items():
        require_unshifted(view.batch)
        print_view(name, view, tokenizer)
    print_counts(laid_out)
    if options.json:
        freeze_json(options.json, {**record(documents, pad), "inputs": []})
        print(f"\nwritten: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
