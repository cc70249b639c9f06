"""Derive the frozen numbers of this directory again, for verify_batch_boundaries.py.

These functions share nothing with the scripts that wrote the numbers. They build batches from lists, count cuts token
by token from the token's place, and fill rows with the reference packer.
"""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np

from research.reference_packer import ReferencePacker

IGNORED = -100


# ------------------------------------------------------------------------------ batch of the note


def batch(rows, width, pad, independent):
    """Return the arrays and counts of rows of documents (lists of ids), as show_batch.py freezes a view."""
    found = {key: [] for key in ("inputs", "labels", "positions", "segment_ids", "reads")}
    for row in rows:
        ids = list(itertools.chain(*row))
        number = [n for n, document in enumerate(row) for _ in document]
        place = [p for document in row for p in range(len(document))] if independent else list(range(len(ids)))
        empty = width - len(ids)
        reads = [read_by(q, number, width, independent) for q in range(width)]
        found["inputs"].append(ids + [pad] * empty)
        found["labels"].append([token if p else IGNORED for token, p in zip(ids, place)] + [IGNORED] * empty)
        found["positions"].append(place + [0] * empty)
        found["segment_ids"].append(number + [-1] * empty)
        found["reads"].append(reads)
    documents, tokens = sum(map(len, rows)), sum(len(document) for row in rows for document in row)
    across = 0 if independent else documents - len(rows)
    found["counts"] = {
        "cells": width * len(rows), "non_padding": tokens, "effective_targets": tokens - documents + across,
        "boundary_targets": across, "readable_pairs": str(found["reads"]).count("1")}
    return found


def read_by(query, number, width, independent):
    """Return a string of 1 for each position that a query may read, else 0. number: the document of each token."""
    cells = ["0"] * width
    for key in range(query + 1 if query < len(number) else 0):
        if not independent or number[key] == number[query]:
            cells[key] = "1"
    return "".join(cells)


def note_batch(content):
    """Return batch_note.json from its documents and the id of its padding."""
    documents, pad = content["documents"], content["pad"]
    longest, total = max(map(len, documents)), sum(map(len, documents))
    views = {"padded": batch([[document] for document in documents], longest, pad, True),
             "independent": batch([documents], total, pad, True), "continuous": batch([documents], total, pad, False)}
    return {"documents": [[256, 120, 121, 257], [256, 122, 257]], "pad": 258, "views": views}


# ----------------------------------------------------------------------------------------- cutting


def cut(design, n, block, stride):
    """Return (windows, end of the first window, times an input, times a target) of a document of n tokens.

    The last two are int64 (n,). They follow for token p from p alone: window k begins at k * stride.
    """
    p = np.arange(n)
    scored = np.minimum(p, 1)
    if design == "drop_rest":
        kept = p < n // block * block
        return n // block, block * (n >= block), kept * 1, (kept & (p % block > 0)) * 1
    if design == "pad_last":
        return -(-n // block), min(block, n), p * 0 + 1, (p % block > 0) * 1
    if design == "shared_boundary":
        return -(-(n - 1) // block), min(block + 1, n) * (n > 1), (p < n - 1) * 1, scored
    last = -(-max(n - block, 0) // stride)
    first = np.maximum(-(-(p - block + 1) // stride), 0)
    inputs = np.minimum(p // stride, last) - first + 1
    targets = np.maximum(np.minimum((p - 1) // stride, last) - first + 1, 0) if design == "overlapping" else scored
    return last + 1, min(block, n), inputs, targets


def cut_counts(design, n, block, stride):
    """Return the counts of one document under one design, as chunk_documents.py names them."""
    windows, first_end, inputs, targets = cut(design, n, block, stride)
    beyond = targets[1:]
    return {
        "windows": windows, "positions": windows * block, "padding": windows * block - int(inputs.sum()), "tokens": n,
        "tokens_never_input": int((inputs < 1).sum()), "tokens_input_more_than_once": int((inputs > 1).sum()),
        "targets": n - 1, "targets_never_scored": int((beyond < 1).sum()),
        "targets_scored_once": int((beyond == 1).sum()),
        "targets_scored_more_than_once": int((beyond > 1).sum()), "scorings": int(beyond.sum()),
        "targets_with_whole_prefix": max(first_end - 1, 0),
        "documents_with_last_token_never_scored": int(n > 1 and beyond[-1] < 1),
    }


def chunking(content, block):
    """Return chunking_*.json from its histogram of lengths, with `block` tokens a block and half as stride."""
    histogram = {int(length): documents for length, documents in content["histogram"].items()}
    designs, stride = {}, block // 2
    for design in ("drop_rest", "pad_last", "shared_boundary", "overlapping", "overlapping_new"):
        sums = {}
        for length, documents in histogram.items():
            for key, count in cut_counts(design, length, block, stride).items():
                sums[key] = sums.get(key, 0) + count * documents
        designs[design] = sums
        if content["source"] == "note":
            _, _, inputs, targets = cut(design, 10, block, stride)
            designs[design] |= {"times_input": inputs.tolist(), "times_target": targets.tolist()}
    return {"block": block, "stride": stride, "documents": sum(histogram.values()), "histogram": content["histogram"],
            "designs": designs, "source": content["source"]}


# ----------------------------------------------------------------------------------------- updates


def best_fit_rows(lengths, refill, capacity, buffer_size, rows):
    """Return [(tokens, segments)] of each row as the reference packer fills it; ValueError when documents run out."""
    packer = ReferencePacker(lengths, refill, capacity=capacity, buffer_size=buffer_size)
    segments = Counter(selection[0] for selection in packer.select_rows(rows))
    if packer.arrived > len(lengths):
        raise ValueError("the frozen arrivals do not fill the rows")
    return [(capacity, segments[row]) for row in range(rows)]


def padded_rows(lengths, capacity, rows):
    """Return [(tokens, segments)] of each row: a document, or a piece that shares a token with the next."""
    found = []
    for length in lengths:
        found.append((min(length, capacity), 1))
        while length > capacity:
            length -= capacity - 1
            found.append((min(length, capacity), 1))
    if len(found) < rows:
        raise ValueError("the frozen arrivals do not fill the rows")
    return found[:rows]


def loader_account(rows, shape, independent, fills):
    """Return what count_targets.py freezes of one loader, from [(tokens, segments)] of its rows."""
    size, ranks = shape["microbatch"], shape["ranks"]
    microbatches = []
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        width = shape["context"] if fills else max(1, max(tokens for tokens, _ in part) - 1)
        microbatches.append({
            "positions": width * size,
            "non_padding": sum(min(tokens, width) for tokens, _ in part),
            "targets": sum(tokens - (segments if independent else 1) for tokens, segments in part)})

    def total(lines):
        return {key: sum(line[key] for line in lines) for key in ("positions", "non_padding", "targets")}

    return {"independent": independent, "fills": fills, "row_tokens": [tokens for tokens, _ in rows],
            "row_targets": [tokens - (segments if independent else 1) for tokens, segments in rows],
            "microbatches": microbatches, "ranks": [total(microbatches[rank::ranks]) for rank in range(ranks)],
            "update": total(microbatches)}


def update_targets(content, context, buffer_size):
    """Return targets_*.json from the lengths that had arrived, in the note's shape."""
    shape = {"ranks": 4, "microbatch": 2, "context": context, "accumulation": 8}
    rows, capacity = shape["ranks"] * shape["microbatch"] * shape["accumulation"], context + 1
    if sum(content["arrivals"]) <= rows * context:
        raise ValueError("the frozen arrivals do not fill the rows")
    packed = best_fit_rows(content["arrivals"], content["refill"], capacity, buffer_size, rows)
    continuous = [(capacity, 1)] * rows
    share = Fraction(3, 4)
    return {
        "shape": shape, "buffer_size": buffer_size,
        "nominal": {"positions": rows * context, "share": str(share), "targets": int(share * rows * context)},
        "loaders": {
            "best_fit_crop": loader_account(packed, shape, False, True),
            "concatenated": loader_account(continuous, shape, False, True),
            "document_masked": loader_account(packed, shape, True, True),
            "padded": loader_account(padded_rows(content["arrivals"], capacity, rows), shape, True, False),
        },
        "arrived": {"documents": sum(content["refill"]), "tokens": sum(content["arrivals"])},
    }


# ------------------------------------------------------------------------------------ accumulation


def weighted(targets, nats):
    """Return (loss by target, mean of the means): 0.0 without any target, None if a microbatch has no target."""
    if any(total and not count for count, total in zip(targets, nats)):
        raise ValueError(f"nats {nats} of targets {targets}: nats without a target")
    by_target = sum(nats) / sum(targets) if sum(targets) else 0.0
    means = [total / count for count, total in zip(targets, nats) if count]
    return by_target, sum(means) / len(means) if len(means) == len(targets) else None


def accumulation(content):
    """Return accumulation.json from the targets and nats of its microbatches, and from the targets of its rows."""
    cases = {}
    for name, case in content["cases"].items():
        by_target, by_microbatch = weighted(case["targets"], case["nats"])
        cases[name] = {"targets": case["targets"], "nats": case["nats"], "by_target": by_target,
                       "by_microbatch": by_microbatch, "effective_targets": sum(case["targets"])}
    targets = content["gradients"]["row_targets"]
    rows = list(range(len(targets)))
    empty = targets.index(0)
    return {"cases": cases, "gradients": {
        "row_targets": targets, "effective_targets": sum(targets), "ranks": 2,
        "consecutive_splits": 2 ** (len(rows) - 1) - 1, "shuffled_splits": 8,
        "rank_splits": [[[row] for row in rows], [[empty], [row for row in rows if row != empty]]],
        "tolerances": {"float32": 1e-6, "float64": 1e-12}}}
