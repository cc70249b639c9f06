"""Documents to flat token ids, lengths and refill batches, on all cores; a worker holds one batch of texts."""

import os
import sys
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process

import numpy as np

import surroundings
from corpora.shards import open_parquet, row_group_texts
from corpora.tokenizer import load_encoding
from evidence import InputError, sha256_bytes
from files import naming


def token_dtype(vocabulary):
    """Return uint16 while every id fits (vocabulary up to 65,536), else uint32."""
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)


def narrow(ids, vocabulary):
    """Return the ids as an array of `token_dtype`; an id outside 0..vocabulary-1 is an InputError and never wraps."""
    ids = np.asarray(ids, np.int64)
    if ids.size and not 0 <= ids.min() <= ids.max() < vocabulary:
        raise InputError(f"token ids {ids.min()}..{ids.max()} do not fit a vocabulary of {vocabulary}")
    return ids.astype(token_dtype(vocabulary))


def refill_batches(groups, batch):
    """Return int64 (batches,): documents arrive `batch` at a time, and the last batch of a row group is shorter."""
    sizes = [min(batch, group - start) for group in groups for start in range(0, group, batch)]
    return np.array(sizes, np.int64)


def encode_text(encoding, text, where):
    """Return the token ids of a document, in which special-token text is ordinary text; they must decode to it."""
    try:
        ids = encoding.encode_ordinary(text)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # tiktoken's, and no Exception: runs of over a million spaces
            raise
        raise InputError(f"{where}: the tokenizer cannot split this text, shorten its white space: {error}") from None
    if encoding.decode_bytes(ids) != text.encode():
        raise InputError(f"{where}: the text is not what its tokens decode to; the split pattern drops some of it")
    return ids


def encode_group(task):
    """Return ((tokens,) ids, int64 (documents,) lengths with BOS, UTF-8 bytes) of one row group.

    `task` is (shard, row group, column, tokenizer folder, digest of the tokenizer).
    """
    path, group, column, tokenizer, key = task
    encoding, size, documents = load_encoding(tokenizer, key), 0, []
    for row, text in row_group_texts(open_parquet(path, column), path, group, column):
        documents.append(narrow(encode_text(encoding, text, f"{path}: row {row}"), encoding.n_vocab))
        size += len(text.encode())
    lengths = np.array([len(ids) + 1 for ids in documents], np.int64)
    return np.concatenate([narrow([], encoding.n_vocab), *documents]), lengths, size


def end_with_parent():
    """End this worker when its parent is killed; otherwise it would wait for tasks for ever."""
    threading.Thread(target=lambda: (parent_process().join(), os._exit(1)), daemon=True).start()


def in_order(function, tasks, workers):
    """Yield function(task) in the order of the tasks, from worker processes that are at most two tasks ahead.

    `workers` processes are started, or one a core when it is None, and never more than there are tasks.
    """
    yield from shared_out(function, tasks, surroundings.workers(len(tasks), workers))


def shared_out(function, tasks, count):
    """Yield function(task) in the order of the tasks, which may be an iterator, from `count` worker processes."""
    if count < 2:
        yield from map(function, tasks)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(count, context, initializer=end_with_parent) as pool:
        waiting = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(function, task))
                if len(waiting) > 2 * count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise InputError("a worker died, most likely for want of memory; run with fewer --workers") from None
        finally:
            pool.shutdown(cancel_futures=True)


def progress(items, total, label):
    """Yield the items, with a bar on a terminal and a line at every tenth elsewhere."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        yield from tqdm(items, total=total, desc=label)
        return
    for number, item in enumerate(items, 1):
        yield item
        if number * 10 // total > (number - 1) * 10 // total:
            print(f"{label}: {number} of {total}", flush=True)


def write_stream(path, arrays, dtype):
    """Write 1-D arrays one after another as one .npy file, with the bytes of np.save; return the item count."""
    def write_header(count):
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(file, header)

    count = 0
    with naming(path), open(path, "wb") as file:
        write_header(0)  # NumPy pads headers so that a longer count still fits
        for array in arrays:
            file.write(np.ascontiguousarray(array, dtype).data)
            count += len(array)
        file.seek(0)
        write_header(count)
    return count


def write_split(folder, shards, column, tokenizer, key, refill_batch, workers):
    """Write tokens.npy, lengths.npy and refill.npy of the shards; return the counts of documents, tokens and bytes."""
    files = {path: open_parquet(path, column) for path in shards}
    cuts = [(path, group) for path, file in files.items() for group in range(file.num_row_groups)]
    groups = [files[path].metadata.row_group(group).num_rows for path, group in cuts]
    tasks = [(*cut, column, tokenizer, key) for cut in cuts]
    lengths, sizes, label = [], [], f"{folder.stem}: row groups tokenized"

    def token_arrays():
        for ids, group_lengths, size in progress(in_order(encode_group, tasks, workers), len(tasks), label):
            lengths.append(group_lengths)
            sizes.append(size)
            yield ids

    dtype = token_dtype(load_encoding(tokenizer, key).n_vocab)
    text_tokens = write_stream(folder / "tokens.npy", token_arrays(), dtype)
    if not text_tokens:
        raise InputError(f"{shards[0]}: {sum(groups)} documents without a single token")
    np.save(folder / "lengths.npy", np.concatenate(lengths))
    np.save(folder / "refill.npy", refill_batches(groups, refill_batch))
    return {"documents": sum(groups), "text_tokens": text_tokens, "bytes": sum(sizes)}


def shared_texts(directory):
    """Return how many documents of the validation split have the tokens of a document of the training split.

    One tokenizer made both splits and loses nothing, so equal tokens are equal texts.
    """
    validation = list(_document_digests(directory / "validation"))
    lengths = np.unique(np.load(directory / "validation/lengths.npy"))
    training = set(_document_digests(directory / "train", lengths)).intersection(validation)
    return sum(digest in training for digest in validation)


def _document_digests(folder, lengths=None):
    """Yield the SHA-256 of each document's tokens, or of those documents only that have one of the given lengths."""
    sizes, tokens = np.load(folder / "lengths.npy"), np.load(folder / "tokens.npy", mmap_mode="r")
    ends = np.cumsum(sizes - 1)
    chosen = np.arange(len(sizes)) if lengths is None else np.flatnonzero(np.isin(sizes, lengths))
    for document in chosen.tolist():
        yield sha256_bytes(np.ascontiguousarray(tokens[ends[document] - sizes[document] + 1 : ends[document]]))
