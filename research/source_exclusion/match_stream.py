"""Is the audited plan what a plain loader, which goes from text to rows, does with the text?

slow_loader.py is written in the simplest way: it opens parquet, tokenises the texts, keeps a list, scans the whole list
at every selection, and builds rows of token ids. It shares no code with loaders/ or corpora/. This script compares
every selection and the hashes of the rows (paper, section 4, "Exact stream audits").

    match_stream.py --study demo [--rows N]

Reads   protocols/NAME.json, data/NAME/ (the shards that prepared.json names); where trained, runs/NAME/*/result.json
Writes  nothing
Needs   NumPy, numba, torch, pyarrow, tiktoken
About   20 seconds for `demo`; for `climbmix` use --rows, because each selection scans 1,000 entries

Exit 1: a selection, a span or a row differs; the line says which one and how.
"""

import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

import evidence
from corpora.prepared import Prepared
from evidence import Checks, InputError, read_json, run_script
from research.source_exclusion.audit_inputs import ROOT, study_packing, study_stream
from research.source_exclusion.slow_loader import SlowLoader, read_encoding, text_batches

FIRST_MICROBATCHES, EVALUATION_BATCHES, SPAN_BATCHES, SEGMENTED_ROWS = 8, 4, 16, 512


def run_slow(study, split, rows, chunk=False):
    """Return (SlowLoader after `rows` rows, the rows) over the shards that one split was prepared from."""
    prepared, packing = study.prepared, study.prepared.protocol["packing"]
    batches = text_batches(prepared.shards(split), prepared.text_column, packing["refill_batch"])
    loader = SlowLoader(batches, study.encoding, study.bos, packing["context"] + 1, packing["buffer_size"], chunk)
    return loader, [loader.row(number) for number in range(rows)]


# ------------------------------------------------------------------------------------- the checks


class Study(NamedTuple):
    """A Prepared study, its tiktoken encoding and the id of its BOS."""

    prepared: Prepared
    encoding: object
    bos: int

    def planned(self, loader, split, rows):
        """Return (plan, reader of its rows) by a file of loaders/."""
        from loaders.rows import RowReader

        stream, packing = study_stream(self.prepared, split), study_packing(self.prepared, loader)
        plan = packing.plan(stream, rows)
        return plan, RowReader(plan, self.prepared.tokens(split), stream.lengths, self.bos, packing.capacity)


def first_unlike(found, expected):
    """Return where two lists first differ, as text; '' when they are equal."""
    for place, pair in enumerate(zip(found, expected)):
        if pair[0] != pair[1]:
            return f"; at {place} the plan has {pair[0]}, the slow loader {pair[1]}"
    return "" if len(found) == len(expected) else f"; the plan has {len(found)}, the slow loader {len(expected)}"


def check_selections(checks, name, plan, slow):
    """Check row, arrival, BOS, start and count of every selection."""
    expected = [(row, arrival, 1, start, len(ids) - 1) for row, arrival, start, ids, _ in slow.selections]
    unlike = first_unlike(list(map(tuple, plan.tolist())), expected)
    crops = sum(bool(dropped) for *_, dropped in slow.selections)
    checks.expect(not unlike, f"{name}: {len(expected):,} selections of {slow.arrived:,} arrived documents, "
                  f"{crops:,} of them crops, are the plan's{unlike}")


def check_batches(checks, name, reader, rows, size, count, known=None):
    """Check that the first `count` batches of `size` rows have one digest from plan and tokens, and from text."""
    from loaders.rows import digest

    dtype, count = reader.tokens.dtype, min(count, len(rows) // size)
    found = [digest(reader.rows(at * size, (at + 1) * size)) for at in range(count)]
    expected = [digest(np.array(rows[at * size : (at + 1) * size], dtype=dtype)) for at in range(count)]
    checks.expect(count and found == expected, f"{name}: {count} batches of {size} rows by hash, the first "
                  f"{found[0][:12]}...{first_unlike(found, expected)}")
    for run, first in (known or {}).items():
        checks.expect(first == expected[0], f"{run}: trained first on that batch, {first[:12]}...")


def drawn_starts(texts, counts, seed):
    """Return ([start of each span], number of draws): a uniform draw from PCG64(seed) a cropped text, else 0."""
    free = np.array([len(text) - count for text, count in zip(texts, counts)])
    cropped = (free > 0) & (np.array(counts) > 0)
    starts = np.zeros(len(texts), np.int64)
    starts[cropped] = np.random.Generator(np.random.PCG64(seed)).integers(0, free[cropped], endpoint=True)
    return starts.tolist(), int(cropped.sum())


def planned_spans(reader, lengths):
    """Return [(hash of the document's text, tokens, start)] of the selections of a plan, from the prepared tokens."""
    ends, spans = np.cumsum(lengths - 1).tolist(), []
    for _, arrival, _, start, count in reader.plan.tolist():
        document = arrival % len(lengths)
        spans.append((sha(reader.tokens[ends[document] - lengths[document] + 1 : ends[document]]), count, start))
    return spans


def check_spans(checks, study, reader, slow):
    """Check documents (by hash), counts and offsets of random spans; return the rows of the slow loader's spans."""
    texts = [np.array(taken + dropped, dtype=reader.tokens.dtype)[1:] for *_, taken, dropped in slow.selections]
    counts = [len(taken) - 1 for *_, taken, _ in slow.selections]
    starts, drawn = drawn_starts(texts, counts, study.prepared.protocol["packing"]["span_seed"])
    expected = list(zip(map(sha, texts), counts, starts))
    unlike = first_unlike(planned_spans(reader, study_stream(study.prepared, "train").lengths), expected)
    checks.expect(drawn and not unlike, f"random spans: {len(texts):,} selections by document hash, length and offset, "
                  f"{drawn:,} of them drawn, mean start {np.mean(starts):.1f}{unlike}")
    rows = [[] for _ in range(reader.count)]
    for (row, *_), text, count, start in zip(slow.selections, texts, counts, starts):
        rows[row] += [study.bos, *text[start : start + count].tolist()]
    return rows


def sha(ids):
    """Return the hex SHA-256 of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(ids)).hexdigest()


def first_microbatches(runs, condition, seeds):
    """Return {run: digest of the first microbatch that it trained on} of the finished runs of a condition."""
    paths = {f"{condition}_s{seed}": runs / f"{condition}_s{seed}" / "result.json" for seed in seeds}
    return {name: read_json(path)["digests"]["first_microbatch"] for name, path in paths.items() if path.exists()}


def match(checks, study, rows, runs):
    """Make all comparisons of a study over its first `rows` training rows."""
    conditions = {loader: condition for condition, loader in study.prepared.protocol["conditions"].items()}
    size, seeds = study.prepared.protocol["training"]["microbatch"], study.prepared.protocol["seeds"]

    def compare(name, loader, split, rows, size, count):
        """Check selections and batches of one loader; return the slow loader."""
        plan, reader = study.planned(loader, split, rows)
        slow, slow_rows = run_slow(study, split, rows, chunk=loader == "segment_first")
        check_selections(checks, name, plan, slow)
        known = first_microbatches(runs, conditions.get(loader), seeds) if split == "train" else {}
        check_batches(checks, name, reader, slow_rows, size, count, known)
        return slow

    slow = compare("baseline", "best_fit_crop", "train", rows, size, FIRST_MICROBATCHES)
    span_rows = min(rows, SPAN_BATCHES * size)
    _, reader = study.planned("random_span", "train", span_rows)
    slow.selections = [selection for selection in slow.selections if selection[0] < span_rows]
    known = first_microbatches(runs, conditions.get("random_span"), seeds)
    check_batches(checks, "random spans", reader, check_spans(checks, study, reader, slow), size, SPAN_BATCHES, known)
    compare("segmented", "segment_first", "train", min(rows, SEGMENTED_ROWS), size, SEGMENTED_ROWS // size)
    size = study.prepared.protocol["evaluation"]["microbatch"]
    held_out = min(study.prepared.scored_rows, EVALUATION_BATCHES * size)
    compare("validation", "best_fit_crop", "validation", held_out, size, EVALUATION_BATCHES)


def main(argv=None):
    parser = evidence.parser(__doc__)
    parser.add_argument("--study", required=True, metavar="NAME", help="in protocols/, or the path of one (.json)")
    parser.add_argument("--rows", type=int, metavar="N", help="training rows to compare (default: all rows of a run)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR",
                        help="prepared studies (default: data/)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="trained runs (default: runs/)")
    args = parser.parse_args(argv)
    prepared = Prepared(ROOT, args.study, args.data)
    rows, microbatch = prepared.training_rows, prepared.protocol["training"]["microbatch"]
    if args.rows is not None:
        if not microbatch <= args.rows <= rows:
            raise InputError(f"--rows {args.rows}: expected {microbatch}..{rows}, a microbatch to all rows of a run")
        rows = args.rows
    checks = Checks()
    match(checks, Study(prepared, *read_encoding(prepared.directory / "tokenizer")), rows, args.runs / prepared.study)
    return checks.close()


if __name__ == "__main__":
    sys.exit(run_script(main))
