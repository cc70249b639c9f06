"""Count the tokens of a prepared study again, for verify_token_bytes.py, without anything of loaders/."""

import base64

import numpy as np

from evidence import InputError, read_json
from research.reference_packer import ReferencePacker


def read_ranks(path):
    """Return the tokens of ranks.txt in the order of their ranks."""
    lines = [line.split(b" ") for line in path.read_bytes().splitlines()]
    if [int(rank) for _, rank in lines] != list(range(len(lines))):
        raise InputError(f"{path}: expected ranks 0, 1, 2, ... in order")
    return [base64.b64decode(token, validate=True) for token, _ in lines]


def recount_rows(directory, split, settings, rows, part):
    """Count the tokens in the slice `part` of the first rows of a split: int64 (vocabulary,)."""
    lengths, refill, tokens = (np.load(directory / split / f"{name}.npy") for name in ("lengths", "refill", "tokens"))
    sizes = {"capacity": settings["capacity"], "buffer_size": settings["buffer_size"]}
    packer = ReferencePacker(lengths.tolist(), refill.tolist(), **sizes)
    first, ids = (np.cumsum(lengths - 1) - (lengths - 1)).tolist(), []
    for _, arrival, _, _, count, _ in packer.select_rows(rows):
        start = first[arrival % len(first)]
        ids += [[settings["bos"]], tokens[start : start + count]]
    ids = np.concatenate(ids).astype(np.int64).reshape(rows, -1)[:, part]
    return np.bincount(ids.ravel(), minlength=settings["vocabulary"])


def recount(directory, protocol):
    """Return ({stream: int64 (vocabulary,) counts}, BOS id) of a prepared study."""
    training, packing = protocol["training"], protocol["packing"]
    vocabulary, bos = (read_json(directory / "tokenizer/tokenizer.json")[key] for key in ("vocabulary", "bos"))
    settings = {"vocabulary": vocabulary, "bos": bos, "capacity": packing["context"] + 1,
                "buffer_size": packing["buffer_size"]}
    corpus = np.bincount(np.load(directory / "train/tokens.npy"), minlength=vocabulary)
    corpus[bos] += len(np.load(directory / "train/lengths.npy"))
    rows = training["updates"] * training["accumulation"] * training["microbatch"]
    scored = protocol["evaluation"]["targets"] // packing["context"]
    return {"corpus": corpus, "inputs": recount_rows(directory, "train", settings, rows, slice(None, -1)),
            "scored": recount_rows(directory, "validation", settings, scored, slice(1, None))}, bos
