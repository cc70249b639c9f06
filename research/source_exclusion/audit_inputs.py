"""Where an audited stream comes from: a prepared study, or a user's own lengths, parquet files or JSON lines."""

import argparse
import contextlib
import glob
import os
import sys
from pathlib import Path

import numpy as np

from corpora.prepared import prepared_file, require_prepared
from evidence import InputError, sha256_bytes, sha256_file
from loaders.accounting import positive_integers
from protocols.schema import find_protocol
from research.source_exclusion.streams import make_packing, whole_stream

ROOT = Path(__file__).resolve().parents[2]
SEGMENT_BYTES = 100  # of memory while it is planned and audited: 100 to 280 were measured


def positive(text):
    """An argument that must be an integer of at least 1, and of 62 bits, so that sums over ranks stay of 64."""
    if not text.isdecimal() or not 1 <= int(text) < 1 << 62:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1 and below 2**62, found {text!r}")
    return int(text)


def ascending(text):
    """Length boundaries A,B,...: positive integers in ascending order."""
    edges = [positive(part) for part in text.split(",")]
    if edges != sorted(set(edges)):
        raise argparse.ArgumentTypeError(f"expected ascending boundaries, found {text!r}")
    return edges


def read_counts(path, what):
    """int64 (n,) of a .npy of positive integers; InputError naming the file and the first entry that is not one."""
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a .npy file of plain numbers: {error}") from None
    try:
        return positive_integers(what, values)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def inputs_of(paths, root=ROOT):
    """The `inputs` of an evidence file; a path outside the repository is named as the user gave it."""
    named = {}
    for path in map(Path, paths):
        inside = path.resolve().is_relative_to(root)
        named[path.resolve().relative_to(root).as_posix() if inside else str(path)] = sha256_file(path)
    return [{"path": name, "sha256": digest} for name, digest in sorted(named.items())]


def study_inputs(protocol_path, directory, names):
    """The `inputs` of a study's evidence, named as in the repository wherever the prepared data lie."""
    named = {f"protocols/{protocol_path.name}": protocol_path,
             **{f"data/{directory.name}/{name}": directory / name for name in names}}
    return [{"path": name, "sha256": sha256_file(path)} for name, path in sorted(named.items())]


def read_study(name, data):
    """(protocol, data directory, path of the protocol) of a study in protocols/, or of the path of a protocol."""
    protocol, path = find_protocol(name, ROOT / "protocols")
    directory = data / protocol["study"]
    require_prepared(directory / "prepared.json", protocol["study"])
    return protocol, directory, path


def study_packing(protocol, loader):
    """The Packing of a study's loader."""
    packing = protocol["packing"]
    return make_packing(loader, packing["context"] + 1, packing["buffer_size"], packing["span_seed"])


def study_rows(protocol, split):
    """Rows of a run's training, or of the official score on the validation stream."""
    training = protocol["training"]
    if split == "train":
        return training["updates"] * training["accumulation"] * training["microbatch"]
    return protocol["evaluation"]["targets"] // protocol["packing"]["context"]


def study_stream(directory, split):
    """The Stream of one split of prepared data."""
    return whole_stream(*(read_counts(prepared_file(directory, f"{split}/{name}.npy"), name)
                          for name in ("lengths", "refill")))


def require_memory(args, stream, packing):
    """InputError naming the option when the horizon's segments would take more than all memory, by a low estimate.

    It counts as many segments as if all documents were shown equally often, and one row of them at most each time.
    """
    tokens = {"passes": int(stream.lengths.sum()), "rows": packing.capacity, "targets": 1}
    option, count = next((name, vars(args)[name]) for name in tokens if vars(args)[name])
    served = int(np.minimum(stream.lengths, packing.capacity).sum())
    segments = count * tokens[option] * len(stream.lengths) // served
    needed, memory = segments * SEGMENT_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise InputError(f"--{option} {count}: about {segments:,} segments, {needed >> 30:,} GiB of memory; "
                         f"this machine has {memory >> 30:,} GiB. Ask for less")


def parquet_lengths(pattern, column, tokenizer):
    """(int64 (documents,) lengths, [documents of each row group of each file], files) of all files of a glob."""
    from corpora.shards import open_parquet
    from corpora.tokens import encode_group, in_order, progress

    paths = [Path(path) for path in sorted(glob.glob(pattern))]
    if not paths:
        raise InputError(f"--parquet {pattern!r}: no file matches; quote the pattern, and check it with ls")
    key = sha256_bytes(b"".join((tokenizer / name).read_bytes() for name in ("ranks.txt", "tokenizer.json")))
    files = [open_parquet(path, column).metadata for path in paths]
    groups = [[file.row_group(group).num_rows for group in range(file.num_row_groups)] for file in files]
    tasks = [(path, group, column, tokenizer, key) for path, sizes in zip(paths, groups) for group in range(len(sizes))]
    encoded = in_order(encode_group, tasks, os.cpu_count())
    with contextlib.redirect_stdout(sys.stderr):  # the first line on stdout is the finding
        lengths = [lengths for _, lengths, _ in progress(encoded, len(tasks), "row groups tokenized")]
    if not sum(map(len, lengths)):
        raise InputError(f"--parquet {pattern!r}: no documents in {len(paths)} files")
    return positive_integers("lengths", np.concatenate(lengths)), groups, paths


def json_lengths(paths, column, tokenizer):
    """int64 (documents,) lengths, BOS included, of the texts of JSON-lines files."""
    from corpora.files import read_documents
    from corpora.tokenizer import make_encoding, read_tokenizer
    from corpora.tokens import encode_text

    encoding = make_encoding(*read_tokenizer(tokenizer))
    lengths = [len(encode_text(encoding, text, f"document {number}")) + 1
               for number, text in enumerate(read_documents(paths, column))]
    if not lengths:
        raise InputError(f"{paths[0]}: no documents")
    return positive_integers("lengths", lengths)


def read_user_stream(args):
    """(Stream, [units of each file], int64 (units,) documents a unit, paths read)."""
    from corpora.tokens import refill_batches

    if args.lengths:
        lengths, files, paths = read_counts(args.lengths, "lengths"), None, [args.lengths]
    elif args.parquet:
        lengths, files, paths = parquet_lengths(args.parquet, args.text_column, args.tokenizer)
    else:
        lengths, files, paths = json_lengths(args.jsonl, args.text_column, args.tokenizer), None, args.jsonl
    if args.row_groups:
        files, paths = [read_counts(args.row_groups, "row groups").tolist()], [*paths, args.row_groups]
    groups = [group for file in files or [[len(lengths)]] for group in file]
    if args.refill.isdecimal() and int(args.refill):
        refill = refill_batches(groups, int(args.refill))
    else:
        refill, paths = read_counts(args.refill, "refill"), [*paths, args.refill]
    stream = whole_stream(lengths, refill)
    return (stream, list(map(len, files)), np.array(groups), paths) if files else (stream, [len(refill)], refill, paths)
