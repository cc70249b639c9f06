"""Which tokens count for other bytes in the official score than they contribute to the text, and does it matter?

The score divides by *supplied* bytes: the UTF-8 length of each token decoded alone, in which Python replaces every
partial character by U+FFFD, three bytes. The *raw* bytes of a token are the bytes of its key in ranks.txt (paper,
section 8).

    python research/token_bytes/audit_token_bytes.py --study NAME [--root DIR] [--freeze]

Reads   protocols/NAME.json, data/NAME/{tokenizer,train,validation}/ and, where it exists,
        research/matched_training/NAME.json
Writes  with --freeze, NAME.json beside this script: every token whose two lengths differ, and how often it occurs in
        the training corpus, in the inputs of one baseline run, and among the targets of the official score
Needs   torch and numba (loaders/), and the study prepared
About   5 seconds for `demo`, 10 for `wheels`

Exit 1: a byte table of the prepared data is not what the bytes of the tokens give. Each wrong entry is named.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from corpora.prepared import Prepared
from evidence import Checks, freeze_json, parser, read_json, run_script

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "research/token_bytes"

REPORTED = {"source": "paper, section 8", "differing_types": 138, "share_of_training_input_tokens": "about 0.24%"}
CLASSES = {
    "single_byte": "one byte of a longer character",
    "partial_alone": "several bytes of one character",
    "partial_and_text": "one partial character beside whole ones",
    "several_partials": "two partial characters or more",
}
FILES = ("tokenizer/bytes_raw.npy", "tokenizer/bytes_supplied.npy", "tokenizer/ranks.txt", "tokenizer/tokenizer.json",
         *(f"{split}/{name}.npy" for split in ("train", "validation") for name in ("lengths", "refill", "tokens")))
CHUNK = 512
REPLACEMENT = len("\ufffd".encode())

# ------------------------------------------------------------------------------------------- tokens


def pieces(token):
    """Split a token into [(bytes, whether they are whole characters)]; each partial character is its own piece."""
    found = []
    while token:
        try:
            token.decode()
            return [*found, (token, True)]
        except UnicodeDecodeError as error:
            if error.start:
                found.append((token[: error.start], True))
            found.append((token[error.start : error.end], False))
            token = token[error.end :]
    return found


def supplied_length(token):
    """Count the UTF-8 bytes of the token decoded alone."""
    return sum(len(piece) if whole else REPLACEMENT for piece, whole in pieces(token))


def class_of(token):
    """Return the key of CLASSES for a token that holds a partial character."""
    if len(token) == 1:
        return "single_byte"
    whole = [is_whole for _, is_whole in pieces(token)]
    if whole.count(False) > 1:
        return "several_partials"
    return "partial_and_text" if True in whole else "partial_alone"


def table_findings(tokens, tables, size):
    """Describe each entry of a prepared byte table that differs from what the tokens give; specials count 0 bytes."""
    expected = {"supplied": [supplied_length(token) for token in tokens], "raw": [len(token) for token in tokens]}
    findings = []
    for name, lengths in expected.items():
        lengths += [0] * (size - len(tokens))
        if len(tables[name]) != size:
            findings.append(f"bytes_{name}.npy: {size} tokens, but {len(tables[name])} entries")
            continue
        wrong = np.flatnonzero(tables[name] != lengths).tolist()
        findings += [f"bytes_{name}.npy: token {i}: expected {lengths[i]}, found {tables[name][i]}" for i in wrong]
    return findings


# ------------------------------------------------------------------------------------------ streams


def count_rows(prepared, split, rows, column):
    """Count each token in the slice `column` of the baseline's first `rows` rows of a split: int64 (vocabulary,)."""
    from loaders import best_fit_crop
    from loaders.rows import RowReader

    lengths, refill, packing = prepared.lengths(split), prepared.refill(split), prepared.protocol["packing"]
    plan = best_fit_crop.plan(lengths, capacity=prepared.capacity, rows=rows, buffer_size=packing["buffer_size"],
                              refill=refill)
    reader = RowReader(plan, prepared.tokens(split), lengths, prepared.bos, prepared.capacity)
    counts = np.zeros(prepared.protocol["tokenizer"]["vocabulary"], np.int64)
    for first in range(0, rows, CHUNK):
        ids = reader.rows(first, min(first + CHUNK, rows))[:, column]
        counts += np.bincount(ids.ravel(), minlength=len(counts))
    return counts


def count_streams(prepared):
    """Count each token in the corpus, in a run's inputs and in the official score's targets: {stream: int64}."""
    corpus = np.bincount(prepared.tokens("train"), minlength=prepared.protocol["tokenizer"]["vocabulary"])
    corpus[prepared.bos] += len(prepared.lengths("train"))
    return {"corpus": corpus, "inputs": count_rows(prepared, "train", prepared.training_rows, slice(None, -1)),
            "scored": count_rows(prepared, "validation", prepared.scored_rows, slice(1, None))}


# ----------------------------------------------------------------------------------------- evidence


def describe_types(tokens, counts):
    """List the tokens whose two lengths differ, by id, as [{id, bytes, supplied, raw, class, counts}]."""
    return [{"id": i, "bytes": token.hex(), "supplied": supplied_length(token), "raw": len(token),
             "class": class_of(token), "counts": {name: int(counts[name][i]) for name in counts}}
            for i, token in enumerate(tokens) if supplied_length(token) != len(token)]


def summarise(types, counts, tables, bos):
    """Sum each stream: tokens (BOS included), occurrences of differing types and their share, bytes by both tables."""
    streams = {}
    for name, count in counts.items():
        tokens, differing = int(count.sum()), sum(entry["counts"][name] for entry in types)
        totals = {kind: int((count * tables[kind]).sum()) for kind in ("supplied", "raw")}
        streams[name] = {"tokens": tokens, "bos": int(count[bos]), "differing": differing, "share": differing / tokens,
                         "supplied_bytes": totals["supplied"], "raw_bytes": totals["raw"]}
    return streams


def by_class(types):
    """Count the types of each class and their occurrences in every stream."""
    found = {}
    for name, meaning in CLASSES.items():
        members = [entry["counts"] for entry in types if entry["class"] == name]
        counts = {stream: sum(member[stream] for member in members) for stream in ("corpus", "inputs", "scored")}
        found[name] = {"meaning": meaning, "types": len(members), "counts": counts}
    return found


def score_effect(path):
    """Return the bits per byte of every frozen run by both tables, or None without frozen results."""
    if not path.exists():
        return None
    runs = {name: result["score"] for name, result in read_json(path)["runs"].items()}
    keys = ("nats", "supplied_bytes", "raw_bytes", "bits_per_byte", "raw_bits_per_byte")
    return {name: {**{key: score[key] for key in keys},
                   "raw_minus_supplied": score["raw_bits_per_byte"] - score["bits_per_byte"]}
            for name, score in runs.items()}


def audit(prepared, results):
    """Return (evidence, []), or (None, findings) where the prepared byte tables are wrong."""
    from corpora.tokenizer import read_tokenizer

    inputs = prepared.inputs(FILES, [prepared.protocol_path, *([results] if results.exists() else [])])
    ranks, settings = read_tokenizer(prepared.directory / "tokenizer")
    tokens = sorted(ranks, key=ranks.get)
    tables = dict(zip(("supplied", "raw"), prepared.byte_tables, strict=True))
    findings = table_findings(tokens, tables, settings["vocabulary"])
    if findings:
        return None, findings
    counts = count_streams(prepared)
    types, score = describe_types(tokens, counts), score_effect(results)
    hidden = sum(not all(whole for _, whole in pieces(token)) for token in tokens) - len(types)
    return {
        "study": prepared.study, "reported": REPORTED, "inputs": inputs,
        "vocabulary": settings["vocabulary"], "ordinary_types": len(tokens), "differing_types": len(types),
        "partial_types_of_equal_length": hidden, "types": types, "classes": by_class(types),
        "streams": summarise(types, counts, tables, prepared.bos), "score": score,
        "score_left_out": None if score else f"no research/matched_training/{results.name}: the runs are not frozen",
    }, []


def print_summary(evidence):
    from tabulate import tabulate

    print(f"{evidence['differing_types']} of {evidence['ordinary_types']:,} ordinary types differ "
          f"(paper, as reported: {REPORTED['differing_types']})\n")
    rows = [[name, f"{stream['tokens']:,}", f"{stream['differing']:,}", f"{stream['share']:.4%}",
             f"{stream['supplied_bytes'] / stream['raw_bytes'] - 1:+.4%}"]
            for name, stream in evidence["streams"].items()]
    print(tabulate(rows, ["stream", "tokens", "differing", "share", "supplied over raw bytes"], disable_numparse=True))
    for run, score in (evidence["score"] or {}).items():
        print(f"{run}: {score['bits_per_byte']:.6f} bits per byte, by raw bytes {score['raw_bits_per_byte']:.6f}")
    if evidence["score_left_out"]:
        print(f"no scores: {evidence['score_left_out']}")


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a study in protocols/, prepared")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    arguments.add_argument("--freeze", action="store_true", help="write NAME.json beside this script")
    options = arguments.parse_args(argv)
    prepared = Prepared(options.root, options.study)
    results = options.root / f"research/matched_training/{prepared.study}.json"
    evidence, findings = audit(prepared, results)
    if findings:
        checks = Checks()
        for finding in findings:
            checks.expect(False, f"{prepared.directory / 'tokenizer'}: {finding}")
        return checks.close()
    print_summary(evidence)
    if not options.freeze:
        print("Nothing was written; --freeze writes the evidence.")
        return 0
    frozen = options.root / QUESTION / f"{prepared.study}.json"
    freeze_json(frozen, evidence)
    print(f"evidence: {frozen}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
