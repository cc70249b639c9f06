"""How many documents of each length does a study's training stream hold in one pass, and what follows from it?

Counts the lengths exactly and freezes them, with the documents, the tokens and the earliest possible pass of service
(paper, section 5.2) from each threshold up. Thresholds: capacity + 1, the powers of two above it, the longest.
check_length_histogram.py re-derives all of it from the counts.

Reads:   data/<study>/train/lengths.npy, protocols/<study>.json
Writes:  research/source_exclusion/length_histogram_<study>.json, once: other bytes are refused
Needs:   NumPy
Takes:   a second
Use:     python research/source_exclusion/freeze_length_histogram.py --study demo
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from corpora.prepared import prepared_file
from evidence import InputError, freeze_json, input_list, read_json, run_script, sha256_file

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def thresholds(capacity, longest):
    """The lengths from which up documents are counted: ascending, all above `capacity`, none when nothing is."""
    if longest <= capacity:
        return []
    powers = (2**n for n in range(1, 63))
    return sorted({capacity + 1, longest, *(power for power in powers if capacity < power < longest)})


def summarise(lengths, capacity, buffer_size):
    """The histogram and its consequences for int64 `lengths` (documents,), in exact integers."""
    import numpy as np
    values, counts = (array.tolist() for array in np.unique(lengths, return_counts=True))
    rows = []
    for length in thresholds(capacity, values[-1]):
        reached = lengths[lengths >= length]
        rows.append({"length": length, "documents": reached.size, "tokens": int(reached.sum()),
                     "earliest_pass": -(-buffer_size // reached.size)})
    return {"buffer_size": buffer_size, "capacity": capacity, "documents": lengths.size, "tokens": int(lengths.sum()),
            "histogram": [list(pair) for pair in zip(values, counts)], "thresholds": rows}


def read_lengths(path):
    """int64 (documents,) document lengths; InputError unless there is at least one and all are positive."""
    import numpy as np
    try:
        lengths = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a .npy file: {error}") from None
    if lengths.dtype != np.int64 or lengths.ndim != 1 or not lengths.size:
        raise InputError(f"{path}: expected int64 of shape (documents,), found {lengths.dtype} {lengths.shape}")
    if lengths.min() < 1:
        raise InputError(f"{path}: entry {int(lengths.argmin())}: expected at least 1 token, found {lengths.min()}")
    return lengths


def main(argv=None):
    """Freeze one study's histogram; 0 written or already the same, 2 refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, help="a protocol's name")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where prepared studies lie")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the frozen file")
    options = parser.parse_args(argv)
    protocol_path = ROOT / "protocols" / f"{options.study}.json"
    packing = read_json(protocol_path).get("packing", {})
    if not {"context", "buffer_size"} <= set(packing):
        raise InputError(f"{protocol_path}: packing: expected context and buffer_size, found {sorted(packing)}")
    path = prepared_file(options.data / options.study, "train/lengths.npy")
    summary = summarise(read_lengths(path), packing["context"] + 1, packing["buffer_size"])
    # The prepared study may lie elsewhere: its path in the repository is recorded.
    inputs = [{"path": f"data/{options.study}/train/lengths.npy", "sha256": sha256_file(path)},
              *input_list([protocol_path], ROOT)]
    target = options.output / f"length_histogram_{options.study}.json"
    freeze_json(target, {**summary, "inputs": inputs, "study": options.study})
    counts = f"{summary['documents']} documents, {summary['tokens']} tokens, {len(summary['histogram'])} lengths"
    print(f"{counts}: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
