"""Where an audited stream comes from: a prepared study, or a user's own lengths, parquet files, JSON lines or texts."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import surroundings
from corpora.prepared import read_counts
from evidence import InputError, require, sha256_file
from loaders.accounting import positive_integers
from research.source_exclusion.audit_texts import parquet_names, parquet_source, text_source, tokenizer_folder
from research.source_exclusion.streams import AuditedStream, make_packing, whole_stream

ROOT = Path(__file__).resolve().parents[2]


class Source(NamedTuple):
    """A stream of the user's own and what it was read from.

    files: [row groups of each file]; units: int64 (row groups,), documents in each; paths: the files read;
    name_of: the function document -> its file and place, or an empty text.
    """

    stream: AuditedStream
    files: list
    units: np.ndarray
    paths: list
    name_of: Callable


# ------------------------------------------------------------------------------------------ arguments


def positive(text):
    """Return an argument that must be an integer of at least 1, and of 62 bits, so that sums over ranks stay of 64."""
    if not text.isdecimal() or not 1 <= int(text) < 1 << 62:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1 and below 2**62, found {text!r}")
    return int(text)


def ascending(text):
    """Return length boundaries A,B,...: positive integers in ascending order."""
    edges = [positive(part) for part in text.split(",")]
    if edges != sorted(set(edges)):
        raise argparse.ArgumentTypeError(f"expected ascending boundaries, found {text!r}")
    return edges


def inputs_of(paths, root=ROOT):
    """Return the `inputs` of an evidence file; a path outside the repository is named as the user gave it."""
    named = {}
    for path in map(Path, paths):
        inside = path.resolve().is_relative_to(root)
        named[path.resolve().relative_to(root).as_posix() if inside else str(path)] = sha256_file(path)
    return [{"path": name, "sha256": digest} for name, digest in sorted(named.items())]


# ------------------------------------------------------------------------------------ a prepared study


def study_stream(prepared, split):
    """Return the AuditedStream of one split of a Prepared study."""
    return whole_stream(prepared.lengths(split), prepared.refill(split))


def study_packing(prepared, loader, capacity=None):
    """Return the Packing of a Prepared study's loader, for rows of its own capacity unless another is given."""
    packing = prepared.protocol["packing"]
    return make_packing(loader, capacity or prepared.capacity, packing["buffer_size"], packing["span_seed"])


def study_names(prepared, split):
    """Return the function document -> name in a Prepared study: shard and row, and the name that the shard gives it."""
    from corpora.shards import open_parquet

    return parquet_names([(path, open_parquet(path, prepared.text_column).metadata.num_rows)
                          for path in prepared.shards(split)])


# ------------------------------------------------------------------------------------ a user's own data


def read_lengths(path):
    """Return int64 (documents,) of a .npy file, or of a text file with one length a line."""
    path = Path(path)
    if path.suffix == ".npy":
        return read_counts(path)
    try:
        words = path.read_text(encoding="utf-8").split()
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected a .npy file or a text file with one length a line") from None
    wrong = next((number for number, word in enumerate(words, 1) if not word.isdecimal()), None)
    if wrong is not None:
        raise InputError(f"{path}: length {wrong}: expected a positive integer, found {words[wrong - 1]!r}")
    try:
        return positive_integers("lengths", np.array(words, dtype=np.uint64))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: {error}") from None


def read_batches(groups, refill):
    """Return (int64 (batches,), paths read): `refill` is a number of documents or a .npy file of batch sizes."""
    from corpora.tokens import refill_batches

    if refill.isdecimal() and int(refill):
        return refill_batches(groups, int(refill)), []
    return read_counts(refill), [refill]


def read_user_stream(args):
    """Return the Source that a user's arguments name, and say on stderr how much was read."""
    files, names = None, lambda document: ""
    if args.lengths:
        lengths, paths = read_lengths(args.lengths), [args.lengths]
    elif args.parquet:
        tokenizer = tokenizer_folder(args.tokenizer)
        lengths, files, paths, names = parquet_source(args.parquet, args.text_column, tokenizer, args.workers)
    else:
        tokenizer = tokenizer_folder(args.tokenizer)
        lengths, paths, names = text_source(args.jsonl, args.text_column, tokenizer, args.workers)
    read = len(paths)
    if args.row_groups:
        files, paths = [read_counts(args.row_groups).tolist()], [*paths, args.row_groups]
    groups = [group for file in files or [[len(lengths)]] for group in file]
    refill, more = read_batches(groups, args.refill)
    print(f"{read:,} files with {len(lengths):,} documents read", file=sys.stderr, flush=True)
    units = np.array(groups) if files else refill
    return Source(whole_stream(lengths, refill), list(map(len, files)) if files else [len(refill)], units,
                  [*paths, *more], names)


# ------------------------------------------------------------------------------------------- memory

DOCUMENT_BYTES, SEGMENT_BYTES = 40, 20  # of memory while a stream is audited; measured by tests/test_audit_stream.py


def require_memory(args, stream, packing):
    """Raise InputError naming the option when the horizon would take more memory than this process may use.

    It counts as many segments as if all documents were emitted equally often, and at most one row of them each time.
    """
    tokens = {"passes": int(stream.lengths.sum()), "rows": packing.capacity, "targets": 1}
    option, count = next((name, vars(args)[name]) for name in tokens if vars(args)[name])
    served = int(np.minimum(stream.lengths, packing.capacity).sum())
    segments = count * tokens[option] * len(stream.lengths) // served
    needed, memory = segments * SEGMENT_BYTES + DOCUMENT_BYTES * len(stream.lengths), surroundings.memory()
    require(needed <= memory.value, f"--{option} {count}", f"about {segments:,} segments of {len(stream.lengths):,} "
            f"documents, {needed / 2**30:,.1f} GiB of memory; {memory.reason} is {memory.value / 2**30:,.1f} GiB. Ask "
            "for less")
