"""How fast are plans and rows made, and how much faster than the same rule on Python lists?

Seeded lognormal lengths stand in for a corpus. In one run, on one core: the list-based reference (two linear scans of
the buffer a placement) on the first rows of the stream, every loader on the whole of it, and the reader of rows. The
compiled baseline must give the reference's segments, be over 1,000 times as fast and plan the stream in under a second.

Reads: nothing. Writes: nothing. Needs: NumPy, numba, torch. About 10 seconds and 0.5 GB.

    python research/source_exclusion/benchmark_planners.py [--documents 800000] [--capacity 2049] [--buffer-size 1000]

Exit 0: all of this holds. 1: segments differ, or a speed is missed. 2: bad use.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from evidence import InputError, run_script  # noqa: E402

LOADERS = ("best_fit_crop", "random_span", "segment_first", "lossless")
REFILL_BATCH = 128
REPEATS = 5
REFERENCE_ROWS = 1500
READ_DOCUMENTS, READ_ROWS, MICROBATCH = 50_000, 12_800, 64
RATIO, SECONDS = 1000, 1.0


def synthetic_stream(documents):
    """(lengths, refill): int64 lognormal lengths of mean about 740 tokens, in batches of 128 and a short last one."""
    import numpy as np

    lengths = 1 + np.random.default_rng(0).lognormal(6.0, 1.1, documents).astype(np.int64)
    return lengths, np.diff([*range(0, documents, REFILL_BATCH), documents])


def list_segments(lengths, refill, capacity, rows, buffer_size):
    """The baseline on Python lists: [(row, arrival, tokens)], documents and buffer scanned one by one."""
    buffer, segments, arrived, batch = [], [], 0, 0
    for row in range(rows):
        space = capacity
        while space:
            while len(buffer) < buffer_size:
                size = refill[batch % len(refill)]
                buffer += [(arrived + i, lengths[(arrived + i) % len(lengths)]) for i in range(size)]
                arrived, batch = arrived + size, batch + 1
            best, longest = -1, 0
            for index, (_, length) in enumerate(buffer):
                if longest < length <= space:
                    best, longest = index, length
            if best < 0:
                best = min(range(len(buffer)), key=lambda index: buffer[index][1])
            arrival, length = buffer.pop(best)
            segments.append((row, arrival, min(length, space)))
            space -= segments[-1][2]
    return segments


def fastest(work):
    """(seconds, result) of the quickest of some runs, for the reference as for the loaders."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begin)
    return best, result


def same_segments(reference, plan):
    """Whether the plan begins with the reference's segments."""
    import numpy as np

    plan = plan[: len(reference)]
    return np.array_equal(np.array(reference), np.stack([plan[:, 0], plan[:, 1], plan[:, 2] + plan[:, 4]], axis=1))


def compare_planners(lengths, refill, capacity, buffer_size):
    """Time the reference and all loaders; return the list of what does not hold."""
    sizes = {"capacity": capacity, "buffer_size": buffer_size, "refill": refill}
    lists = lengths.tolist(), refill.tolist()
    slow, reference = fastest(lambda: list_segments(*lists, capacity, REFERENCE_ROWS, buffer_size))
    slow_speed = len(reference) / slow
    print(f"list-based reference {len(reference):>9,} segments {slow:8.3f} s {slow_speed:>14,.0f} segments/s")
    failures = []
    for name in LOADERS:
        plan = importlib.import_module(f"loaders.{name}").plan
        horizon = int(plan(lengths, rows=len(lengths), seed=1, **sizes)[len(lengths) - 1, 0]) + 1
        fast, segments = fastest(lambda: plan(lengths, rows=horizon, seed=1, **sizes))
        ratio = len(segments) / fast / slow_speed
        print(f"{name:<20} {len(segments):>9,} segments {fast:8.3f} s {len(segments) / fast:>14,.0f} segments/s, "
              f"{ratio:,.0f} times the reference")
        if name == "best_fit_crop":
            wrong = not same_segments(reference, segments)
            failures += [f"{name}: segments differ from the reference"] * wrong
            failures += [f"{name}: {ratio:,.0f} times the reference, expected over {RATIO:,}"] * (ratio <= RATIO)
            failures += [f"{name}: {fast:.3f} s, expected under {SECONDS} s"] * (fast >= SECONDS)
    return failures


def time_rows(lengths, capacity, buffer_size):
    """Print how many rows a second the reader builds and turns into int64 batches on the CPU."""
    import numpy as np

    from loaders import best_fit_crop
    from loaders.rows import RowReader, stream

    lengths = lengths[:READ_DOCUMENTS]
    sizes = {"capacity": capacity, "buffer_size": buffer_size, "refill": [len(lengths)]}
    plan = best_fit_crop.plan(lengths, rows=READ_ROWS, **sizes)
    tokens = np.random.default_rng(1).integers(0, 8188, int((lengths - 1).sum()), dtype=np.uint16)
    reader = RowReader(plan, tokens, lengths, 8188, capacity)
    spans = [(first, first + MICROBATCH) for first in range(0, READ_ROWS, MICROBATCH)]
    for what, work in (("rows built", lambda: [reader.rows(*span).size for span in spans]),
                       ("rows as batches", lambda: [inputs.numel() for _, inputs, _ in stream(reader, spans, "cpu")])):
        taken, _ = fastest(work)
        print(f"{what:<20} {READ_ROWS:>9,} rows     {taken:8.3f} s {READ_ROWS / taken:>14,.0f} rows/s")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=800_000)
    parser.add_argument("--capacity", type=int, default=2049)
    parser.add_argument("--buffer-size", type=int, default=1000)
    options = parser.parse_args(argv)
    if options.documents < READ_DOCUMENTS:
        raise InputError(f"--documents: expected at least {READ_DOCUMENTS}, found {options.documents}")
    if options.capacity < 2 or options.buffer_size < 1:
        raise InputError("--capacity and --buffer-size: expected at least 2 and 1")
    lengths, refill = synthetic_stream(options.documents)
    failures = compare_planners(lengths, refill, options.capacity, options.buffer_size)
    time_rows(lengths, options.capacity, options.buffer_size)
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{3 - len(failures)} of 3 checks hold for {options.documents:,} documents (nothing written)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run_script(main))
