"""How many targets does one update really learn from, and how does that compare with its positions?

A row of capacity tokens gives the model capacity - 1 positions. Some positions are padding. A position is an effective
target if its next token counts in the loss. The loss of an update is divided by the effective targets of all its
microbatches and ranks. Microbatch m of an update goes to rank m mod ranks.

    python research/batch_boundaries/count_targets.py                  # only the note's count of nominal positions
    python research/batch_boundaries/count_targets.py --study demo     # the same shape, filled by each loader
    python research/batch_boundaries/count_targets.py --study demo --loader padded --ranks 2 --microbatch 8
    python research/batch_boundaries/count_targets.py --lengths lengths.npy --context 512
    python research/batch_boundaries/count_targets.py --study demo --measure    # also time padded and packed layouts

Reads   nothing; or protocols/NAME.json and data/NAME/train/{lengths,refill}.npy, with --measure tokens.npy as well
Writes  nothing, or the counts with --json FILE; measured seconds are only printed
Needs   NumPy, numba and tabulate; torch with --measure
About   a few seconds; half a minute on one core with --measure

The shape of the update is that of the note "From Training Chunks to a Batch".
"""

import importlib
import sys
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tabulate import tabulate

from corpora.prepared import Prepared, read_counts
from evidence import freeze_json, parser, require, run_script
from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, row_targets
from loaders.ledger import arrived_documents

ROOT = Path(__file__).resolve().parents[2]

LOADERS = ("best_fit_crop", "concatenated", "document_masked", "padded")
WITHOUT_BUFFER = {"concatenated", "padded"}
SHARE = Fraction(3, 4)
COUNTS, HEADERS = ("positions", "non_padding", "targets"), ("positions", "non-padding", "targets")


@dataclass(frozen=True)
class Shape:
    """The shape of an update: each rank has `accumulation` microbatches of `microbatch` rows of `context` positions."""

    ranks: int = 4
    microbatch: int = 2
    context: int = 512
    accumulation: int = 8

    @property
    def microbatches(self):
        return self.ranks * self.accumulation

    @property
    def rows(self):
        return self.microbatches * self.microbatch

    def nominal(self):
        """Return the positions of an update whose rows are all full, and the targets if only SHARE of them count."""
        positions = self.rows * self.context
        return {"positions": positions, "share": str(SHARE), "targets": int(SHARE * positions)}


# --------------------------------------------------------------------------------------- account


def account(tokens, targets, shape, fills):
    """Return int64 (microbatches, 3): positions, positions without padding, and effective targets of each microbatch.

    tokens, targets: int64 (rows,). `fills` says that every row is full. Other rows are padded to the longest row of
    their microbatch and have at least one position.
    """
    tokens, targets = (counts.reshape(shape.microbatches, shape.microbatch) for counts in (tokens, targets))
    width = np.full(len(tokens), shape.context + 1) if fills else np.maximum(tokens.max(axis=1), 2)
    non_padding = np.minimum(tokens, width[:, None] - 1)
    return np.stack([(width - 1) * shape.microbatch, non_padding.sum(axis=1), targets.sum(axis=1)], axis=1)


def named(counts):
    return dict(zip(COUNTS, counts.tolist()))


def loader_record(loader, plan, shape):
    """Return the evidence on the first update of a loader: its rows, and the counts by microbatch, rank and update."""
    independent, fills = loader.independent, loader.fills
    tokens = np.bincount(plan[:, ROW], plan[:, BOS] + plan[:, COUNT]).astype(np.int64)
    targets = row_targets(plan, independent=independent)
    counts = account(tokens, targets, shape, fills)
    return {
        "independent": independent,
        "fills": fills,
        "row_tokens": tokens.tolist(),
        "row_targets": targets.tolist(),
        "microbatches": [named(line) for line in counts],
        "ranks": [named(counts[rank :: shape.ranks].sum(axis=0)) for rank in range(shape.ranks)],
        "update": named(counts.sum(axis=0)),
    }


def arrivals(lengths, refill, documents):
    """Return (lengths, refill) of the fewest refill batches, over repeated passes, in which `documents` arrive."""
    passes, rest = divmod(documents, len(lengths))
    refill = np.resize(refill, passes * len(refill) + int(np.searchsorted(np.cumsum(refill), rest)) + (rest > 0))
    return np.resize(lengths, int(refill.sum())), refill


def update_record(lengths, refill, shape, buffer_size, names):
    """Return the evidence on one update of every named loader, with the documents that had arrived for it."""
    found, arrived = {}, 0
    packing = {"capacity": shape.context + 1, "buffer_size": buffer_size}
    for name in names:
        loader = importlib.import_module(f"loaders.{name}").LOADER
        plan = loader.plan(lengths, rows=shape.rows, refill=refill, **packing)
        found[name] = loader_record(loader, plan, shape)
        needed = arrived_documents(plan, lengths, refill, loader=loader, **packing)
        arrived = max(arrived, needed, int(plan[:, ARRIVAL].max()) + 1)
    lengths, refill = arrivals(lengths, refill, arrived)
    return {"shape": asdict(shape), "buffer_size": buffer_size, "nominal": shape.nominal(), "loaders": found,
            "arrived": {"documents": len(lengths), "tokens": int(lengths.sum())},
            "refill": refill.tolist(), "arrivals": lengths.tolist()}


# ---------------------------------------------------------------------------------------- report


def print_nominal(shape):
    nominal = shape.nominal()
    print(f"Nominal: {shape.ranks} devices x {shape.microbatch} sequences x {shape.context} positions x "
          f"{shape.accumulation} accumulation steps = {nominal['positions']:,} positions; if {SHARE} of them are "
          f"effective targets: {nominal['targets']:,}.")


def print_loader(name, record, shape):
    """Print the effective targets of every microbatch in one line per rank, then the counts of the update."""
    steps = [line["targets"] for line in record["microbatches"]]
    lines = [[f"rank {rank}", *steps[rank :: shape.ranks], *counts.values()]
             for rank, counts in enumerate(record["ranks"])]
    lines.append(["update", *[""] * shape.accumulation, *record["update"].values()])
    headers = [name, *(f"step {step}" for step in range(shape.accumulation)), *HEADERS]
    print(tabulate(lines, headers, intfmt=","), end="\n\n")


def print_summary(loaders, nominal):
    lines = [[name, *(f"{record['update'][key]:,}" for key in COUNTS),
              f"{100 * record['update']['targets'] / nominal['positions']:.2f} %",
              f"{100 * record['update']['targets'] / record['update']['positions']:.2f} %"]
             for name, record in loaders.items()]
    headers = ["one update", *HEADERS, "targets of nominal", "targets of positions"]
    print(tabulate(lines, headers, disable_numparse=True, stralign="right"))


def parse(argv):
    arguments = parser(__doc__)
    source = arguments.add_mutually_exclusive_group()
    source.add_argument("--study", metavar="NAME", help="fill the update from a prepared study")
    source.add_argument("--lengths", type=Path, metavar="FILE.npy", help="fill the update from these lengths")
    arguments.add_argument("--loader", choices=LOADERS, action="append", help="count this loader (default: all)")
    for name in ("ranks", "microbatch", "accumulation"):
        arguments.add_argument(f"--{name}", type=int, default=getattr(Shape, name), help="default: %(default)s")
    arguments.add_argument("--context", type=int, help=f"positions of a row (default: a study's, or {Shape.context})")
    arguments.add_argument("--buffer-size", type=int, help="buffer of packing loaders (default: a study's, or 1000)")
    arguments.add_argument("--measure", action="store_true", help="time padded and packed layouts; needs --study")
    arguments.add_argument("--data", type=Path, default=ROOT / "data", help="folder of the prepared studies")
    arguments.add_argument("--json", type=Path, metavar="FILE",
                           help="write the counts to FILE; if FILE exists, its content must be the same")
    options = arguments.parse_args(argv)
    if options.measure and not options.study:
        arguments.error("--measure needs --study NAME")
    if options.json and not (options.study or options.lengths):
        arguments.error("--json needs --study NAME or --lengths FILE.npy")
    return options


def read_source(options):
    """Return (Shape, buffer size, lengths, refill, inputs); lengths are None if only the nominal count is asked for."""
    context, buffer_size, lengths, refill, inputs = Shape.context, 1000, None, None, []
    if options.study:
        prepared = Prepared(ROOT, options.study, options.data)
        context, buffer_size = prepared.capacity - 1, prepared.protocol["packing"]["buffer_size"]
        lengths, refill = prepared.lengths("train"), prepared.refill("train")
        inputs = prepared.inputs(["train/lengths.npy", "train/refill.npy"])
    elif options.lengths:
        lengths = read_counts(options.lengths)
        refill = np.array([len(lengths)])
    context = context if options.context is None else options.context
    require(options.buffer_size is None or not set(options.loader or LOADERS) <= WITHOUT_BUFFER, "--buffer-size",
            "the chosen loaders use no buffer; leave it out, or choose a loader that packs")
    buffer_size = buffer_size if options.buffer_size is None else options.buffer_size
    shape = Shape(options.ranks, options.microbatch, context, options.accumulation)
    for name, size in {**asdict(shape), "buffer-size": buffer_size}.items():
        require(size >= 1, f"--{name}", f"expected 1 or more, found {size}")
    return shape, buffer_size, lengths, refill, inputs


def main(argv=None):
    options = parse(argv)
    shape, buffer_size, lengths, refill, inputs = read_source(options)
    print_nominal(shape)
    if lengths is None:
        return 0
    content = update_record(lengths, refill, shape, buffer_size, options.loader or LOADERS)
    print()
    for name, record in content["loaders"].items():
        print_loader(name, record, shape)
    print_summary(content["loaders"], content["nominal"])
    if options.json:
        freeze_json(options.json, {**content, "study": options.study, "inputs": inputs})
        print(f"\nwritten: {options.json}")
    if options.measure:
        from research.batch_boundaries.throughput import measure

        print()
        return measure(Prepared(ROOT, options.study, options.data))
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
