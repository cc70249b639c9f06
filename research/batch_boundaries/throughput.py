"""Time the same targets in padded and packed layouts, for `count_targets.py --measure`.

All layouts contain the same whole, independent documents. So they have the same effective targets and the same loss,
and differ only in positions and time. A small model of train.py runs forward and backward on one thread. The rounds
take the layouts in turn, and the fastest round of each layout counts.
"""

import time

import numpy as np
import torch
from tabulate import tabulate

import train
from evidence import Checks
from loaders import padded
from loaders.accounting import ARRIVAL
from loaders.batches import shifted
from research.batch_boundaries.grouping import grouped, order_bias
from research.batch_boundaries.layouts import effective_targets, pack_documents, pad_documents
from research.batch_boundaries.small_models import busy_model

DOCUMENTS, MICROBATCH, GROUP, ROUNDS = 96, 4, 32, 3
SMALL = {"layers": 2, "width": 64}
AGREEMENT = 1e-5


def first_documents(prepared):
    """Return the first DOCUMENTS training documents that fit a row, as int64 id arrays that begin with BOS."""
    tokens, offsets = prepared.tokens("train"), prepared.offsets("train")
    fitting = np.flatnonzero(prepared.lengths("train") <= prepared.capacity)[:DOCUMENTS]
    return [np.array([prepared.bos, *tokens[offsets[d] : offsets[d + 1]]], np.int64) for d in fitting]


def padded_plan(documents, capacity):
    """Return the plan that puts one document in each row, in order."""
    lengths = np.array([len(document) for document in documents])
    return padded.plan(lengths, capacity=capacity, rows=len(lengths), buffer_size=1, refill=np.array([len(lengths)]))


def layouts(documents, capacity, pad):
    """Return {name: microbatches of MICROBATCH rows} for documents padded in order, padded by length, and packed."""
    by_length = grouped(padded_plan(documents, capacity), GROUP)[:, ARRIVAL]
    by_length = [documents[document] for document in by_length]
    packed = pack_documents(documents, capacity, pad=pad)
    return {
        "padded": [pad_documents(part, pad=pad) for part in parts(documents)],
        f"padded, grouped by {GROUP}": [pad_documents(part, pad=pad) for part in parts(by_length)],
        "packed": [type(packed)(*(array[rows] for array in packed)) for rows in parts(np.arange(len(packed.inputs)))],
    }


def parts(items):
    return [items[first : first + MICROBATCH] for first in range(0, len(items), MICROBATCH)]


def timed_update(forward, batches):
    """Return (seconds, loss) of one update that the trainer makes from microbatches."""
    ready = [(batch.inputs, *(torch.from_numpy(np.ascontiguousarray(array)) for array in shifted(batch)))
             for batch in batches]
    targets = sum(map(effective_targets, batches))
    began = time.perf_counter()
    loss, _ = train.run_update(forward, ready, targets, train.Ranks(forward.device))
    return time.perf_counter() - began, loss.item()


def print_order_bias(plan):
    """Print what grouping by length does to the order of the documents."""
    bias = order_bias(plan, GROUP, MICROBATCH)
    before, after = (f"{100 * padding / positions:.1f} %" for padding, positions in bias["padding"])
    was, now = ("undefined" if r is None else f"{r:.2f}" for r in bias["place_length_correlation"])
    print(f"grouping by length moves {bias['moved']} of {len(plan)} documents; padding {before} -> {after} of cells, "
          f"and a document's place in its group correlates with its length by {now} (in order: {was})")


def measure(prepared):
    """Print the table; return 0 if all layouts have the same targets and loss, else 1."""
    protocol, capacity, documents = prepared.protocol, prepared.capacity, first_documents(prepared)
    laid_out = layouts(documents, capacity, prepared.bos)
    vocabulary = protocol["tokenizer"]["vocabulary"]
    forward = busy_model({**protocol["model"], **SMALL}, vocabulary, capacity - 1)
    timed_update(forward, laid_out["packed"][:1])  # the first call includes one-time set-up
    runs = {name: [] for name in laid_out}
    for _ in range(ROUNDS):
        for name, batches in laid_out.items():
            runs[name].append(timed_update(forward, batches))
    return report(laid_out, runs, documents, capacity)


def report(laid_out, runs, documents, capacity):
    """Print the table of the runs, {layout: [(seconds, loss)]}; return 0 if targets and losses agree, else 1."""
    positions = {name: sum(b.inputs[:, 1:].size for b in batches) for name, batches in laid_out.items()}
    targets = {name: sum(map(effective_targets, batches)) for name, batches in laid_out.items()}
    seconds = {name: min(run[0] for run in found) for name, found in runs.items()}
    lines = [[name, f"{positions[name]:,}", f"{targets[name]:,}", f"{seconds[name]:.2f}",
              *(f"{counts[name] / seconds[name]:,.0f}" for counts in (positions, targets)), f"{runs[name][0][1]:.6f}"]
             for name in laid_out]
    headers = [f"{len(documents)} documents", "positions", "targets", "seconds", "positions/s", "targets/s", "loss"]
    print(tabulate(lines, headers, disable_numparse=True, stralign="right"))
    print_order_bias(padded_plan(documents, capacity))
    checks = Checks()
    losses = [found[0][1] for found in runs.values()]
    checks.expect(len(set(targets.values())) == 1, f"every layout has the same {targets['packed']:,} targets")
    checks.expect(max(losses) - min(losses) <= AGREEMENT * min(losses), f"and the same loss within {AGREEMENT:g} of it")
    return checks.close()
