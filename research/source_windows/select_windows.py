"""Which beginnings and tails of held-out documents are scored?

The validation documents of one population are grouped into strata by length (BOS included), and at most `per_stratum`
documents are drawn from each without replacement. Every document gives its beginning; every document longer than a row
also gives its last `context` text tokens (paper, sections 4 and 5.5).

    python research/source_windows/select_windows.py --study NAME --population development|confirmation [--root DIR]

Reads   protocols/NAME.json, protocols/evaluation_NAME.json and data/NAME/{validation,tokenizer}; for the confirmation
        also the duplicates that research/confirmation lists
Writes  runs/NAME/windows/POPULATION/: selection.json, lengths.npy (of the population's documents), windows.npy
        (document, length, stratum, tail, start, count) and counts.npy (windows, bins, 3: supplied bytes, raw bytes,
        targets)
Needs   NumPy and tabulate; it runs no model
About   a few seconds
"""

import hashlib
import sys
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import InputError, parser, run_script
from research.frozen_arrays import digests, freeze, npy_bytes
from research.resampling import shuffled
from research.source_windows.windows import TAIL, add_arguments, name_of, window_tokens, windows_of

ROOT = Path(__file__).resolve().parents[2]


def draw(lengths, documents, edges, per_stratum, seed):
    """Draw from each stratum: [(number of eligible `documents`, those chosen, int64 in stream order)]."""
    strata, drawn = np.searchsorted(edges, lengths[documents]), []
    for stratum in range(len(edges) + 1):
        eligible = documents[strata == stratum]
        chosen = eligible[shuffled([seed, stratum], len(eligible))[:per_stratum]]
        drawn.append((len(eligible), np.sort(chosen)))
    return drawn


def window_table(lengths, drawn, context):
    """List the beginnings by stratum and document, then the tails likewise: int64 (windows, 6)."""
    rows = []
    for tail in (0, 1):
        for stratum, (_, chosen) in enumerate(drawn):
            for document in chosen.tolist():
                length = int(lengths[document])
                if not tail or length > context + 1:
                    count = min(length - 1, context)
                    rows.append((document, length, stratum, tail, tail * (length - 1 - count), count))
    return np.array(rows, np.int64).reshape(-1, 6)


def count_and_digest(texts, byte_tables, bos, bins):
    """Return counts by position, int64 (windows, bins, 3: supplied bytes, raw bytes, targets), and a digest.

    A target counts when its supplied byte length is positive. The digest covers the inputs, then the targets, of each
    window as little-endian uint32.
    """
    supplied, raw = byte_tables
    digest, counts = hashlib.sha256(), []
    for text in texts:
        digest.update(np.concatenate([[bos], text[:-1], text]).astype("<u4").tobytes())
        counted = supplied[text] > 0
        columns = np.stack([supplied[text], raw[text] * counted, counted], axis=1).astype(np.int64)
        edges = [0, *bins, len(text)]
        counts.append([columns[first:last].sum(axis=0) for first, last in pairwise(edges)])
    return np.array(counts, np.int64).reshape(len(counts), len(bins) + 1, 3), digest.hexdigest()


def select(windows):
    """Return (selection.json without its files, {file: array}) of a population's Windows."""
    section, prepared = windows.section, windows.prepared
    lengths = prepared.lengths("validation")
    (first, last), seed = (section["populations"][windows.population][key] for key in ("documents", "seed"))
    if last > len(lengths):
        key = f"source_windows.populations.{windows.population}.documents"
        raise InputError(f"{windows.paths[1]}: {key}: ends at {last}, but the validation split of {windows.name} has "
                         f"{len(lengths)} documents")
    excluded = windows.excluded()
    span = np.setdiff1d(np.arange(first, last), excluded)
    documents = span[lengths[span] > 1]
    drawn = draw(lengths, documents, section["strata"], section["per_stratum"], seed)
    chosen = window_table(lengths, drawn, windows.context)
    texts = window_tokens(chosen, prepared)
    counts, fingerprint = count_and_digest(texts, prepared.byte_tables, prepared.bos, section["bins"])
    strata = [{**stratum, "eligible": eligible, "sources": len(members), "census": 0 < eligible == len(members)}
              for stratum, (eligible, members) in zip(windows.strata, drawn, strict=True)]
    supplied, _, targets = counts.sum(axis=(0, 1)).tolist()
    record = {"study": windows.name, "population": windows.population, "inputs": windows.inputs(),
              "context": windows.context, "bos": prepared.bos, "documents": [first, last], "seed": seed,
              "excluded": excluded, "without_text": len(span) - len(documents), "per_stratum": section["per_stratum"],
              "bins": section["bins"], "strata": strata, "sources": int((chosen[:, TAIL] == 0).sum()),
              "windows": len(chosen), "targets": targets, "supplied_bytes": supplied, "fingerprint": fingerprint}
    return record, {"lengths.npy": np.array(lengths[first:last]), "windows.npy": chosen, "counts.npy": counts}


def table(record):
    """Format the strata as a text table."""
    from tabulate import tabulate

    rows = [[name_of(s), s["eligible"], s["sources"], "census" if s["census"] else "sample" if s["sources"] else "none"]
            for s in record["strata"]]
    return tabulate(rows, ["length with BOS", "eligible", "drawn", ""], intfmt=",")


def main(argv=None):
    arguments = parser(__doc__)
    add_arguments(arguments, ROOT)
    windows = windows_of(arguments.parse_args(argv))
    record, arrays = select(windows)
    if not len(arrays["windows.npy"]):
        raise InputError(f"{windows.name}: no document of {windows.population} has text")
    files = {name: npy_bytes(array) for name, array in arrays.items()}
    record["files"] = digests(files)
    freeze(windows.folder / "selection.json", record, files)
    print(f"{record['sources']:,} documents give {record['windows']:,} windows with {record['targets']:,} targets\n")
    print(table(record))
    print(f"\nselection: {windows.folder / 'selection.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
