"""The one small study of the tests: seeded texts in parquet shards, and all that prepare.py makes of such a corpus.

A text's tokens are its UTF-8 bytes. The lengths of the texts are skewed: some are longer than a row of 33 tokens, one
of each split is empty. Texts are unique but for the copies that COPIES plants.
"""

import base64
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evidence import read_json, sha256_file, write_json

ROOT = Path(__file__).resolve().parents[2]
BOS = 256
SPECIALS = [f"<|reserved_{i}|>" for i in range(4)]
VOCABULARY, CONTEXT, UPDATES = BOS + len(SPECIALS), 32, 12
SHARDS = {  # documents of each row group of each shard
    "train": {"train_0.parquet": [37, 20], "train_1.parquet": [33]},
    "validation": {"validation_0.parquet": [60]},
}
DOCUMENTS = {"train": 90, "validation": 60}
COPIES = {  # (split, document): whose text it repeats
    ("validation", 33): ("train", 70), ("validation", 48): ("validation", 5), ("validation", 51): ("train", 2),
    ("validation", 59): ("validation", 58), ("train", 71): ("train", 70),
}
WORDS = "the a of packing long row buffer é – 漢字 <|reserved_0|>".split()


def protocol(**training):
    """The demo's protocol at toy size; keyword arguments replace keys of its `training` section."""
    tiny = read_json(ROOT / "protocols/demo.json")
    tiny["study"], tiny["seeds"] = "tiny", [43, 44]
    tiny["corpus"].update(train_shards=list(SHARDS["train"]), validation_shard=next(iter(SHARDS["validation"])))
    tiny["tokenizer"]["vocabulary"] = VOCABULARY
    tiny["packing"].update(context=CONTEXT, buffer_size=20, refill_batch=8)
    tiny["model"].update(layers=3, width=32, heads=2, gate_channels=8)
    tiny["training"].update(updates=UPDATES, microbatch=2, accumulation=2, checkpoint_every=3, threads=1)
    tiny["training"]["logit_chunk"] = 50
    tiny["training"].update(training)
    tiny["evaluation"] = {"targets": 24 * CONTEXT, "microbatch": 5}
    tiny["audit"]["strata"] = [8, CONTEXT + 1, 100]
    return tiny


def corpus_texts():
    """{split: [text of each document]}."""
    random, texts, seen = np.random.default_rng(7), {}, set()
    for split, documents in DOCUMENTS.items():
        texts[split] = []
        for words in np.maximum(random.lognormal(1.4, 1.1, documents).astype(int), 1):
            text = " ".join(random.choice(WORDS, words))
            while text in seen:
                text += " " + random.choice(WORDS)
            seen.add(text)
            texts[split].append(text)
        texts[split][3] = ""
    for (split, document), (source, original) in COPIES.items():
        texts[split][document] = texts[source][original]
    return texts


def texts_of(split):
    """{shard: [[text, ...] of each row group]}."""
    texts = iter(corpus_texts()[split])
    return {shard: [[next(texts) for _ in range(documents)] for documents in groups]
            for shard, groups in SHARDS[split].items()}


def write_split(data, split, refill_batch):
    """Write the shards, with each document's name, and the arrays of a split."""
    columns, encoded, refill = pa.schema([("text", pa.string()), ("name", pa.string())]), [], []
    for shard, groups in texts_of(split).items():
        with pq.ParquetWriter(data / "corpus" / shard, columns) as file:
            for texts in groups:
                names = [f"{split}/{len(encoded) + i}.txt" for i in range(len(texts))]
                file.write_table(pa.table({"text": texts, "name": names}))
                encoded += [text.encode() for text in texts]
                refill += [min(refill_batch, len(texts) - at) for at in range(0, len(texts), refill_batch)]
    (data / split).mkdir()
    np.save(data / split / "tokens.npy", np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint16))
    np.save(data / split / "lengths.npy", np.array([len(text) + 1 for text in encoded], np.int64))
    np.save(data / split / "refill.npy", np.array(refill, np.int64))


def write_tokenizer(folder, pattern):
    """Write a tokenizer of single bytes; a byte that is no character alone is three bytes of U+FFFD when decoded."""
    folder.mkdir()
    ranks = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(BOS))
    (folder / "ranks.txt").write_bytes(ranks)
    specials = {name: BOS + i for i, name in enumerate(SPECIALS)}
    write_json(folder / "tokenizer.json",
               {"vocabulary": VOCABULARY, "pattern": pattern, "specials": specials, "bos": BOS})
    np.save(folder / "bytes_supplied.npy", np.array([1] * 128 + [3] * 128 + [0] * 4, np.int32))
    np.save(folder / "bytes_raw.npy", np.array([1] * 256 + [0] * 4, np.int32))


def write_corpus(directory, study):
    """Write data/<study>/ as prepare.py lays it out, below a data directory."""
    data, settings = directory / study, protocol()
    (data / "corpus").mkdir(parents=True)
    write_tokenizer(data / "tokenizer", settings["tokenizer"]["pattern"])
    for split in SHARDS:
        write_split(data, split, settings["packing"]["refill_batch"])
    list_prepared(data, corpus=settings["corpus"])


def list_prepared(data, **facts):
    """prepared.json of the files that lie in a study's data directory now."""
    files = {p.relative_to(data).as_posix(): sha256_file(p) for p in sorted(data.rglob("*"))
             if p.is_file() and p != data / "prepared.json"}
    write_json(data / "prepared.json", {**facts, "files": files})
