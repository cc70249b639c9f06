"""Which reserved documents equal, byte for byte, a document that a model or the official score may have seen?

Reads   protocols/NAME.json, protocols/evaluation_NAME.json (which documents are reserved) and data/NAME/corpus/
Writes  exclusions_NAME.json beside this script, once: a different result is refused, and the first difference named
Needs   pyarrow; the study prepared
About   two seconds for `wheels`; the script reads the corpus once and keeps only hashes of the reserved documents

    python research/confirmation/exclude_duplicates.py --study wheels

A reserved document is excluded when its UTF-8 text has the SHA-256 of a document of any training shard, or of a
validation document before the reserved ones. Reserved documents that equal each other are counted and kept. Near
duplicates are not audited.
"""

import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence import InputError, freeze_json, parser, run_script, sha256_bytes

ROOT = Path(__file__).resolve().parents[2]


def shard_documents(path, column):
    """Yield (SHA-256 of the UTF-8 text, its bytes, name or None) of every document of a shard, in order."""
    from corpora.shards import column_texts, open_parquet

    file, row = open_parquet(path, column), 0
    columns = [column, "name"] if "name" in file.schema_arrow.names else [column]
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=columns)
        texts = column_texts(table[column], path, row)
        names = table["name"].to_pylist() if "name" in columns else [None] * len(texts)
        for text, name in zip(texts, names, strict=True):
            data = text.encode()
            yield sha256_bytes(data), len(data), name
        row += len(texts)


def count_copies(shard, documents, wanted, found):
    """Count documents whose hash is wanted in `found` {hash: {"copies", "first"}}; return how many were read."""
    row = -1
    for row, (digest, _, name) in enumerate(documents):
        if digest in wanted:
            first = {"shard": shard, "row": row, "name": name}
            found.setdefault(digest, {"copies": 0, "first": first})["copies"] += 1
    return row + 1


def read_reserved_texts(reserved):
    """Return [(SHA-256, bytes, name)] of the reserved documents, in order."""
    path, = reserved.shards("validation")
    documents = list(islice(shard_documents(path, reserved.text_column), reserved.first, reserved.last))
    if len(documents) != reserved.last - reserved.first:
        found = reserved.first + len(documents)
        raise InputError(f"{path}: expected at least {reserved.last} documents, found {found}")
    return documents


def exclusions(reserved):
    """Return the evidence: what was compared, and every excluded document with its hash, name and first copy."""
    documents, shards = read_reserved_texts(reserved), [*reserved.shards("train"), *reserved.shards("validation")]
    wanted, found, compared = {digest for digest, _, _ in documents}, {}, {}
    for path in shards:
        texts = shard_documents(path, reserved.text_column)
        if path == shards[-1]:
            texts = islice(texts, reserved.first)
        compared[path.name] = count_copies(path.name, texts, wanted, found)
    read, prepared = sum(compared.values()) - compared[shards[-1].name], len(reserved.lengths("train"))
    if read != prepared:
        raise InputError(f"{reserved.path('train/lengths.npy')}: expected {read} documents as in the training shards, "
                         f"found {prepared}; prepare the study again")
    excluded = [{"document": number, "sha256": digest, "bytes": size, "name": name, **found[digest]}
                for number, (digest, size, name) in enumerate(documents, reserved.first) if digest in found]
    inputs = reserved.inputs([f"corpus/{path.name}" for path in shards],
                             [reserved.protocol_path, reserved.evaluation_path])
    return {"study": reserved.study, "documents": [reserved.first, reserved.last], "compared": compared,
            "excluded": excluded, "equal_reserved_kept": len(documents) - len(wanted),
            "near_duplicates": "not audited", "inputs": inputs}


def main(argv=None):
    arguments = parser(__doc__)
    arguments.add_argument("--study", required=True, metavar="NAME", help="a protocol in protocols/")
    arguments.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the repository (default: this one)")
    options = arguments.parse_args(argv)
    from research.confirmation.reserved import Reserved

    reserved = Reserved(options.study, options.root)
    content = exclusions(reserved)
    freeze_json(reserved.exclusions_path, content)
    for entry in content["excluded"]:
        first = entry["first"]
        print(f"excluded {entry['document']} {entry['name'] or ''} {entry['sha256']}: "
              f"{entry['copies']} copies, the first in {first['shard']}, row {first['row']} {first['name'] or ''}")
    print(f"{len(content['excluded'])} of {reserved.last - reserved.first:,} reserved documents are excluded; they "
          f"were compared with {sum(content['compared'].values()):,} documents, near duplicates were not audited: "
          f"{reserved.exclusions_path}")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
