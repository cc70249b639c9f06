"""How long are the documents of a study, in which batches do they arrive, and what follows for a repeated corpus?

Freezes the lengths and refill batches of both splits, from which verify_source_exclusion.py derives every number of
this directory, and the histogram of the training lengths: documents, tokens, and the earliest pass in which a document
of at least some length can start (paper, section 5.2). Thresholds are capacity + 1, the powers of two above it, and the
longest length.

    freeze_lengths.py --study demo

Reads   data/NAME/{train,validation}/{lengths,refill}.npy and protocols/NAME.json
Writes  research/source_exclusion/NAME_{train,validation}_{lengths,refill}.npy and length_histogram_NAME.json, once:
        other bytes are refused
Needs   NumPy, numba
About   a second
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import evidence
from corpora.prepared import Prepared
from evidence import InputError, freeze_json, run_script, write_atomic

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "research/source_exclusion"
ARRAYS = [f"{split}/{name}.npy" for split in ("train", "validation") for name in ("lengths", "refill")]


def summarise(lengths, capacity, buffer_size):
    """Return the histogram of int64 `lengths` (documents,) and its consequences, in exact integers."""
    import numpy as np

    from research.source_exclusion.service import class_edges

    values, counts = (array.tolist() for array in np.unique(lengths, return_counts=True))
    rows = []
    for length in class_edges(lengths, capacity):
        reached = lengths[lengths >= length]
        if not reached.size:
            continue
        rows.append({"length": length, "documents": reached.size, "tokens": int(reached.sum()),
                     "earliest_pass": -(-buffer_size // reached.size)})
    return {"buffer_size": buffer_size, "capacity": capacity, "documents": lengths.size, "tokens": int(lengths.sum()),
            "histogram": [list(pair) for pair in zip(values, counts, strict=True)], "thresholds": rows}


def freeze_copy(source, target):
    """Copy the bytes of `source`; an existing `target` must hold the same ones."""
    data = source.read_bytes()
    if not target.exists():
        write_atomic(target, data)
    elif target.read_bytes() != data:
        raise InputError(f"{target}: frozen, and {source} has other bytes; prepare the study from its own protocol")


def main(argv=None):
    """Freeze one study's lengths; 0 written or already the same, 2 refused."""
    parser = evidence.parser(__doc__)
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol's name")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="folder of the repository")
    options = parser.parse_args(argv)
    prepared, folder = Prepared(options.root, options.study), options.root / FOLDER
    for name in ARRAYS:
        freeze_copy(prepared.path(name), folder / f"{prepared.directory.name}_{name.replace('/', '_')}")
    summary = summarise(prepared.lengths("train"), prepared.capacity, prepared.protocol["packing"]["buffer_size"])
    inputs = prepared.inputs(ARRAYS[:1], [prepared.protocol_path])
    target = folder / f"length_histogram_{prepared.study}.json"
    freeze_json(target, {**summary, "inputs": inputs, "study": prepared.study})
    counts = f"{summary['documents']} documents, {summary['tokens']} tokens, {len(summary['histogram'])} lengths"
    print(f"{counts}: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
