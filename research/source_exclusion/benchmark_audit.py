"""How fast are the audit command, the planners and the reader of rows, and how does the audit grow?

Seeded lognormal lengths stand in for a corpus. `audit_stream.py` audits one pass of 1, 10 and 100 million documents,
each in a process of its own, as a user runs it. Its parts are timed on the smallest of these. In this process the
list-based reference (two linear scans of the buffer for each placement) packs the first rows of a stream, and every
loader packs the whole of it.

    benchmark_audit.py [--sizes 1000000 10000000 100000000] [--documents 800000] [--capacity 2049] [--buffer-size 1000]

Reads   nothing
Writes  a temporary file of 8 bytes for each document, removed at the end
Needs   NumPy, numba, matplotlib, torch
About   90 seconds on two cores, 4 GB of memory, 0.8 GB of disk

Exit 1: the account of a size is wrong, takes more than in proportion to its documents, or, for 100 million, 60 seconds
or 8 GB; the baseline gives other segments than the reference, is not 2,000 times as fast, or takes a second or more.
"""

import functools
import importlib
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

import evidence
from evidence import Checks, InputError, read_json, run_script
from research.theorem.packers import UnsortedPacker

HERE = Path(__file__).resolve().parent

SIZES = [1_000_000, 10_000_000, 100_000_000]
LARGE, LARGE_SECONDS, LARGE_BYTES = 100_000_000, 60, 8e9
MOST_GROWTH = 2  # of the time for each document, from the smallest size to the largest
STRATA = "128,512,2049,16384"
PIECE = 1_000_000
LOADERS = ("best_fit_crop", "random_span", "segment_first", "lossless", "backfill", "backfill_lossless")
REFILL_BATCH = 128
REPEATS = 5
REFERENCE_ROWS = 1500
READ_DOCUMENTS, READ_ROWS, MICROBATCH = 50_000, 12_800, 64
RATIO, SECONDS = 2000, 1.0


def synthetic_lengths(documents, seed=0):
    """Return int64 (documents,): lognormal lengths of mean about 740 tokens."""
    return 1 + np.random.default_rng(seed).lognormal(6.0, 1.1, documents).astype(np.int64)


def batches(documents):
    """Return int64 (batches,): batches of REFILL_BATCH documents and a short last one."""
    return np.diff([*range(0, documents, REFILL_BATCH), documents])


# -------------------------------------------------------------------------------------------- scale


def write_lengths(path, documents, capacity, keep):
    """Write an .npy of synthetic lengths; return (all tokens, those of the `keep` longest documents over a row)."""
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


def run_audit(path, out, capacity, buffer_size):
    """Run the audit command on a file of lengths; return (seconds, peak bytes of any audit so far, its record)."""
    command = [sys.executable, HERE / "audit_stream.py", "--lengths", path, "--capacity", capacity, "--buffer-size",
               buffer_size, "--refill", REFILL_BATCH, "--strata", STRATA, "--out", out]
    begin = time.perf_counter()
    child = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if child.returncode:
        raise InputError(f"{' '.join(map(str, command))}: exit code {child.returncode}: {child.stderr.strip()[-500:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    peak = unit * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return seconds, peak, read_json(out / "audit.json")["training"]["baseline"]


def check_size(checks, documents, capacity, buffer_size):
    """Audit a stream of `documents` documents; check account, time and memory, and return the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lengths.npy"
        tokens, longest = write_lengths(path, documents, capacity, buffer_size - 1)
        seconds, peak, record = run_audit(path, Path(folder) / "out", capacity, buffer_size)
    found, kept = record["tokens"], record["protected"]
    print(f"audit of {documents:>11,} documents {seconds:8.3f} s {1e9 * seconds / documents:9.1f} ns a document, "
          f"{record['selections'] / seconds:,.0f} segments/s, peak {peak / 1e9:.2f} GB", flush=True)
    fates = ", ".join(f"{found[fate]:,} {fate}" for fate in ("emitted", "discarded", "buffered"))
    missing = documents - record["documents"]["arrived"]  # the last row of a pass ends before its last batches arrive
    checks.expect(0 <= missing < buffer_size + REFILL_BATCH and found["arrived"] <= tokens
                  and found["arrived"] == found["emitted"] + found["discarded"] + found["buffered"],
                  f"{record['documents']['arrived']:,} documents arrived with {found['arrived']:,} tokens: {fates}")
    checks.expect(kept["started"] == 0 and kept["tokens"] <= longest,
                  f"{kept['documents']:,} protected documents, {kept['tokens']:,} tokens, none started")
    if documents >= LARGE:
        share = documents / LARGE
        checks.expect(seconds < LARGE_SECONDS * share and peak < LARGE_BYTES * share,
                      f"{seconds:.1f} s and {peak / 1e9:.2f} GB for {documents:,} documents")
    return seconds


def check_scale(checks, sizes, capacity, buffer_size):
    """Audit streams of growing size; check that the time for each document does not grow."""
    with tempfile.TemporaryDirectory() as folder:  # the first run compiles
        write_lengths(Path(folder) / "lengths.npy", min(sizes), capacity, 1)
        run_audit(Path(folder) / "lengths.npy", Path(folder) / "out", capacity, buffer_size)
    speeds = {documents: check_size(checks, documents, capacity, buffer_size) / documents for documents in sizes}
    growth = speeds[max(sizes)] / speeds[min(sizes)]
    checks.expect(growth < MOST_GROWTH, f"the largest size takes {growth:.2f} times as long a document as the smallest")


def time_parts(lengths, capacity, buffer_size):
    """Print how long the parts of one audit take: counting rows, planning, planning with the account, the record."""
    from research.source_exclusion.audit_records import audited, stream_record
    from research.source_exclusion.streams import make_packing, rows_of_passes, whole_stream

    edges = list(map(int, STRATA.split(",")))
    packing = make_packing("best_fit_crop", capacity, buffer_size, 0)
    stream = whole_stream(lengths, batches(len(lengths)))
    rows = rows_of_passes(stream, packing, 1)
    account = audited(stream, packing, edges, rows)
    parts = {"rows of the pass": lambda: rows_of_passes(stream, packing, 1),
             "plan": lambda: sum(map(len, packing.blocks(stream, rows))),
             "plan and account": lambda: audited(stream, packing, edges, rows),
             "record": lambda: stream_record(account, lengths, edges)}
    for name, work in parts.items():
        seconds, _ = fastest(work)
        print(f"part: {name:<18} {len(lengths):>9,} documents {seconds:8.3f} s "
              f"{1e9 * seconds / len(lengths):6.1f} ns a document")


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
    """Return (seconds, result) of the quickest of some runs, for the reference as for the loaders."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begin)
    return best, result


def same_segments(reference, plan):
    """Return whether the plan begins with the reference's segments."""
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
    """Measure and check everything; the exit code says whether it holds."""
    parser = evidence.parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N",
                        help="documents of the audits (default: 1, 10 and 100 million)")
    parser.add_argument("--documents", type=int, default=800_000, metavar="N",
                        help="documents of the loaders' stream (default: 800000)")
    parser.add_argument("--capacity", type=int, default=2049, metavar="N", help="tokens in a row (default: 2049)")
    parser.add_argument("--buffer-size", type=int, default=1000, metavar="N",
                        help="documents in the buffer (default: 1000)")
    options = parser.parse_args(argv)
    if min(options.sizes) < 2 * options.buffer_size or options.documents < READ_DOCUMENTS:
        raise InputError(f"--sizes and --documents: expected at least twice the buffer's {options.buffer_size} and "
                         f"{READ_DOCUMENTS}, found {min(options.sizes)} and {options.documents}")
    if options.capacity < 2 or options.buffer_size < 1:
        raise InputError("--capacity and --buffer-size: expected at least 2 and 1")
    checks, lengths = Checks(), synthetic_lengths(options.documents)
    check_scale(checks, options.sizes, options.capacity, options.buffer_size)
    time_parts(synthetic_lengths(min(options.sizes)), options.capacity, options.buffer_size)
    check_planners(checks, lengths, batches(len(lengths)), options.capacity, options.buffer_size)
    time_rows(lengths, options.capacity, options.buffer_size)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
