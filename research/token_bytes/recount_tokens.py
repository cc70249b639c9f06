"""Count the tokens of a prepared study again, for verify_token_bytes.py, without anything of loaders/."""

import base64
import bisect

import numpy as np

from evidence import InputError, read_json


def read_ranks(path):
    """Return the tokens of ranks.txt in the order of their ranks."""
    lines = [line.split(b" ") for line in path.read_bytes().splitlines()]
    if [int(rank) for _, rank in lines] != list(range(len(lines))):
        raise InputError(f"{path}: expected ranks 0, 1, 2, ... in order")
    return [base64.b64decode(token, validate=True) for token, _ in lines]


def packed_rows(lengths, refill, capacity, rows, buffer_size):
    """Yield [(document, tokens)] of each row that the baseline's rule packs over repeated passes."""
    held, arrived, batch = [], 0, 0
    for _ in range(rows):
        row, space = [], capacity
        while space:
            while len(held) < buffer_size:
                for arrival in range(arrived, arrived + refill[batch % len(refill)]):
                    bisect.insort(held, (lengths[arrival % len(lengths)], -arrival))  # equal: the earliest is last
                arrived, batch = arrived + refill[batch % len(refill)], batch + 1
            at = bisect.bisect_right(held, (space, 1)) - 1
            if at < 0:
                at = bisect.bisect_right(held, (held[0][0], 1)) - 1
            length, arrival = held.pop(at)
            row.append((-arrival % len(lengths), min(length, space)))
            space -= row[-1][1]
        yield row


def recount_rows(directory, split, settings, rows, part):
    """Count the tokens in the slice `part` of the first rows of a split: int64 (vocabulary,)."""
    lengths, refill, tokens = (np.load(directory / split / f"{name}.npy") for name in ("lengths", "refill", "tokens"))
    first, counts = np.concatenate([[0], np.cumsum(lengths - 1)]).tolist(), np.zeros(settings["vocabulary"], np.int64)
    for row in packed_rows(lengths.tolist(), refill.tolist(), settings["capacity"], rows, settings["buffer_size"]):
        texts = [[[settings["bos"]], tokens[first[document] : first[document] + n - 1]] for document, n in row]
        ids = np.concatenate(sum(texts, []))[part]
        counts += np.bincount(ids.astype(np.int64), minlength=len(counts))
    return counts


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
