"""How many targets does one update really learn from, and how does that compare with its positions?

    count_targets.py                                   only the nominal count: 4 devices x 2 sequences x 512 x 8 steps
    count_targets.py --study demo                      the same shape filled from a prepared study, loader by loader
    count_targets.py --study demo --loader padded --ranks 2 --microbatch 8 --accumulation 1
    count_targets.py --lengths lengths.npy --context 512
    count_targets.py --study demo --measure            besides, seconds: padded against packed, the same targets

A row of capacity tokens gives the model capacity - 1 positions. Non-padding: positions that hold a token of a document.
Effective target: a position whose next token counts in the loss. The update's loss divides by the effective targets of
all its microbatches and ranks. Microbatch m of an update goes to rank m mod ranks.

Reads   nothing; or protocols/NAME.json and data/NAME/train/{lengths,refill}.npy (with --measure tokens.npy too)
Writes  targets_NAME.json beside this file, once, for a study in the default shape; measured seconds are only printed
Needs   NumPy, numba, tabulate; torch with --measure
About   a few seconds; --measure half a minute on one core

Source: the note "From Training Chunks to a Batch", section on gradient accumulation and effective-target accounting.
"""

import argparse
import importlib
import sys
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tabulate import tabulate

from evidence import InputError, freeze_json, run_script
from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, arrived_documents, row_targets
from research.batch_boundaries.study_lengths import read_counts, read_protocol, study_counts

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

LOADERS = ("best_fit_crop", "concatenated", "document_masked", "padded")
SHARE = Fraction(3, 4)
COUNTS, HEADERS = ("positions", "non_padding", "targets"), ("positions", "non-padding", "targets")


@dataclass(frozen=True)
class Shape:
    """An update: `ranks` devices, each with `accumulation` microbatches of `microbatch` rows of `context` positions."""

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
        """Positions of an update whose rows are all full, and the targets if only SHARE of them count."""
        positions = self.rows * self.context
        return {"positions": positions, "share": str(SHARE), "targets": int(SHARE * positions)}


# --------------------------------------------------------------------------------------- account


def account(tokens, targets, shape, fills):
    """int64 (microbatches, 3): positions, non-padding and effective targets of each microbatch, from those of its rows.

    Rows that need not be full are as wide as the longest of their microbatch, and hold one position at least.
    """
    tokens, targets = (counts.reshape(shape.microbatches, shape.microbatch) for counts in (tokens, targets))
    width = np.full(len(tokens), shape.context + 1) if fills else np.maximum(tokens.max(axis=1), 2)
    non_padding = np.minimum(tokens, width[:, None] - 1)
    return np.stack([(width - 1) * shape.microbatch, non_padding.sum(axis=1), targets.sum(axis=1)], axis=1)


def named(counts):
    return dict(zip(COUNTS, counts.tolist()))


def loader_record(loader, plan, shape):
    """Evidence on one loader's first update: its rows, and the account by microbatch, rank and update."""
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
    """(lengths, refill) of the whole refill batches that bring at least `documents` documents, over repeated passes."""
    passes, rest = divmod(documents, len(lengths))
    refill = np.resize(refill, passes * len(refill) + int(np.searchsorted(np.cumsum(refill), rest)) + (rest > 0))
    return np.resize(lengths, int(refill.sum())), refill


def update_record(lengths, refill, shape, buffer_size, names):
    """Evidence on one update of every loader over one stream, with the documents that had arrived for it."""
    found, arrived = {}, 0
    packing = {"capacity": shape.context + 1, "buffer_size": buffer_size}
    for name in names:
        loader = importlib.import_module(f"loaders.{name}").LOADER
        plan = loader.plan(lengths, rows=shape.rows, refill=refill, **packing)
        found[name] = loader_record(loader, plan, shape)
        held = arrived_documents(plan, lengths, refill, loader=loader, **packing)
        arrived = max(arrived, held, int(plan[:, ARRIVAL].max()) + 1)
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
    """Effective targets of every microbatch, a line a rank, then the rank's and the update's account."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--study", metavar="NAME")
    source.add_argument("--lengths", type=Path, metavar="FILE.npy")
    parser.add_argument("--loader", choices=LOADERS, action="append", help="default: all of them")
    for name in ("ranks", "microbatch", "accumulation"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Shape, name), help="the note's: %(default)s")
    parser.add_argument("--context", type=int, help=f"positions a row (a study's, else {Shape.context})")
    parser.add_argument("--buffer-size", type=int, help="of packing loaders (a study's, else 1000)")
    parser.add_argument("--measure", action="store_true", help="time padded against packed (needs --study)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where prepared studies lie")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the frozen file")
    options = parser.parse_args(argv)
    if options.measure and not options.study:
        parser.error("--measure needs --study NAME")
    return options


def read_source(options):
    """(Shape, buffer size, lengths, refill, inputs) of the command line; no lengths for the nominal count alone."""
    context, buffer_size, lengths, refill, inputs = Shape.context, 1000, None, None, []
    if options.study:
        packing = read_protocol(options.study)["packing"]
        context, buffer_size = packing["context"], packing["buffer_size"]
        (lengths, refill), inputs = study_counts(options.study, options.data, "lengths", "refill")
    elif options.lengths:
        lengths = read_counts(options.lengths, "lengths")
        refill = np.array([len(lengths)])
    context = context if options.context is None else options.context
    buffer_size = buffer_size if options.buffer_size is None else options.buffer_size
    shape = Shape(options.ranks, options.microbatch, context, options.accumulation)
    if min(buffer_size, *asdict(shape).values()) < 1:
        raise InputError(f"{shape}, --buffer-size {buffer_size}: every size must be 1 or more")
    return shape, buffer_size, lengths, refill, inputs


def main(argv=None):
    """Print the accounts, and freeze a study's in its default shape; 0, or 2 when they cannot be made."""
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
    if options.measure:
        from research.batch_boundaries.throughput import measure

        print()
        return measure(options.data / options.study, read_protocol(options.study))
    usual = Shape(context=shape.context) == shape and not (options.context or options.buffer_size or options.loader)
    if options.study and usual:
        path = options.output / f"targets_{options.study}.json"
        freeze_json(path, {**content, "study": options.study, "inputs": inputs})
        print(f"\n{path}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
