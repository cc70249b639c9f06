"""How fast are plans, rows and the audit, how much faster than the same rule on lists, and how do they grow?

Seeded lognormal lengths stand in for a corpus. In one run, on one core: the audit of one pass of 1, 10 and 100 million
documents, each in a new process, lengths mapped from disk and the plan never held; the list-based reference (two linear
scans of the buffer a placement) on the first rows of a stream, every loader on the whole of it, and the reader of rows.

    benchmark_audit.py [--sizes 1000000 10000000 100000000] [--documents 800000] [--capacity 2049] [--buffer-size 1000]

Reads   nothing
Writes  a temporary file of 8 bytes a document, removed at the end
Needs   NumPy, numba, torch; Linux, for the peak memory of a process
About   40 seconds and 3.4 GB of memory, 0.8 GB of disk

Exit 1: the account of a size is wrong, takes more than in proportion to its documents, or, for 100 million, 30 seconds
or 4 GB; the baseline gives other segments than the reference, is not 1,000 times as fast, or takes a second or more.
"""

import argparse
import functools
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import Checks, InputError, run_script
from research.theorem.packers import UnsortedPacker

HERE = Path(__file__).resolve().parent

SIZES = [1_000_000, 10_000_000, 100_000_000]
LARGE, LARGE_SECONDS, LARGE_BYTES = 100_000_000, 30, 4e9
MOST_GROWTH = 2  # of the time a document, from the smallest size to the largest: linear but for caches and noise
PIECE, WARM_UP = 1_000_000, 5_000
LOADERS = ("best_fit_crop", "random_span", "segment_first", "lossless")
REFILL_BATCH = 128
REPEATS = 5
REFERENCE_ROWS = 1500
READ_DOCUMENTS, READ_ROWS, MICROBATCH = 50_000, 12_800, 64
RATIO, SECONDS = 2000, 1.0


def synthetic_lengths(documents, seed=0):
    """int64 (documents,): lognormal lengths of mean about 740 tokens."""
    import numpy as np

    return 1 + np.random.default_rng(seed).lognormal(6.0, 1.1, documents).astype(np.int64)


def batches(documents):
    """int64 (batches,): batches of REFILL_BATCH documents and a short last one."""
    import numpy as np

    return np.diff([*range(0, documents, REFILL_BATCH), documents])


# -------------------------------------------------------------------------------------------- scale


def write_lengths(path, documents, capacity, keep):
    """Write an .npy of synthetic lengths piece by piece; (all tokens, those of the `keep` longest
    documents that exceed a row)."""
    import numpy as np

    total, top = 0, np.empty(0, np.int64)
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (documents,)})
        for piece, begin in enumerate(range(0, documents, PIECE)):
            lengths = synthetic_lengths(min(PIECE, documents - begin), piece)
            lengths.tofile(file)
            total += int(lengths.sum())
            top = np.sort(np.concatenate([top, lengths[lengths > capacity]]), kind="stable")
            top = top[max(len(top) - keep, 0) :]
    return total, int(top.sum())


def audit_file(path, capacity, buffer_size):
    """Audit one pass of a file of lengths: {seconds, peak_bytes, totals as replay.Replay.totals}."""
    import numpy as np

    from loaders.accounting import positive_integers
    from research.source_exclusion.replay import replay
    from research.source_exclusion.streams import make_packing, whole_stream

    packing, mapped = make_packing("best_fit_crop", capacity, buffer_size, 0), np.load(path, mmap_mode="r")
    first = positive_integers("lengths", mapped[:WARM_UP])
    list(replay(whole_stream(first, batches(len(first))), packing, 1, [capacity + 1]))  # compiles
    begin = time.perf_counter()
    lengths = positive_integers("lengths", mapped)
    (account,) = replay(whole_stream(lengths, batches(len(lengths))), packing, 1, [capacity + 1])
    totals = account.totals()
    return {"seconds": time.perf_counter() - begin, "peak_bytes": peak_bytes(), "totals": totals}


def peak_bytes():
    """The most memory this process has held, mapped files included."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def audit_in_child(path, capacity, buffer_size):
    """audit_file in a process of its own, so that the peak memory is that of this file."""
    command = [sys.executable, __file__, "--audit", str(path), "--capacity", str(capacity),
               "--buffer-size", str(buffer_size)]
    child = subprocess.run(command, capture_output=True, text=True)
    if child.returncode:
        raise InputError(f"{' '.join(command)}: exit code {child.returncode}: {child.stderr.strip()[-500:]}")
    return json.loads(child.stdout)


def check_scale(checks, sizes, capacity, buffer_size):
    """Audit streams of growing size; check the account, the time and the memory."""
    speeds = {}
    for documents in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lengths.npy"
            tokens, longest = write_lengths(path, documents, capacity, buffer_size - 1)
            found = audit_in_child(path, capacity, buffer_size)
        speeds[documents] = found["seconds"] / documents
        totals, seconds, gigabytes = found["totals"], found["seconds"], found["peak_bytes"] / 1e9
        arrived, protected = totals["tokens"]["arrived"], totals["protected"]
        print(f"audit of {documents:>11,} documents {seconds:8.3f} s {1e9 * speeds[documents]:6.1f} ns a document, "
              f"{totals['documents']['started'] / seconds:,.0f} segments/s, peak {gigabytes:.2f} GB", flush=True)
        fates = ", ".join(f"{totals['tokens'][fate]:,} {fate}" for fate in ("emitted", "discarded", "buffered"))
        checks.expect(arrived == tokens and totals["documents"]["arrived"] == documents,
                      f"{documents:,} documents arrived with {arrived:,} tokens: {fates}")
        checks.expect(protected["started"] == 0 and protected["tokens"] == longest,
                      f"{protected['documents']:,} protected documents, {protected['tokens']:,} tokens, none started")
        if documents >= LARGE:
            share = documents / LARGE
            checks.expect(seconds < LARGE_SECONDS * share and found["peak_bytes"] < LARGE_BYTES * share,
                          f"{seconds:.1f} s and {gigabytes:.2f} GB for {documents:,} documents, the plan not held")
    growth = speeds[max(sizes)] / speeds[min(sizes)]
    checks.expect(growth < MOST_GROWTH, f"the largest size takes {growth:.2f} times as long a document as the smallest")


# ------------------------------------------------------------------------------------------- speeds


def list_segments(lengths, refill, capacity, rows, buffer_size):
    """Return the baseline's [(row, arrival, tokens)] from the packer that scans its list at every selection."""
    packer, segments = UnsortedPacker(lengths, refill, capacity=capacity, buffer_size=buffer_size), []
    while packer.row < rows:
        packer.refill()
        row, arrival, bos, _, count, _ = packer.select()
        segments.append((row, arrival, bos + count))
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


def check_planners(checks, lengths, refill, capacity, buffer_size):
    """Time the reference and all loaders, and check the baseline."""
    sizes = {"capacity": capacity, "buffer_size": buffer_size, "refill": refill}
    lists = lengths.tolist(), refill.tolist()
    slow, reference = fastest(lambda: list_segments(*lists, capacity, REFERENCE_ROWS, buffer_size))
    slow_speed = len(reference) / slow
    print(f"list-based reference {len(reference):>9,} segments {slow:8.3f} s {slow_speed:>14,.0f} segments/s")
    for name in LOADERS:
        plan = importlib.import_module(f"loaders.{name}").plan
        horizon = int(plan(lengths, rows=len(lengths), seed=1, **sizes)[len(lengths) - 1, 0]) + 1
        fast, segments = fastest(functools.partial(plan, lengths, rows=horizon, seed=1, **sizes))
        ratio = len(segments) / fast / slow_speed
        print(f"{name:<20} {len(segments):>9,} segments {fast:8.3f} s {len(segments) / fast:>14,.0f} segments/s, "
              f"{ratio:,.0f} times the reference")
        if name == "best_fit_crop":
            checks.expect(same_segments(reference, segments), f"{name}: the reference's {len(reference):,} segments")
            checks.expect(ratio > RATIO, f"{name}: {ratio:,.0f} times as fast as the reference")
            checks.expect(fast < SECONDS, f"{name}: {fast:.3f} s for {len(lengths):,} documents")


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


# ------------------------------------------------------------------------------------------ command


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="documents of the audits")
    parser.add_argument("--documents", type=int, default=800_000, help="of the loaders' stream (default 800000)")
    parser.add_argument("--capacity", type=int, default=2049)
    parser.add_argument("--buffer-size", type=int, default=1000)
    parser.add_argument("--audit", type=Path, metavar="FILE", help="only audit this file of lengths, and print JSON")
    options = parser.parse_args(argv)
    if min(options.sizes) < options.buffer_size or options.documents < READ_DOCUMENTS:
        raise InputError(f"--sizes and --documents: expected at least the buffer's {options.buffer_size} and "
                         f"{READ_DOCUMENTS}, found {min(options.sizes)} and {options.documents}")
    if options.capacity < 2 or options.buffer_size < 1:
        raise InputError("--capacity and --buffer-size: expected at least 2 and 1")
    if options.audit:
        print(json.dumps(audit_file(options.audit, options.capacity, options.buffer_size)))
        return 0
    checks, lengths = Checks(), synthetic_lengths(options.documents)
    check_scale(checks, options.sizes, options.capacity, options.buffer_size)
    check_planners(checks, lengths, batches(len(lengths)), options.capacity, options.buffer_size)
    time_rows(lengths, options.capacity, options.buffer_size)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
