"""What does a model read? Turns a corpus into a tokenizer, flat tokens and document lengths.

    prepare.py --study NAME [--freeze]            the corpus of protocols/NAME.json
    prepare.py --input FILES... --name NAME --vocabulary N [--text-column COL] [--validation-input FILES...]
               [--group-column COL | --group-by directory]
                                                  your own parquet, .jsonl, .jsonl.gz, .json.gz, .txt (one each)

Reads   protocols/NAME.json; pinned wheels (by pip), shards over HTTPS, or your files; manifests/NAME.sha256 when there.
Writes  data/NAME/{corpus,tokenizer,train,validation}/ and, last, data/NAME/prepared.json with every file's SHA-256.
Needs   the pinned requirements; a network for the first run of a study.
About   20 seconds for `demo` and 40 for `wheels` on two cores, after the download; `climbmix` was not measured here.

A second run reuses every part whose inputs and bytes are unchanged. Where manifests/NAME.sha256 exists the result is
checked against it, and a difference ends with exit code 1; `--freeze` writes that list instead.
"""

import argparse
import os
import re
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Python leaves it out under -I or PYTHONSAFEPATH

import numpy as np

from corpora.downloads import write_downloads
from corpora.files import directories_of, write_files
from corpora.parts import alone, make_part
from corpora.tokenizer import build_tokenizer, read_tokenizer, train_ranks, training_texts
from corpora.tokens import write_split
from corpora.wheels import write_wheels
from evidence import InputError, canonical_json, run_script, sha256_bytes, sha256_file, write_atomic, write_json
from manifest import format_manifest, read_manifest
from protocols.schema import find_protocol

ROOT = Path(__file__).resolve().parent

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

# ------------------------------------------------------------------------------------------- what to prepare


def read_protocol(name):
    """The parts of a protocol that decide the data: {"name", "corpus", "tokenizer", "packing"}."""
    protocol, _ = find_protocol(name, ROOT / "protocols")
    return {"name": protocol["study"], **{key: protocol[key] for key in ("corpus", "tokenizer", "packing")}}


def _require_name(name, where):
    if not NAME.fullmatch(name):
        raise InputError(f"{where}: {name!r} is not a plain name of letters, digits, '_', '-' and '.'")


def own_spec(args):
    """The spec of a user's own files, the pattern, special tokens and packing being those of the study `--like`."""
    _require_name(args.name, "--name")
    like = read_protocol(args.like)
    if (ROOT / "protocols" / f"{args.name}.json").exists():
        raise InputError(f"--name {args.name}: protocols/{args.name}.json is there; choose another name, or move that "
                         "file aside to prepare text of your own under it again")
    tokenizer = like["tokenizer"] | {"vocabulary": args.vocabulary}
    corpus = {"kind": "files", "text_column": "text", "source_column": args.text_column, "row_group_documents": 1000,
              "train_files": args.input, "validation_files": args.validation_input,
              "train_shards": ["shard_00000.parquet"], "validation_shard": "shard_00001.parquet"}
    if args.group_column or args.group_by:
        corpus["group"] = {"column": args.group_column, "directories": args.group_by and directories_of(args.input)}
    if args.tokenizer:
        tokenizer = given_settings(args.tokenizer)
        if args.vocabulary not in (None, tokenizer["vocabulary"]):
            found = tokenizer["vocabulary"]
            raise InputError(f"{args.tokenizer}: its vocabulary is {found}, but --vocabulary says {args.vocabulary}")
    return {"name": args.name, "corpus": corpus, "tokenizer": tokenizer,
            "packing": like["packing"], "given_tokenizer": args.tokenizer}


def given_settings(folder):
    """The settings of a tokenizer folder in the form a protocol has them, except those of its training."""
    _, document = read_tokenizer(folder)
    names = sorted(document["specials"], key=document["specials"].get)
    bos = names[document["bos"] - document["specials"][names[0]]]
    return {"bos": bos, "pattern": document["pattern"], "specials": names, "vocabulary": document["vocabulary"]}


def corpus_part(spec, directory, listed):
    """(inputs that decide the corpus part, its builder)."""
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
    """(inputs that decide the tokenizer part, its builder): trained on the shards, or taken from a folder."""
    settings = spec["tokenizer"]
    if given := spec.get("given_tokenizer"):
        inputs = {name: sha256_file(given / name) for name in ("ranks.txt", "tokenizer.json")}
        return inputs, partial(build_tokenizer, make_ranks=lambda: read_tokenizer(given)[0], settings=settings)

    def make_ranks():
        print("tokenizer: training", flush=True)
        return train_ranks(training_texts(shards, spec["corpus"]["text_column"], settings), settings)

    return {"settings": settings, "shards": digests}, partial(build_tokenizer, make_ranks=make_ranks, settings=settings)


def prepare(spec, data, listed, workers):
    """Build or reuse the four parts under data/name; return (what prepared.json says, the directory)."""
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
                        key=key, refill_batch=packing["refill_batch"], workers=workers)
        inputs = {"shards": shard_digests, "tokenizer": key, "refill_batch": packing["refill_batch"]}
        records[split] = make_part(directory, split, inputs, build)
    prepared = summary(spec, directory, records, splits)
    write_json(directory / "prepared.json", prepared)
    return prepared, directory


def summary(spec, directory, records, splits):
    """prepared.json: settings, facts and counts (tokens include one BOS a document), SHA-256 of every file."""
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
    """Lines naming what is changed, missing or extra in the folders that the manifest lists."""
    folders = {name.split("/")[0] for name in listed}
    names = set(listed) | {name for name in digests if name.split("/")[0] in folders}
    return [f"{name}: expected {listed.get(name, 'no such file')}, found {digests.get(name, 'no such file')}"
            for name in sorted(names) if listed.get(name) != digests.get(name)]


def print_table(prepared):
    from tabulate import tabulate

    keys = ["documents", "tokens", "median_length", "over_capacity", "longest"]
    rows = [[split, *(counts[key] for key in keys)] for split, counts in prepared["splits"].items()]
    headers = ["split", "documents", "tokens", "median", f"over {prepared['capacity']}", "longest"]
    print(tabulate(rows, headers, intfmt=",", floatfmt=",.1f"))


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--study", metavar="NAME", help="a protocol in protocols/, or the path of one (.json)")
    source.add_argument("--input", nargs="+", metavar="FILE", help="your own files")
    parser.add_argument("--freeze", action="store_true", help="write manifests/NAME.sha256 from what was prepared")
    parser.add_argument("--name", help="with --input: what to call the result")
    parser.add_argument("--vocabulary", type=int, metavar="N", help="with --input: bytes, merges and special tokens")
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", help="with --input: use this tokenizer, train none")
    parser.add_argument("--text-column", default="text", metavar="COL", help="with --input (default text)")
    parser.add_argument("--validation-input", nargs="+", metavar="FILE", help="with --input: default is the last 1/20")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--group-column", metavar="COL", help="with --input: hold out whole groups, by this column")
    group.add_argument("--group-by", choices=["directory"], help="with --input: hold out whole directories")
    parser.add_argument("--like", default="climbmix", metavar="STUDY",
                        help="with --input: its pattern and packing (default climbmix)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="default data/")
    parser.add_argument("--workers", type=int, default=cores(), metavar="N", help="processes (default all cores)")
    args = parser.parse_args(argv)
    if args.input and not (args.name and (args.vocabulary or args.tokenizer)):
        parser.error("--input needs --name and one of --vocabulary and --tokenizer")
    if (args.group_column or args.group_by) and (args.study or args.validation_input):
        parser.error("--group-column and --group-by split --input, without --validation-input")
    if args.study and (args.name or args.vocabulary or args.tokenizer or args.validation_input):
        parser.error("--name, --vocabulary, --tokenizer and --validation-input go with --input")
    if args.freeze and not args.study:
        parser.error("--freeze is for studies")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    spec = read_protocol(args.study) if args.study else own_spec(args)
    manifest = ROOT / "manifests" / f"{spec['name']}.sha256"
    listed = read_manifest(manifest) if manifest.exists() else {}
    with alone(args.data / f".{spec['name']}.lock"):
        prepared, directory = prepare(spec, args.data, listed, args.workers)
    digests = prepared["files"] | {"prepared.json": sha256_bytes(canonical_json(prepared))}
    print_table(prepared)
    found = []
    if args.freeze:
        write_atomic(manifest, format_manifest(digests))
        print(f"{len(digests)} files frozen in {manifest}")
    elif listed:
        found = differences(listed, digests)
        print("".join(f"{manifest}: {line}\n" for line in found) or f"all files are those of {manifest}\n", end="")
    print(f"prepared: {directory}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(run_script(main))
