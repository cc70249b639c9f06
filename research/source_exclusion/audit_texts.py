"""How many tokens the texts of a user's parquet, JSON-lines or plain text files have, and where each document is."""

import contextlib
import functools
import itertools
import sys

import numpy as np

import surroundings
from evidence import require, sha256_bytes
from loaders.accounting import positive_integers

TEXT_AT_ONCE = 1 << 20  # characters that a worker gets at once


def parquet_names(shards):
    """Return the function document -> "file: row N", with the file's own column `name` where it has one.

    shards: [(path, rows)] in stream order.
    """
    ends, columns = np.cumsum([rows for _, rows in shards]), {}

    def name_of(document):
        number = int(np.searchsorted(ends, document, side="right"))
        path, rows = shards[number]
        row = document - int(ends[number]) + rows
        if path not in columns:
            columns[path] = _name_column(path)
        return f"{path.name}: row {row}" + (f": {columns[path][row]}" if columns[path] else "")

    return name_of


def _name_column(path):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    return file.read(columns=["name"])["name"].to_pylist() if "name" in file.schema_arrow.names else None


def tokenizer_folder(path):
    """Return the folder of a tokenizer that prepare.py wrote, given itself or its tokenizer.json."""
    folder = path.parent if path.name == "tokenizer.json" else path
    missing = [name for name in ("ranks.txt", "tokenizer.json") if not (folder / name).is_file()]
    require(not missing, f"--tokenizer {path}", f"expected a tokenizer folder as prepare.py writes it, for example "
            f"data/demo/tokenizer, but {' and '.join(missing)} cannot be found. Lengths counted by another tokenizer "
            "are audited by --lengths")
    return folder


def tokenizer_key(folder):
    """Return the digest of a tokenizer, under which a worker keeps it."""
    return sha256_bytes(b"".join((folder / name).read_bytes() for name in ("ranks.txt", "tokenizer.json")))


def parquet_source(names, column, tokenizer, workers):
    """Return (int64 (documents,) lengths, [documents of each row group of each file], files, name_of)."""
    from corpora.files import expand
    from corpora.shards import open_parquet
    from corpora.tokens import encode_group, in_order, progress

    paths = [path for path in expand(names) if path.suffix == ".parquet"]
    require(paths, "--parquet", f"found no .parquet file in {' '.join(map(str, names))}")
    key = tokenizer_key(tokenizer)
    files = [open_parquet(path, column).metadata for path in paths]
    groups = [[file.row_group(group).num_rows for group in range(file.num_row_groups)] for file in files]
    tasks = [(path, group, column, tokenizer, key)
             for path, sizes in zip(paths, groups, strict=True) for group in range(len(sizes))]
    encoded = in_order(encode_group, tasks, surroundings.workers(max(len(tasks), 1), workers))
    with contextlib.redirect_stdout(sys.stderr):  # the first line on stdout is the finding
        lengths = [lengths for _, lengths, _ in progress(encoded, len(tasks), "row groups tokenized")]
    require(sum(map(len, lengths)), "--parquet", f"no documents in {len(paths)} files")
    names = parquet_names([(path, file.num_rows) for path, file in zip(paths, files, strict=True)])
    return positive_integers("lengths", np.concatenate(lengths)), groups, paths, names


def _batches_of_texts(documents, places):
    """Yield lists of (place, text) of about TEXT_AT_ONCE characters; note every place in `places`."""
    batch, size = [], 0
    for place, text in documents:
        places.append(place)
        batch.append((place, text))
        size += len(text)
        if size >= TEXT_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def count_tokens(tokenizer, key, batch):
    """Return [tokens, BOS included] of the texts of a batch; key: the digest of the tokenizer in that folder."""
    from corpora.tokenizer import load_encoding
    from corpora.tokens import encode_text

    encoding = load_encoding(tokenizer, key)
    return [len(encode_text(encoding, text, place)) + 1 for place, text in batch]


def text_source(names, column, tokenizer, workers):
    """Return (int64 (documents,) lengths with BOS, files, name_of) of JSON-lines or plain text files.

    The tokenizer bounds the speed, so processes share the texts.
    """
    from corpora.files import expand, located_documents
    from corpora.tokens import shared_out

    paths, places, lengths = expand(names), [], []
    batches = _batches_of_texts(located_documents(paths, column), places)
    first = list(itertools.islice(batches, 2))
    count = surroundings.workers(len(first) if len(first) < 2 else sys.maxsize, workers)  # how many follow is unknown
    task = functools.partial(count_tokens, tokenizer, tokenizer_key(tokenizer))
    for counts in shared_out(task, itertools.chain(first, batches), count):
        before = len(lengths)
        lengths += counts
        if len(lengths) // 100_000 > before // 100_000:
            print(f"{len(lengths):,} documents tokenized", file=sys.stderr, flush=True)
    require(lengths, paths[0], "no documents")
    return positive_integers("lengths", lengths), paths, places.__getitem__
