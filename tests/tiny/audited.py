"""A small seeded study in a folder of the test's own: parquet shards, a byte tokenizer, prepared arrays, a protocol."""

import base64
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evidence import write_json
from tiny.runs import list_prepared

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "research/source_exclusion"


BOS = 256
GROUPS = {"train": [[37, 20], [44]], "validation": [[30]]}
WORDS = "the a of packing long row buffer é – 漢字 <|reserved_0|>".split()


def texts_of(split):
    """{shard name: [[text, ...] of each row group]}; about a third of the texts are longer than a row of 33."""
    random = np.random.Generator(np.random.PCG64(len(split)))
    shards = {}
    for number, groups in enumerate(GROUPS[split]):
        sizes = [np.maximum(random.lognormal(1.5, 1.1, count).astype(int), 0) for count in groups]
        texts = [[" ".join(random.choice(WORDS, size)) for size in group] for group in sizes]
        shards[f"{split}_{number}.parquet"] = texts
    return shards


def write_split(data, split, batch=8):
    """Shards and arrays; a text's tokens are its UTF-8 bytes."""
    shards = texts_of(split)
    for name, groups in shards.items():
        with pq.ParquetWriter(data / "corpus" / name, pa.schema([("text", pa.string())])) as writer:
            for group in groups:
                writer.write_table(pa.table({"text": group}))
    groups = [group for of_shard in shards.values() for group in of_shard]
    refill = [min(batch, len(group) - at) for group in groups for at in range(0, len(group), batch)]
    encoded = [list(text.encode()) for group in groups for text in group]
    arrays = {
        "tokens": np.array([byte for document in encoded for byte in document], np.uint16),
        "lengths": np.array([len(document) + 1 for document in encoded], np.int64),
        "refill": np.array(refill, np.int64),
    }
    (data / split).mkdir()
    for name, array in arrays.items():
        np.save(data / split / f"{name}.npy", array)
    return list(shards)


def build(root, updates=20):
    """(path of the protocol, data folder, runs folder) of the study `tiny` under `root`."""
    data = root / "data/tiny"
    for folder in ("corpus", "tokenizer"):
        (data / folder).mkdir(parents=True)
    ranks = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))
    (data / "tokenizer/ranks.txt").write_bytes(ranks)
    write_json(data / "tokenizer/tokenizer.json",
               {"vocabulary": 257, "pattern": r"\p{L}+|[^\p{L}]+", "specials": {"<|reserved_0|>": BOS}, "bos": BOS})
    train, (validation,) = (write_split(data, split) for split in ("train", "validation"))
    list_prepared(data, corpus={"text_column": "text", "train_shards": train, "validation_shard": validation})
    demo = json.loads((ROOT / "protocols/demo.json").read_bytes())
    protocol = demo | {
        "study": "tiny",
        "audit": {"strata": [4, 16, 33, 64], "repeated": demo["audit"]["repeated"] | {"context": 24, "passes": 3}},
        "packing": {"buffer_size": 9, "context": 32, "refill_batch": 8, "span_seed": 314159265},
        "training": demo["training"] | {"updates": updates, "accumulation": 2, "microbatch": 4},
        "evaluation": {"microbatch": 8, "targets": 32 * 32},
    }
    write_json(root / "tiny.json", protocol)
    return root / "tiny.json", root / "data", root / "runs"
