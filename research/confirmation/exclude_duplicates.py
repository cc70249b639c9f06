"""Which reserved validation documents are, byte for byte, documents that a model or the official score may have seen?

Reads   protocols/NAME.json, protocols/evaluation_NAME.json (which documents are reserved), data/NAME/corpus/
Writes  exclusions_NAME.json beside this script, once: another result is refused and the first difference named
Needs   pyarrow; the study prepared
About   2 seconds for `wheels`; it reads the corpus once and keeps only hashes of the reserved documents

    exclude_duplicates.py --study wheels

A reserved document is excluded when its UTF-8 text has the SHA-256 of a document of any training shard, or of a
validation document before the reserved ones. Reserved documents equal to each other are counted and kept. Near
duplicates are not audited.
"""

import argparse
import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, freeze_json, input_list, run_script, sha256_bytes

ROOT = Path(__file__).resolve().parents[2]


def shard_documents(path, column):
    """Yield (SHA-256 of the UTF-8 text, its bytes, name or None) of every document of a shard, in order."""
    from corpora.shards import column_texts, open_parquet

    file, row = open_parquet(path, column), 0
    named = "name" in file.schema_arrow.names
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=[column, *(["name"] if named else [])])
        texts = column_texts(table[column], path, row)
        names = table["name"].to_pylist() if named else [None] * len(texts)
        for text, name in zip(texts, names):
            data = text.encode()
            yield sha256_bytes(data), len(data), name
        row += len(texts)


def copies(shard, documents, wanted, found):
    """Add to `found` {hash: {"copies", "first"}} every document whose hash is wanted; how many documents there were."""
    row = -1
    for row, (digest, _, name) in enumerate(documents):
        if digest in wanted:
            first = {"shard": shard, "row": row, "name": name}
            found.setdefault(digest, {"copies": 0, "first": first})["copies"] += 1
    return row + 1


def exclusions(study):
    """The evidence: what was compared, and every excluded document with its hash, name and first copy."""
    import numpy as np

    corpus = study.protocol["corpus"]
    shards = {name: study.data(f"corpus/{name}") for name in [*corpus["train_shards"], corpus["validation_shard"]]}
    held_out = corpus["validation_shard"]
    reserved = list(islice(shard_documents(shards[held_out], corpus["text_column"]), study.first, study.last))
    if len(reserved) != study.last - study.first:
        raise InputError(f"{shards[held_out]}: {study.last} documents expected at least, found "
                         f"{study.first + len(reserved)}")
    wanted, found, compared = {digest for digest, _, _ in reserved}, {}, {}
    for name, path in shards.items():
        documents = shard_documents(path, corpus["text_column"])
        compared[name] = copies(name, islice(documents, study.first) if name == held_out else documents, wanted, found)
    lengths = study.data("train/lengths.npy")
    read, prepared = sum(compared.values()) - compared[held_out], len(np.load(lengths))
    if read != prepared:
        raise InputError(f"{lengths}: {prepared} documents, but the training shards hold {read}")
    excluded = [{"document": number, "sha256": digest, "bytes": size, "name": name, **found[digest]}
                for number, (digest, size, name) in enumerate(reserved, study.first) if digest in found]
    return {"study": study.name, "documents": [study.first, study.last], "compared": compared, "excluded": excluded,
            "equal_reserved_kept": len(reserved) - len(wanted), "near_duplicates": "not audited",
            "inputs": input_list([study.protocol_path, study.evaluation_path, *shards.values()], study.root)}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="of the repository (default: this one)")
    options = parser.parse_args(argv)
    from research.confirmation.reserved import Study

    study = Study(options.study, options.root)
    content = exclusions(study)
    freeze_json(study.exclusions_path, content)
    for entry in content["excluded"]:
        first = entry["first"]
        print(f"excluded {entry['document']} {entry['name'] or ''} {entry['sha256']}: "
              f"{entry['copies']} copies, first {first['shard']} row {first['row']} {first['name'] or ''}")
    print(f"{len(content['excluded'])} of {study.last - study.first:,} reserved documents excluded, compared with "
          f"{sum(content['compared'].values()):,} documents; near duplicates not audited: {study.exclusions_path}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
