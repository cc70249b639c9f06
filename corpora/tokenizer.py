"""Byte-pair tokenizer: trained by rustbpe, used through tiktoken, kept as ranks text and JSON, never pickled."""

import base64
from functools import lru_cache

import numpy as np

from corpora.shards import open_parquet, row_group_texts
from evidence import InputError, read_json, require, require_keys, write_json
from files import naming, write_atomic

KINDS = {"bos": int, "pattern": str, "specials": dict, "vocabulary": int}  # of tokenizer.json


def training_texts(paths, column, settings):
    """Yield documents cut to `document_characters`, until `train_characters` characters have been given."""
    given = 0
    for path in paths:
        file = open_parquet(path, column)
        for group in range(file.num_row_groups):
            for _, text in row_group_texts(file, path, group, column):
                text = text[:settings["document_characters"]]
                given += len(text)
                yield text
                if given >= settings["train_characters"]:
                    return


def train_ranks(texts, settings, where="tokenizer"):
    """Return {token bytes: rank} by byte-pair merges, the 256 bytes first; specials take the rest of `vocabulary`.

    `where` names the settings in an InputError.
    """
    import rustbpe

    size = settings["vocabulary"] - len(settings["specials"])
    require(256 <= size < 1 << 31, f"{where}: vocabulary", f"expected below 2**31, with room for 256 bytes and "
            f"{len(settings['specials'])} special tokens, found {settings['vocabulary']}")
    tokenizer = rustbpe.Tokenizer()
    try:
        tokenizer.train_from_iterator(texts, vocab_size=size, pattern=settings["pattern"])
    except ValueError as error:
        raise InputError(f"{where}: pattern: {error}") from None
    ranks = {bytes(token): rank for token, rank in tokenizer.get_mergeable_ranks()}
    require(len(ranks) == size, f"{where}: vocabulary", f"too little text for {size} bytes and merges, {len(ranks)} "
            "found; lower the vocabulary")
    return ranks


def format_ranks(ranks):
    """Return tiktoken's text form: a line a token, by rank, with base64 of its bytes, a space and its rank."""
    tokens = sorted(ranks, key=ranks.get)
    return "".join(f"{base64.b64encode(token).decode()} {ranks[token]}\n" for token in tokens).encode()


def tokenizer_folder(path):
    """Return the folder of a tokenizer that prepare.py made, given it or its tokenizer.json; InputError for others."""
    folder = path.parent if path.name == "tokenizer.json" and path.is_file() else path
    settings = read_json(folder / "tokenizer.json") if (folder / "tokenizer.json").is_file() else None
    require(not (isinstance(settings, dict) and "model" in settings), path, "this is a tokenizer of Hugging Face; "
            "expected a folder with ranks.txt and tokenizer.json that prepare.py made, such as data/demo/tokenizer")
    require(settings is not None and (folder / "ranks.txt").is_file(), path,
            "expected a folder with ranks.txt and tokenizer.json, such as data/demo/tokenizer")
    return folder


def read_tokenizer(folder):
    """Return (ranks {bytes: rank}, settings) of a folder's ranks.txt and tokenizer.json.

    InputError names the file and the line or key that is broken.
    """
    folder = tokenizer_folder(folder)
    settings, path = read_json(folder / "tokenizer.json"), folder / "ranks.txt"
    require_keys(settings, KINDS, folder / "tokenizer.json")
    for key, kind in KINDS.items():
        if type(settings[key]) is not kind:
            raise InputError(f"{folder / 'tokenizer.json'}: {key}: expected {kind.__name__}, found {settings[key]!r}")
    ranks = {}
    with naming(path):
        lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines):
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


def make_encoding(ranks, settings, where="tokenizer.json"):
    """Return the tiktoken.Encoding of {bytes: rank} and the content of tokenizer.json; `where` names it in errors."""
    import tiktoken

    pattern, specials = settings["pattern"], settings["specials"]
    try:
        return tiktoken.Encoding("corpus", pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)
    except ValueError as error:
        raise InputError(f"{where}: pattern {pattern!r}: {error}") from None


@lru_cache(maxsize=1)
def load_encoding(folder, key):
    """Return the tiktoken.Encoding of a tokenizer folder; `key`, a digest of its content, tells a rebuilt one apart."""
    return make_encoding(*read_tokenizer(folder), folder / "tokenizer.json")


def byte_tables(encoding, size):
    """Return (supplied, raw), int32 (vocabulary,) each: the bytes a token stands for; 0 for specials, from id `size`.

    supplied: UTF-8 length of the decoded text, in which a partial character becomes U+FFFD. raw: length of its bytes.
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
