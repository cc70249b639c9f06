"""A corpus of a user's own files: parquet, JSON lines (plain or gzipped) or plain text, one document a file."""

import gzip
import hashlib
import itertools
import os
import zlib
from collections import Counter
from pathlib import Path

from corpora.shards import column_texts, open_parquet, reading, write_shard
from evidence import InputError, parse_json

VALIDATION_SHARE = 20
READ_ERRORS = (EOFError, zlib.error, OSError)


def _parquet_documents(path, column):
    row, batches = 0, open_parquet(path, column).iter_batches(batch_size=1000, columns=[column])
    while True:
        with reading(path):
            batch = next(batches, None)
        if batch is None:
            return
        yield from column_texts(batch[column], path, row)
        row += batch.num_rows


def _json_document(line, column, where):
    record = parse_json(line, where)
    if not isinstance(record, dict) or not isinstance(record.get(column), str):
        raise InputError(f"{where}: expected an object with a string under {column!r}")
    try:
        record[column].encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: {column!r} is not Unicode text: {error}") from None
    return record[column]


def _json_documents(path, column):
    """Records end at \\n and nowhere else; only the file's own byte-order mark is dropped."""
    with (gzip.open if path.name.endswith(".gz") else open)(path, "rb") as lines:
        try:
            for number, line in enumerate(lines, 1):
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                yield _json_document(line, column, f"{path}:{number}")
        except READ_ERRORS as error:
            raise InputError(f"{path}: cannot be read to its end: {error}") from None


def _text_document(path, column):
    try:
        yield path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None


READERS = {
    ".parquet": _parquet_documents,
    ".jsonl": _json_documents,
    ".jsonl.gz": _json_documents,
    ".json.gz": _json_documents,
    ".txt": _text_document,
}


def read_documents(paths, column):
    """Yield the text of every document of the files, in order (parquet, JSON lines plain or gzipped, plain text)."""
    for path in map(Path, paths):
        reader = next((READERS[ending] for ending in READERS if path.name.endswith(ending)), None)
        if reader is None:
            raise InputError(f"{path}: unknown kind of file; expected one of {', '.join(READERS)}")
        yield from reader(path, column)


# --------------------------------------------------------------------------------------------- groups


def directories_of(paths):
    """The directory of each file, relative to what all of them have in common."""
    parents = [Path(path).resolve().parent for path in paths]
    common = os.path.commonpath(parents)
    return [Path(os.path.relpath(parent, common)).as_posix() for parent in parents]


def read_grouped(paths, column, group_column):
    """Yield (text, group) of every document: the group is another column, or with None the file's directory."""
    for path, directory in zip(paths, directories_of(paths)):
        if group_column is None:
            yield from zip(read_documents([path], column), itertools.repeat(directory))
        elif Path(path).suffix == ".txt":
            raise InputError(f"{path}: plain text has no column {group_column!r}; group such files by directory")
        else:
            yield from zip(read_documents([path], column), read_documents([path], group_column), strict=True)


def held_out_groups(groups):
    """The groups that are validation: 1 in VALIDATION_SHARE by the group's own hash, at least one on each side.

    A group stays on its side when others come or go, unless that side were empty.
    """
    digests = {group: hashlib.sha256(group.encode()).digest() for group in groups}
    order = sorted(digests, key=digests.get)
    if len(order) < 2:
        raise InputError(f"{len(order)} groups in all {order}; training and validation need one each")
    chosen = {group for group in order if int.from_bytes(digests[group][:8], "big") % VALIDATION_SHARE == 0}
    return set(order[1:]) if len(chosen) == len(order) else chosen or {order[0]}


def write_grouped(corpus, write):
    """Write whole groups to either shard, documents in order, each with its group; return the facts."""
    def documents():
        return read_grouped(corpus["train_files"], corpus["source_column"], corpus["group"]["column"])

    counts = Counter(group for _, group in documents())
    chosen = held_out_groups(counts)
    held_out = sum(counts[group] for group in chosen)
    print(f"corpus: {len(chosen)} of {len(counts)} groups, {held_out} of {counts.total()} documents, are held out")
    columns = [corpus["text_column"], "group"]
    write(corpus["train_shards"][0], (row for row in documents() if row[1] not in chosen), columns)
    write(corpus["validation_shard"], (row for row in documents() if row[1] in chosen), columns)
    return {"held_out": held_out, "groups": len(counts), "groups_held_out": len(chosen)}


# -------------------------------------------------------------------------------------------- shards


def write_files(staged, corpus):
    """Write a user's files as one training and one validation shard; return the facts for prepared.json.

    Without validation files the last 1/20 of the documents, at least one, is held out, or of the groups, where
    documents are grouped.
    """
    def documents(key):
        return ((text,) for text in read_documents(corpus[key], corpus["source_column"]))

    def write(name, rows, columns=(corpus["text_column"],)):
        return write_shard(staged / name, rows, columns, corpus["row_group_documents"])

    train, validation = corpus["train_shards"][0], corpus["validation_shard"]
    if corpus["validation_files"]:
        write(train, documents("train_files"))
        write(validation, documents("validation_files"))
        return {"held_out": None}
    if corpus.get("group"):
        return write_grouped(corpus, write)
    total = sum(1 for _ in documents("train_files"))
    held_out = max(1, total // VALIDATION_SHARE)
    if total < 2:
        raise InputError(f"{corpus['train_files'][0]}: {total} documents in all; training and validation need one each")
    print(f"corpus: the last {held_out} of {total} documents are held out as validation")
    rows = documents("train_files")
    write(train, itertools.islice(rows, total - held_out))
    write(validation, rows)
    return {"held_out": held_out}
