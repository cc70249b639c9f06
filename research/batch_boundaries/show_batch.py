"""What does a model see of these documents when they are padded, and when they are packed into one row?

Three views of the same documents, a line a position: the token, the document it belongs to, its position id, its label
(stored at the input's own position; a dot where it is ignored), and which positions it may read.

    padded       one document a row, as wide as the longest
    independent  packed; no document reads another, positions restart, no document's last token predicts the next BOS
    continuous   packed; one stream on purpose: everything before may be read, and the next BOS is a target

    show_batch.py                                        the note's documents: BOS x y EOS and BOS z EOS
    show_batch.py --text 'first text' 'second text' --width 24
    show_batch.py --text 'first text' 'second text' --tokenizer data/demo/tokenizer
    show_batch.py --pad-is-eos                           padding has EOS's id; the real EOS stays a target

Reads   nothing, or the tokenizer folder that prepare.py wrote; without one, a token is a byte between BOS and EOS
Writes  batch_note.json beside this file, once, for the note's documents; nothing for texts of your own
Needs   NumPy, tabulate; tiktoken with --tokenizer
About   a second

Source: the note "From Training Chunks to a Batch", section on padding and packing.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tabulate import tabulate

from evidence import InputError, freeze_json, run_script
from loaders.batches import IGNORED, PADDING
from research.batch_boundaries.layouts import (
    allowed,
    effective_targets,
    pack_documents,
    pad_documents,
    require_unshifted,
)

HERE = Path(__file__).resolve().parent

NOTE = ("xy", "z")
DRAWN = 64


# ------------------------------------------------------------------------------------- tokenizers


class Bytes:
    """A tokenizer for a fresh clone: a token is a byte, between BOS and EOS."""

    bos, eos, pad = 256, 257, 258
    names = {bos: "BOS", eos: "EOS", pad: "PAD"}

    def encode(self, text):
        return np.array([self.bos, *text.encode(), self.eos], np.int64)

    def name(self, token):
        return self.names.get(token) or printable(bytes([token]))


class Prepared:
    """The tokenizer of a prepared corpus: BOS before every document and nothing after it; BOS also pads."""

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
    """Bytes of a token as they would stand in a program, so that spaces and line ends are seen."""
    text = data.decode("utf-8", "backslashreplace").replace(" ", "␣")
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


# ------------------------------------------------------------------------------------------ views


class View(NamedTuple):
    """A batch of the documents and the rule by which its positions read each other."""

    batch: object
    independent: bool


def views(documents, width, pad):
    """{name: View} of the three ways to lay out the documents, int64 ids each."""
    return {
        "padded": View(pad_documents(documents, pad=pad), True),
        "independent": View(pack_documents(documents, width, pad=pad), True),
        "continuous": View(pack_documents(documents, width, pad=pad, independent=False), False),
    }


def counts(view):
    """The account of a view, exact integers."""
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
    """Evidence on the documents: every array of every view, its readable pairs as one string a query, its account."""
    content = {"documents": [document.tolist() for document in documents], "pad": pad, "views": {}}
    for name, view in views(documents, sum(map(len, documents)), pad).items():
        arrays = {key: array.tolist() for key, array in view.batch._asdict().items()}
        reads = [["".join("01"[cell] for cell in query) for query in row]
                 for row in allowed(view.batch, view.independent).astype(int).tolist()]
        content["views"][name] = {**arrays, "reads": reads, "counts": counts(view)}
    return content


# ---------------------------------------------------------------------------------------- display


def letter(number):
    """A, B, ..., Z, then the number itself."""
    return chr(ord("A") + number) if number < 26 else str(number)


def drawn_reads(readable):
    """The positions a query may read, a sign each; of a long row, the first and last of them."""
    if len(readable) <= DRAWN:
        return "".join("■" if cell else "·" for cell in readable)
    found = np.flatnonzero(readable)
    return f"{found[0]}..{found[-1]}" if len(found) else "nothing"


def table(view, row, first_document, tokenizer):
    """The lines of one row of a view: at, id, token, document, position, label, reads."""
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
    """A line a view; non-padding cells are not effective targets, which is what the table is for."""
    rows = []
    for name, view in laid_out.items():
        found = counts(view)
        share = f"{found['non_padding']}/{found['cells']} = {100 * found['non_padding'] / found['cells']:.1f} %"
        rows.append([name, share, found["effective_targets"], found["boundary_targets"], found["readable_pairs"]])
    print(tabulate(rows, ["view", "non-padding", "effective targets", "of them across documents", "readable pairs"]))


def main(argv=None):
    """Print the views; freeze those of the note's documents; 0, or 2 when a document does not fit a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", metavar="TEXT", help="one document each (default: the note's)")
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", help="as prepare.py writes it (default: bytes)")
    parser.add_argument("--width", type=int, help="tokens of a packed row (default: all documents in one)")
    parser.add_argument("--pad-is-eos", action="store_true", help="give padding the id of EOS")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the frozen file")
    options = parser.parse_args(argv)
    tokenizer = Prepared(options.tokenizer) if options.tokenizer else Bytes()
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
    if not (options.text or options.tokenizer or options.width or options.pad_is_eos):
        path = options.output / "batch_note.json"
        freeze_json(path, {**record(documents, pad), "inputs": []})
        print(f"\n{path}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
