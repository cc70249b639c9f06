"""A user's own documents as one training and one validation shard: what is held out, and why it is just that."""

import hashlib
import itertools
import os
from collections import Counter
from pathlib import Path

from corpora.files import TEXT_KINDS, read_documents
from corpora.shards import write_shard
from evidence import InputError

VALIDATION_SHARE = 20


def _share(text):
    """Return an integer that only the text decides, uniform over 64 bits."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


# --------------------------------------------------------------------------------------------- documents


def held_out_rule(texts, where):
    """Return (rule, documents held out, documents in all), where the rule says of a text whether it is held out.

    1 in VALIDATION_SHARE texts is, by the hash of the text alone. So the validation documents are spread over all
    files, do not depend on the order of the files, and are no copies of training documents. Where that would leave one
    side empty, the text with the smallest hash is held out.
    """
    total = held = copies = 0
    least = None
    for text in texts:
        share = _share(text)
        total += 1
        held += share % VALIDATION_SHARE == 0
        if least is None or share < least:
            least, copies = share, 0
        copies += share == least
    if copies == total:
        raise InputError(f"{where}: {total} documents in all, {min(total, 1)} different; training and validation need "
                         "one each")
    if 0 < held < total:
        return (lambda text: _share(text) % VALIDATION_SHARE == 0), held, total
    return (lambda text: _share(text) == least), copies, total


# ------------------------------------------------------------------------------------------------ groups


def directories_of(paths):
    """Return the directory of each file, relative to what all of them have in common."""
    parents = [Path(path).resolve().parent for path in paths]
    common = os.path.commonpath(parents)
    return [Path(os.path.relpath(parent, common)).as_posix() for parent in parents]


def read_grouped(paths, column, group_column):
    """Yield (text, group) of every document: the group is another column, or with None the file's directory."""
    for path, directory in zip(paths, directories_of(paths), strict=True):
        if group_column is None:
            yield from zip(read_documents([path], column), itertools.repeat(directory), strict=False)
        elif Path(path).name.lower().endswith(TEXT_KINDS):
            raise InputError(f"{path}: plain text has no column {group_column!r}; group such files by directory")
        else:
            yield from zip(read_documents([path], column), read_documents([path], group_column), strict=True)


def held_out_groups(groups):
    """Return the groups that are validation: 1 in VALIDATION_SHARE by the group's own hash, at least one on each side.

    A group stays on its side when others come or go, unless that side were empty.
    """
    digests = {group: hashlib.sha256(group.encode()).digest() for group in groups}
    order = sorted(digests, key=digests.get)
    if len(order) < 2:
        raise InputError(f"{len(order)} groups in all {order}; training and validation need one each")
    chosen = {group for group in order if int.from_bytes(digests[group][:8], "big") % VALIDATION_SHARE == 0}
    if len(chosen) == len(order):
        return set(order[1:])
    return chosen or {order[0]}


# ------------------------------------------------------------------------------------------------ shards


def _write_grouped(corpus, write):
    """Write whole groups to either shard, documents in order, each with its group; return the facts."""
    def documents():
        return read_grouped(corpus["train_files"], corpus["source_column"], corpus["group"]["column"])

    counts = Counter(group for _, group in documents())
    chosen = held_out_groups(counts)
    held_out = sum(counts[group] for group in chosen)
    print(f"corpus: {len(chosen)} of {len(counts)} groups, {held_out} of {counts.total()} documents, are held out as "
          "validation")
    columns = [corpus["text_column"], "group"]
    write(corpus["train_shards"][0], (row for row in documents() if row[1] not in chosen), columns)
    write(corpus["validation_shard"], (row for row in documents() if row[1] in chosen), columns)
    return {"held_out": held_out, "groups": len(counts), "groups_held_out": len(chosen)}


def _write_by_text(corpus, write):
    """Write each document to the side that the hash of its text decides; return the facts."""
    def documents():
        return read_documents(corpus["train_files"], corpus["source_column"])

    rule, held_out, total = held_out_rule(documents(), corpus["train_files"][0])
    print(f"corpus: {held_out} of {total} documents, 1 in {VALIDATION_SHARE} by the hash of the text, are held out as "
          "validation")
    columns = [corpus["text_column"]]
    write(corpus["train_shards"][0], ((text,) for text in documents() if not rule(text)), columns)
    write(corpus["validation_shard"], ((text,) for text in documents() if rule(text)), columns)
    return {"held_out": held_out}


def write_files(staged, corpus):
    """Write a user's files as one training and one validation shard; return the facts for prepared.json.

    Without validation files, 1 in VALIDATION_SHARE of the documents is held out, or of the groups, where documents are
    grouped.
    """
    def write(name, rows, columns):
        return write_shard(staged / name, rows, columns, corpus["row_group_documents"])

    if corpus["validation_files"]:
        for name, key in ((corpus["train_shards"][0], "train_files"), (corpus["validation_shard"], "validation_files")):
            rows = ((text,) for text in read_documents(corpus[key], corpus["source_column"]))
            write(name, rows, [corpus["text_column"]])
        return {"held_out": None}
    return _write_grouped(corpus, write) if corpus.get("group") else _write_by_text(corpus, write)
