"""What does a model read? Turns a corpus into a tokenizer, flat tokens and document lengths.

Reads   protocols/NAME.json, and pinned wheels (by pip) or shards over HTTPS; or your files: parquet, JSON lines (plain
        or gzipped) or plain text with one document a file, given as files, folders or quoted patterns such as
        'texts/**/*.md'; manifests/NAME.sha256 where it exists
Writes  data/NAME/{corpus,tokenizer,train,validation}/ and, last, data/NAME/prepared.json with every file's SHA-256
Needs   the pinned requirements; for the first run of a study, a network
About   20 seconds for `demo` and 40 for `wheels` on two cores, after the download; `climbmix` was not measured here

    python prepare.py --study NAME [--freeze]
    python prepare.py --input FILES... --name NAME --vocabulary N [--text-column COL] [--validation-input FILES...]
                      [--group-column COL | --group-by directory]

Without --validation-input, 1 in 20 of your documents is held out as validation, by the hash of its text alone. A second
run reuses every part whose inputs and bytes are unchanged. Where manifests/NAME.sha256 exists the result is compared
with it, and a difference ends with exit code 1; `--freeze` writes that list instead.
"""

import re
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np

import evidence
from corpora.downloads import write_downloads
from corpora.files import expand
from corpora.parts import alone, make_part
from corpora.split import directories_of, write_files
from corpora.tokenizer import build_tokenizer, read_tokenizer, tokenizer_folder, train_ranks, training_texts
from corpora.tokens import shared_texts, write_split
from corpora.wheels import write_wheels
from evidence import canonical_json, require, run_script, sha256_bytes, write_json
from files import sha256_file, write_atomic
from manifest import format_manifest, read_manifest
from protocols.schema import find_protocol

ROOT = Path(__file__).resolve().parent

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

# ------------------------------------------------------------------------------------------- what to prepare


def read_protocol(name):
    """Return the parts of a protocol that decide the data: {"name", "corpus", "tokenizer", "packing"}."""
    protocol, path = find_protocol(name, ROOT / "protocols")
    other = protocol.get("prepared")
    require(other is None, path, f"this study uses the data of {other!r}; run `python prepare.py --study {other}`")
    return {"name": protocol["study"], **{key: protocol[key] for key in ("corpus", "tokenizer", "packing")}}


def own_spec(options):
    """Return the spec of a user's own files; pattern, special tokens and packing are those of the study `--like`."""
    name = options.name
    require(NAME.fullmatch(name), "--name", f"expected letters, digits, '_', '-' and '.', found {name!r}")
    require(not (ROOT / "protocols" / f"{name}.json").exists(), f"--name {name}", f"protocols/{name}.json exists; "
            "choose another name, or move that file aside to prepare text of your own under it again")
    like = read_protocol(options.like)
    tokenizer = like["tokenizer"] | {"vocabulary": options.vocabulary}
    files = expand(options.input)
    held_out = expand(options.validation_input) if options.validation_input else None
    corpus = {"kind": "files", "text_column": "text", "source_column": options.text_column,
              "row_group_documents": 1000, "train_files": files, "validation_files": held_out,
              "train_shards": ["shard_00000.parquet"], "validation_shard": "shard_00001.parquet"}
    if options.group_column or options.group_by:
        corpus["group"] = {"column": options.group_column,
                           "directories": directories_of(files) if options.group_by else None}
    if options.tokenizer:
        tokenizer = given_settings(options.tokenizer)
        require(options.vocabulary in (None, tokenizer["vocabulary"]), options.tokenizer,
                f"its vocabulary is {tokenizer['vocabulary']}, but --vocabulary says {options.vocabulary}")
    return {"name": name, "corpus": corpus, "tokenizer": tokenizer, "packing": like["packing"],
            "given_tokenizer": options.tokenizer}


def given_settings(folder):
    """Return the settings of a tokenizer folder in the form of a protocol, except those of its training."""
    _, document = read_tokenizer(folder)
    names = sorted(document["specials"], key=document["specials"].get)
    bos = names[document["bos"] - document["specials"][names[0]]]
    return {"bos": bos, "pattern": document["pattern"], "specials": names, "vocabulary": document["vocabulary"]}


def corpus_part(spec, directory, listed):
    """Return (inputs that decide the corpus part, its builder)."""
    corpus = spec["corpus"]
    if corpus["kind"] == "wheels":
        return corpus, partial(write_wheels, corpus=corpus, cache=directory.parent / "wheels_cache")
    if corpus["kind"] == "download":
        known = {name.removeprefix("corpus/"): digest for name, digest in listed.items()}
        return corpus, partial(write_downloads, corpus=corpus, known=known, first_use=directory / "first_use.sha256")
    inputs = dict(corpus)
    for key in ("train_files", "validation_files"):
        inputs[key] = [{"name": Path(path).name, "sha256": sha256_file(path)} for path in corpus[key] or []]
    return inputs, partial(write_files, corpus=corpus)


def tokenizer_part(spec, shards, digests):
    """Return (inputs that decide the tokenizer part, its builder): trained on the shards, or taken from a folder."""
    settings = spec["tokenizer"]
    if given := spec.get("given_tokenizer"):
        inputs = {name: sha256_file(given / name) for name in ("ranks.txt", "tokenizer.json")}
        return inputs, partial(build_tokenizer, make_ranks=lambda: read_tokenizer(given)[0], settings=settings)

    def make_ranks():
        print("tokenizer: training", flush=True)
        texts = training_texts(shards, spec["corpus"]["text_column"], settings)
        return train_ranks(texts, settings, f"{spec['name']}: tokenizer")

    return {"settings": settings, "shards": digests}, partial(build_tokenizer, make_ranks=make_ranks, settings=settings)


def prepare(spec, data, listed, processes):
    """Build or reuse the four parts under data/name; return (the content of prepared.json, the directory)."""
    directory, corpus, packing = data / spec["name"], spec["corpus"], spec["packing"]
    resumable = corpus["kind"] == "download"
    records = {"corpus": make_part(directory, "corpus", *corpus_part(spec, directory, listed), resumable)}
    digests = records["corpus"]["files"]
    splits = {"train": corpus["train_shards"], "validation": [corpus["validation_shard"]]}

    def shards_of(split):
        return [directory / "corpus" / name for name in splits[split]], [digests[name] for name in splits[split]]

    records["tokenizer"] = make_part(directory, "tokenizer", *tokenizer_part(spec, *shards_of("train")))
    tokenizer_files = records["tokenizer"]["files"]
    key = tokenizer_files["ranks.txt"] + tokenizer_files["tokenizer.json"]
    for split in splits:
        shards, shard_digests = shards_of(split)
        build = partial(write_split, shards=shards, column=corpus["text_column"], tokenizer=directory / "tokenizer",
                        key=key, refill_batch=packing["refill_batch"], workers=processes)
        inputs = {"shards": shard_digests, "tokenizer": key, "refill_batch": packing["refill_batch"]}
        records[split] = make_part(directory, split, inputs, build)
    prepared = summary(spec, directory, records, splits)
    write_json(directory / "prepared.json", prepared)
    return prepared, directory


def summary(spec, directory, records, splits):
    """Return prepared.json: settings, facts and counts (tokens include one BOS a document), SHA-256 of every file."""
    capacity = spec["packing"]["context"] + 1
    files = {f"{part}/{name}": digest for part, record in records.items() for name, digest in record["files"].items()}
    files |= {f"{part}/part.json": sha256_bytes(canonical_json(record)) for part, record in records.items()}
    counts = {}
    for split, shards in splits.items():
        lengths = np.load(directory / split / "lengths.npy", mmap_mode="r")
        counts[split] = records[split]["facts"] | {
            "shards": len(shards), "tokens": int(lengths.sum()), "longest": int(lengths.max()),
            "median_length": float(np.median(lengths)), "over_capacity": int((lengths > capacity).sum())}
    return {"name": spec["name"], "capacity": capacity, "refill_batch": spec["packing"]["refill_batch"],
            "corpus": records["corpus"]["inputs"], "corpus_facts": records["corpus"]["facts"],
            "tokenizer": spec["tokenizer"], "tokenizer_facts": records["tokenizer"]["facts"],
            "splits": counts, "files": files}


# ------------------------------------------------------------------------------------------ command


def differences(listed, digests):
    """Return lines that name what is changed, missing or extra in the folders that the manifest lists."""
    folders = {name.split("/")[0] for name in listed}
    names = set(listed) | {name for name in digests if name.split("/")[0] in folders}
    return [f"{name}: expected {listed.get(name, 'no such file')}, found {digests.get(name, 'no such file')}"
            for name in sorted(names) if listed.get(name) != digests.get(name)]


def print_counts(prepared, directory):
    """Print a table of both splits, and how many texts are in both."""
    from tabulate import tabulate

    keys = ["documents", "tokens", "median_length", "over_capacity", "longest"]
    rows = [[split, *(counts[key] for key in keys)] for split, counts in prepared["splits"].items()]
    headers = ["split", "documents", "tokens", "median", f"over {prepared['capacity']}", "longest"]
    print(tabulate(rows, headers, intfmt=",", floatfmt=",.1f"))
    shared, validation = shared_texts(directory), prepared["splits"]["validation"]["documents"]
    print(f"{'warning: ' if shared else ''}{shared:,} of the {validation:,} validation texts are also training texts")


def parse_arguments(argv):
    parser = evidence.parser(__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--study", metavar="NAME", help="a protocol in protocols/, or the path of one (.json)")
    source.add_argument("--input", nargs="+", metavar="FILE", help="your own files, folders or quoted patterns")
    parser.add_argument("--freeze", action="store_true", help="write manifests/NAME.sha256 from the prepared files")
    parser.add_argument("--name", help="with --input: the name of the result")
    parser.add_argument("--vocabulary", type=int, metavar="N", help="with --input: bytes, merges and special tokens")
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", help="with --input: use this tokenizer, train none")
    parser.add_argument("--text-column", default="text", metavar="COL",
                        help="with --input: the parquet column or JSON key of the text (default: text)")
    parser.add_argument("--validation-input", nargs="+", metavar="FILE",
                        help="with --input: files to hold out, instead of 1 in 20 texts")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--group-column", metavar="COL", help="with --input: hold out whole groups, by this column")
    group.add_argument("--group-by", choices=["directory"], help="with --input: hold out whole directories")
    parser.add_argument("--like", default="climbmix", metavar="STUDY",
                        help="with --input: a study whose pattern and packing are used (default: climbmix)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="default: data/")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")
    options = parser.parse_args(argv)
    if options.input and not (options.name and (options.vocabulary or options.tokenizer)):
        parser.error("--input needs --name and one of --vocabulary and --tokenizer")
    if (options.group_column or options.group_by) and (options.study or options.validation_input):
        parser.error("--group-column and --group-by split --input, without --validation-input")
    if options.study and (options.name or options.vocabulary or options.tokenizer or options.validation_input):
        parser.error("--name, --vocabulary, --tokenizer and --validation-input go with --input")
    if options.freeze and not options.study:
        parser.error("--freeze is for studies")
    return options


def main(argv=None):
    """Prepare one corpus; return 1 when it differs from its manifest, else 0."""
    options = parse_arguments(argv)
    if options.tokenizer:
        options.tokenizer = tokenizer_folder(options.tokenizer)
    spec = read_protocol(options.study) if options.study else own_spec(options)
    manifest = ROOT / "manifests" / f"{spec['name']}.sha256"
    listed = read_manifest(manifest) if manifest.exists() else {}
    with alone(options.data / f".{spec['name']}.lock"):
        prepared, directory = prepare(spec, options.data, listed, options.workers)
    digests = prepared["files"] | {"prepared.json": sha256_bytes(canonical_json(prepared))}
    print_counts(prepared, directory)
    found = []
    if options.freeze:
        write_atomic(manifest, format_manifest(digests))
        print(f"{len(digests)} files frozen in {manifest}")
    elif listed:
        found = differences(listed, digests)
        for line in found:
            print(f"{manifest}: {line}")
        if not found:
            print(f"all files are those of {manifest}")
    print(f"prepared: {directory}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(run_script(main))
