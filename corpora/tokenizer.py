"""Byte-pair tokenizer: trained by rustbpe, used through tiktoken, kept as ranks text and JSON, never pickled."""

import base64
from functools import lru_cache

import numpy as np

from corpora.shards import open_parquet, read_row_group
from evidence import InputError, read_json, require_keys, write_atomic, write_json

KINDS = {"bos": int, "pattern": str, "specials": dict, "vocabulary": int}  # of tokenizer.json


def training_texts(paths, column, settings):
    """Documents cut to `document_characters`, until `train_characters` characters have been given."""
    given = 0
    for path in paths:
        for group in range(open_parquet(path, column).num_row_groups):
            for text in read_row_group(path, group, column)[0]:
                text = text[:settings["document_characters"]]
                given += len(text)
                yield text
                if given >= settings["train_characters"]:
                    return


def train_ranks(texts, settings):
    """{token bytes: rank} by byte-pair merges; `vocabulary` minus the specials, the 256 bytes first."""
    import rustbpe

    size = settings["vocabulary"] - len(settings["specials"])
    if not 256 <= size < 1 << 31:
        raise InputError(f"vocabulary {settings['vocabulary']}: expected below 2**31, and room for 256 bytes and "
                         f"{len(settings['specials'])} special tokens")
    tokenizer = rustbpe.Tokenizer()
    try:
        tokenizer.train_from_iterator(texts, vocab_size=size, pattern=settings["pattern"])
    except ValueError as error:
        raise InputError(f"tokenizer pattern: {error}") from None
    ranks = {bytes(token): rank for token, rank in tokenizer.get_mergeable_ranks()}
    if len(ranks) != size:
        raise InputError(f"too little text: {size} bytes and merges wanted, {len(ranks)} found; lower the vocabulary")
    return ranks


def format_ranks(ranks):
    """tiktoken's text form: base64 of the token's bytes, a space, its rank; by rank."""
    tokens = sorted(ranks, key=ranks.get)
    return "".join(f"{base64.b64encode(token).decode()} {ranks[token]}\n" for token in tokens).encode()


def read_tokenizer(folder):
    """(ranks {bytes: rank}, settings) of a folder's ranks.txt and tokenizer.json; InputError when they are broken."""
    settings, path = read_json(folder / "tokenizer.json"), folder / "ranks.txt"
    require_keys(settings, KINDS, folder / "tokenizer.json")
    for key, kind in KINDS.items():
        if type(settings[key]) is not kind:
            raise InputError(f"{folder / 'tokenizer.json'}: {key}: expected {kind.__name__}, found {settings[key]!r}")
    ranks = {}
    for number, line in enumerate(path.read_bytes().splitlines()):
        token, _, rank = line.partition(b" ")
        try:
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError:
            raise InputError(f"{path}:{number + 1}: expected base64, a space and a rank, found {line!r}") from None
        if int(rank) != number or len(ranks) != number + 1:
            raise InputError(f"{path}:{number + 1}: expected a new token of rank {number}, found {line!r}")
    size, specials = len(ranks), settings["specials"]
    if not {bytes([byte]) for byte in range(256)} <= set(ranks):
        raise InputError(f"{path}: not every single byte has a token")
    ids, end = sorted(specials.values()), settings["vocabulary"]
    if ids != list(range(size, end)) or settings["bos"] not in ids:
        raise InputError(f"{folder / 'tokenizer.json'}: special ids must be {size}..{end - 1}, bos one of them")
    return ranks, settings


def make_encoding(ranks, settings):
    """tiktoken.Encoding of {bytes: rank} and what tokenizer.json says."""
    import tiktoken

    pattern, specials = settings["pattern"], settings["specials"]
    try:
        return tiktoken.Encoding("corpus", pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)
    except ValueError as error:
        raise InputError(f"tokenizer pattern {pattern!r}: {error}") from None


@lru_cache(maxsize=1)
def load_encoding(folder, key):
    """tiktoken.Encoding of a tokenizer folder; `key`, a digest of its content, tells a rebuilt folder apart."""
    return make_encoding(*read_tokenizer(folder))


def byte_tables(encoding, size):
    """(supplied, raw) int32 (vocabulary,): bytes a token stands for in the score; 0 for specials (ids from `size`).

    supplied: UTF-8 length of the decoded text, in which a partial character becomes U+FFFD; raw: length of its bytes.
    """
    supplied, raw = np.zeros((2, encoding.n_vocab), np.int32)
    for token in range(size):
        supplied[token] = len(encoding.decode([token], errors="replace").encode())
        raw[token] = len(encoding.decode_single_token_bytes(token))
    return supplied, raw


def build_tokenizer(folder, make_ranks, settings):
    """Write ranks.txt, tokenizer.json and both byte tables; return the facts for prepared.json."""
    ranks = make_ranks()
    specials = {name: len(ranks) + index for index, name in enumerate(settings["specials"])}
    document = {"vocabulary": settings["vocabulary"], "pattern": settings["pattern"], "specials": specials,
                "bos": specials[settings["bos"]]}
    write_json(folder / "tokenizer.json", document)
    write_atomic(folder / "ranks.txt", format_ranks(ranks))
    encoding = make_encoding(ranks, document)
    supplied, raw = byte_tables(encoding, len(ranks))
    np.save(folder / "bytes_supplied.npy", supplied)
    np.save(folder / "bytes_raw.npy", raw)
    return {"ranks": len(ranks), "tables_differ": int((supplied != raw).sum())}
