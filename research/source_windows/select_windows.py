"""Which beginnings and tails of held-out documents are scored?

Validation documents of one population are sorted into strata by BOS-inclusive length, and of each stratum at most
`per_stratum` are drawn without replacement. Each gives its beginning; each longer than a row also its last `context`
text tokens. Paper sections 4 and 5.5.

    select_windows.py --study NAME --population development|confirmation

Reads   protocols/NAME.json, protocols/evaluation_NAME.json, data/NAME/{validation,tokenizer}; for the confirmation
        also the duplicates that research/confirmation lists
Writes  runs/NAME/windows/POPULATION/: selection.json, lengths.npy (of the population's documents), windows.npy
        (document, length, stratum, tail, start, count), counts.npy (windows, bins, 3: supplied bytes, raw bytes,
        targets)
Needs   NumPy, tabulate. A few seconds; no model is run
"""

import argparse
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evidence import InputError, read_json, run_script
from research.frozen_arrays import digests, freeze, npy_bytes
from research.resampling import shuffled
from research.source_windows.windows import TAIL, add_arguments, name_of, study_of, window_tokens

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def draw(lengths, documents, edges, per_stratum, seed):
    """[(eligible, chosen)] of each stratum: how many of `documents`, and those drawn, int64 in stream order."""
    strata, drawn = np.searchsorted(edges, lengths[documents]), []
    for stratum in range(len(edges) + 1):
        eligible = documents[strata == stratum]
        chosen = eligible[shuffled([seed, stratum], len(eligible))[:per_stratum]]
        drawn.append((len(eligible), np.sort(chosen)))
    return drawn


def window_table(lengths, drawn, context):
    """int64 (windows, 6): the beginnings by stratum and document, then the tails likewise."""
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
    """int64 (windows, bins, 3): supplied bytes, raw bytes, targets by position; and the digest of inputs and targets.

    A target counts when its supplied byte length is positive. The digest is over the inputs, then the targets, of each
    window as little-endian uint32.
    """
    supplied, raw = byte_tables
    digest, counts = hashlib.sha256(), []
    for text in texts:
        digest.update(np.concatenate([[bos], text[:-1], text]).astype("<u4").tobytes())
        counted = supplied[text] > 0
        columns = np.stack([supplied[text], raw[text] * counted, counted], axis=1).astype(np.int64)
        edges = [0, *bins, len(text)]
        counts.append([columns[first:last].sum(axis=0) for first, last in zip(edges, edges[1:])])
    return np.array(counts, np.int64).reshape(len(counts), len(bins) + 1, 3), digest.hexdigest()


def select(study):
    """(selection.json without its files, {file: array})."""
    section, lengths = study.section, study.array("validation/lengths.npy")
    (first, last), seed = (section["populations"][study.population][key] for key in ("documents", "seed"))
    if last > len(lengths):
        raise InputError(f"{study.name}: {study.population} ends at document {last}, the validation split has "
                         f"{len(lengths)}")
    excluded = study.excluded()
    span = np.setdiff1d(np.arange(first, last), excluded)
    documents = span[lengths[span] > 1]
    drawn = draw(lengths, documents, section["strata"], section["per_stratum"], seed)
    windows = window_table(lengths, drawn, study.context)
    texts = window_tokens(windows, lengths, study.array("validation/tokens.npy"))
    tables = [np.load(study.prepared(f"tokenizer/bytes_{name}.npy")) for name in ("supplied", "raw")]
    bos = read_json(study.prepared("tokenizer/tokenizer.json"))["bos"]
    counts, fingerprint = count_and_digest(texts, tables, bos, section["bins"])
    strata = [{**stratum, "eligible": eligible, "sources": len(chosen), "census": 0 < eligible == len(chosen)}
              for stratum, (eligible, chosen) in zip(study.strata, drawn)]
    supplied, _, targets = counts.sum(axis=(0, 1)).tolist()
    record = {"study": study.name, "population": study.population, "inputs": study.inputs(),
              "context": study.context, "bos": bos, "documents": [first, last], "seed": seed, "excluded": excluded,
              "without_text": len(span) - len(documents), "per_stratum": section["per_stratum"],
              "bins": section["bins"], "strata": strata, "sources": int((windows[:, TAIL] == 0).sum()),
              "windows": len(windows), "targets": targets, "supplied_bytes": supplied, "fingerprint": fingerprint}
    return record, {"lengths.npy": np.array(lengths[first:last]), "windows.npy": windows, "counts.npy": counts}


def table(record):
    """The strata as text."""
    from tabulate import tabulate

    rows = [[name_of(s), s["eligible"], s["sources"], "census" if s["census"] else "sample" if s["sources"] else "none"]
            for s in record["strata"]]
    return tabulate(rows, ["length with BOS", "eligible", "drawn", ""], intfmt=",")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, ROOT)
    study = study_of(parser.parse_args(argv))
    record, arrays = select(study)
    if not len(arrays["windows.npy"]):
        raise InputError(f"{study.name}: no document of {study.population} has text")
    files = {name: npy_bytes(array) for name, array in arrays.items()}
    record["files"] = digests(files)
    freeze(study.folder / "selection.json", record, files)
    print(f"{record['sources']:,} documents give {record['windows']:,} windows with {record['targets']:,} targets\n")
    print(table(record))
    print(f"\nselection: {study.folder / 'selection.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
