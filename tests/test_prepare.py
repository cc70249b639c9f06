"""Preparing a corpus loses, adds and reorders nothing, writes the same bytes every time, and reuses what is whole.

Also: what changed is rebuilt by name, a frozen list of hashes is a closed world, a mistaken command is one line.
"""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import prepare
from corpora.parts import alone
from corpora.prepared import require_prepared
from corpora.tokenizer import load_encoding
from evidence import InputError, read_json, run_script, sha256_file
from manifest import manifest_findings, read_manifest
from tiny import disks
from tiny.documents import lines_of, tree, wheel

CLIMBMIX = json.loads((prepare.ROOT / "protocols/climbmix.json").read_text())
SETTINGS = CLIMBMIX["tokenizer"] | {"vocabulary": 300}
TEXTS = [f"Document {i} says <|endoftext|> and packs {'row after row of naïve tokens ' * (i % 7)}\n" for i in range(60)]
TEXTS[17] = ""
MEMBERS = {"suffixes": [".py", ".txt"], "minimum_bytes": 8, "maximum_bytes": 5000, "text_column": "text"}


def share(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


TRAIN = [text for text in TEXTS if share(text) % 20]
VALIDATION = [text for text in TEXTS if share(text) % 20 == 0]


def spec_of(folder, texts, group=7, refill=3):
    """A spec of one JSON-lines file, with small row groups."""
    path = folder / f"texts_{len(texts)}.jsonl"
    path.write_bytes(lines_of(texts))
    corpus = {"kind": "files", "text_column": "text", "source_column": "text", "row_group_documents": group,
              "train_files": [str(path)], "validation_files": None,
              "train_shards": ["shard_00000.parquet"], "validation_shard": "shard_00001.parquet"}
    return {"name": "tiny", "corpus": corpus, "tokenizer": SETTINGS, "packing": {"refill_batch": refill, "context": 16}}


def documents_of(directory, split):
    """Decode every document from the files a trainer reads, by the layout's rule for offsets."""
    tokens, lengths = (np.load(directory / split / f"{name}.npy") for name in ("tokens", "lengths"))
    encoding = load_encoding(directory / "tokenizer", sha256_file(directory / "tokenizer/ranks.txt"))
    offsets = np.concatenate([[0], np.cumsum(lengths - 1)])
    assert offsets[-1] == len(tokens)
    return [encoding.decode(tokens[start:end].tolist()) for start, end in zip(offsets, offsets[1:])]


# ------------------------------------------------------------------------------------- whole preparation


def test_the_prepared_files_are_the_documents(tmp_path):
    """Case 32 among them: special-token text stays text, one document; an empty document has length 1."""
    prepared, directory = prepare.prepare(spec_of(tmp_path, TEXTS), tmp_path, {}, 1)
    assert documents_of(directory, "train") == TRAIN and documents_of(directory, "validation") == VALIDATION
    lengths = np.load(directory / "train/lengths.npy")
    assert lengths.dtype == np.int64 and lengths[TRAIN.index("")] == 1
    assert np.load(directory / "train/tokens.npy", mmap_mode="r").dtype == np.uint16
    assert np.load(directory / "train/refill.npy").tolist() == [3, 3, 1] * 7 + [3, 1] and len(TRAIN) == 53
    counts = prepared["splits"]["train"]
    assert counts["documents"] == len(TRAIN) and counts["bytes"] == sum(len(text.encode()) for text in TRAIN)
    assert counts["tokens"] == counts["text_tokens"] + len(TRAIN) == lengths.sum()
    assert (counts["longest"], counts["median_length"]) == (lengths.max(), float(np.median(lengths)))
    assert counts["over_capacity"] == sum(length > 17 for length in lengths)
    assert prepared == read_json(directory / "prepared.json")
    assert manifest_findings(prepared["files"], directory) == ["prepared.json: extra"]


def test_tokens_and_lengths_do_not_depend_on_row_groups_or_workers(tmp_path):
    """Case 10: only the refill batches follow the row groups."""
    trees = []
    for index, (group, workers) in enumerate([(7, 1), (7, 3), (50, 1)]):
        directory = prepare.prepare(spec_of(tmp_path, TEXTS, group), tmp_path / str(index), {}, workers)[1]
        trees.append(tree(directory))
    assert trees[0] == trees[1]
    for name in ("train/tokens.npy", "train/lengths.npy", "validation/tokens.npy", "tokenizer/ranks.txt"):
        assert trees[0][name] == trees[2][name]
    assert trees[0]["train/refill.npy"] != trees[2]["train/refill.npy"]


def test_a_second_run_reuses_everything_and_a_changed_file_is_rebuilt_by_name(tmp_path, capsys):
    spec = spec_of(tmp_path, TEXTS)
    directory = prepare.prepare(spec, tmp_path, {}, 1)[1]
    first, touched = tree(directory), {path: path.stat().st_mtime_ns for path in directory.glob("*/*")}
    capsys.readouterr()
    prepare.prepare(spec, tmp_path, {}, 1)
    assert capsys.readouterr().out == "corpus: reused\ntokenizer: reused\ntrain: reused\nvalidation: reused\n"
    assert {path: path.stat().st_mtime_ns for path in directory.glob("*/*")} == touched
    (directory / "train/lengths.npy").write_bytes(b"damaged")
    (directory / "tokenizer/part.json").write_bytes(b"{")
    prepare.prepare(spec, tmp_path, {}, 1)
    printed = capsys.readouterr().out
    for line in ["corpus: reused", "train/lengths.npy: changed", "validation: reused", "not strict JSON"]:
        assert line in printed
    assert tree(directory) == first


def test_what_a_file_manager_writes_into_prepared_data_does_not_build_a_part_anew(tmp_path, capsys):
    spec = spec_of(tmp_path, TEXTS)
    directory = prepare.prepare(spec, tmp_path, {}, 1)[1]
    for part in ("corpus", "tokenizer", "train", "validation"):
        (directory / part / ".DS_Store").write_text("x")
    capsys.readouterr()
    prepare.prepare(spec, tmp_path, {}, 1)
    assert capsys.readouterr().out == "corpus: reused\ntokenizer: reused\ntrain: reused\nvalidation: reused\n"


def test_changed_input_is_noticed_and_only_what_depends_on_it_is_rebuilt(tmp_path, capsys):
    spec = spec_of(tmp_path, TEXTS)
    prepare.prepare(spec, tmp_path, {}, 1)
    capsys.readouterr()
    other = spec | {"packing": {"refill_batch": 4, "context": 16}}
    directory = prepare.prepare(other, tmp_path, {}, 1)[1]
    printed = capsys.readouterr().out
    assert "tokenizer: reused" in printed and "$.refill_batch: frozen 3, new 4" in printed
    assert np.load(directory / "train/refill.npy")[:2].tolist() == [4, 3]
    longest = np.load(directory / "train/lengths.npy").max()
    for context, over in [(longest - 1, False), (longest - 2, True)]:
        packing = {"refill_batch": 4, "context": int(context)}
        counts = prepare.prepare(spec | {"packing": packing}, tmp_path, {}, 1)[0]["splits"]["train"]
        assert (counts["over_capacity"] > 0) == over
    Path(spec["corpus"]["train_files"][0]).write_bytes(lines_of(TEXTS[:40]))
    assert prepare.prepare(other, tmp_path, {}, 1)[0]["splits"]["train"]["documents"] == 34


def test_an_interrupted_part_leaves_no_half_result(tmp_path, monkeypatch):
    """The run fails in the middle of the training tokens; what stands is whole, and the next run completes it."""
    spec = spec_of(tmp_path, TEXTS)
    directory = prepare.prepare(spec, tmp_path / "whole", {}, 1)[1]

    def fail(folder, **rest):
        (folder / "tokens.npy").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(prepare, "write_split", fail)
        prepare.prepare(spec, tmp_path, {}, 1)
    assert not (tmp_path / "tiny/train").exists() and not (tmp_path / "tiny/prepared.json").exists()
    assert tree(prepare.prepare(spec, tmp_path, {}, 1)[1]) == tree(directory)


RICH = "words " * 50 + "".join(map(chr, range(40, 900)))
# Its hash lies above that of the empty text, which is held out of the two.
ABOVE_EMPTY = next(text for text in (f"{RICH} {number}" for number in range(1000)) if share(text) > share(""))


@pytest.mark.parametrize("texts, message", [
    ([], "0 documents in all"), (["only one"], "1 documents in all, 1 different"),
    (["", ""], "2 documents in all, 1 different"),
    (["", "a"], "too little text"), ([ABOVE_EMPTY, ""], "without a single token")])
def test_a_corpus_with_nothing_to_read_is_refused_and_leaves_no_unfinished_part(tmp_path, texts, message):
    """Whichever part cannot be built: the corpus, the tokenizer or the tokens."""
    with pytest.raises(InputError, match=message):
        prepare.prepare(spec_of(tmp_path, texts), tmp_path, {}, 1)
    assert not (tmp_path / "tiny/prepared.json").exists() and not list((tmp_path / "tiny").glob("*.partial"))


# --------------------------------------------------------------------------------------------- command


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository root with the paper's protocol, so that no test writes into the real one."""
    (tmp_path / "protocols").mkdir()
    (tmp_path / "protocols/climbmix.json").write_text(json.dumps(CLIMBMIX))
    monkeypatch.setattr(prepare, "ROOT", tmp_path)
    (tmp_path / "own.jsonl").write_bytes(lines_of(TEXTS))
    return tmp_path


def command(repository, *arguments):
    return run_script(prepare.main, [*map(str, arguments), "--data", str(repository / "data"), "--workers", "1"])


def test_what_an_error_says_to_run_is_taken_with_and_without_a_corpus_to_download(repository):
    """The first command where protocols/mine.json is there, the second, for one's own text, where it is not."""
    with pytest.raises(InputError) as caught:
        require_prepared(repository / "data/mine/prepared.json", "mine")
    words = str(caught.value).replace("FILES", str(repository / "own.jsonl")).replace(" N`", " 300`")
    study, own = (found.split() for found in re.findall("`python prepare.py ([^`]+)`", words))
    assert prepare.own_spec(prepare.parse_arguments(own))["name"] == "mine"
    (repository / "protocols/mine.json").write_text(json.dumps(CLIMBMIX | {"study": "mine"}))
    assert prepare.read_protocol(prepare.parse_arguments(study).study)["name"] == "mine"
    with pytest.raises(InputError, match="exists; choose another name"):
        prepare.own_spec(prepare.parse_arguments(own))


@pytest.mark.parametrize("script", ["generate_runs.py", "research/source_exclusion/audit_stream.py"])
def test_a_study_of_ones_own_that_is_not_prepared_is_told_how(script, tmp_path):
    """By scripts that take a protocol outside protocols/."""
    protocol, root = tmp_path / "mine.json", Path(prepare.__file__).parent
    protocol.write_text(json.dumps(CLIMBMIX | {"study": "mine"}))
    arguments = [protocol] if script == "generate_runs.py" else ["--study", protocol]
    command = [sys.executable, root / script, *arguments, "--data", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "prepare.py --input FILES --name mine" in done.stderr


def tiny_study(repository, vocabulary=300):
    """A wheels study named `tiny`, its one wheel already in the cache."""
    cache = repository / "data/wheels_cache"
    cache.mkdir(parents=True, exist_ok=True)
    path = wheel(cache / "w.whl", [(f"{i}.py", text + f"number {i}") for i, text in enumerate(TEXTS)])
    pinned = {"file": path.name, "name": "w", "version": "1", "sha256": sha256_file(path)}
    corpus = MEMBERS | {"kind": "wheels", "row_group_documents": 7, "train_shards": ["a.parquet"],
                        "validation_shard": "b.parquet", "wheels": [pinned]}
    protocol = CLIMBMIX | {"study": "tiny", "corpus": corpus, "tokenizer": SETTINGS | {"vocabulary": vocabulary}}
    (repository / "protocols/tiny.json").write_text(json.dumps(protocol))


def test_a_frozen_study_is_checked_and_every_difference_named(repository, capsys):
    tiny_study(repository)
    assert command(repository, "--study", "tiny", "--freeze") == 0
    listed = read_manifest(repository / "manifests/tiny.sha256")
    assert manifest_findings(listed, repository / "data/tiny") == []
    assert command(repository, "--study", "tiny") == 0
    assert "all files are those of" in capsys.readouterr().out
    tiny_study(repository, vocabulary=299)
    assert command(repository, "--study", "tiny") == 1
    printed = capsys.readouterr().out
    for name in ("tokenizer/ranks.txt", "train/tokens.npy", "prepared.json"):
        assert re.search(rf"tiny.sha256: {name}: expected {listed[name]}, found (?!{listed[name]})", printed)
    assert "tiny.sha256: corpus/" not in printed
    assert command(repository, "--study", "tiny", "--freeze") == 0
    assert command(repository, "--study", "tiny") == 0


def test_a_list_is_a_closed_world_in_the_folders_it_names():
    listed = {"corpus/a": "1", "corpus/b": "2"}
    assert prepare.differences(listed, listed | {"train/x": "3"}) == []
    assert prepare.differences(listed, {"corpus/a": "9", "corpus/c": "3"}) == [
        "corpus/a: expected 1, found 9", "corpus/b: expected 2, found no such file",
        "corpus/c: expected no such file, found 3"]


def test_a_users_own_files_are_prepared_and_their_tokenizer_serves_other_files(repository, capsys):
    own = ["--input", repository / "own.jsonl", "--name", "mine", "--vocabulary", 300]
    assert command(repository, *own) == 0
    printed = capsys.readouterr().out
    assert "7 of 60 documents, 1 in 20 by the hash of the text, are held out" in printed
    assert "0 of the 7 validation texts are also training texts" in printed
    assert documents_of(repository / "data/mine", "validation") == VALIDATION
    (repository / "v.txt").write_text("held out")
    pq.write_table(pa.table({"body": TEXTS}), repository / "own.parquet")
    assert command(repository, "--input", repository / "own.parquet", "--text-column", "body", "--name", "other",
                   "--tokenizer", repository / "data/mine/tokenizer", "--validation-input", repository / "v.txt") == 0
    mine, other = repository / "data/mine", repository / "data/other"
    assert tree(other / "tokenizer") | {"part.json": b""} == tree(mine / "tokenizer") | {"part.json": b""}
    assert documents_of(other, "train") == TEXTS and documents_of(other, "validation") == ["held out"]
    assert command(repository, "--input", repository / "own.parquet", "--text-column", "body", "--name", "third",
                   "--tokenizer", mine / "tokenizer/tokenizer.json",
                   "--validation-input", repository / "own.parquet") == 0
    assert "warning: 60 of the 60 validation texts are also training texts" in capsys.readouterr().out
    assert command(repository, "--input", repository / "v.txt", "--name", "other", "--vocabulary", 301,
                   "--tokenizer", mine / "tokenizer") == 2
    assert "its vocabulary is 300, but --vocabulary says 301" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, message", [
    (["--study", "nothing"], "nothing.json: no such protocol; .*climbmix"),
    (["--input", "own.jsonl", "--name", "climbmix", "--vocabulary", "300"], "exists; choose another name"),
    (["--input", "own.jsonl", "--name", "../x", "--vocabulary", "300"], "--name: expected letters, digits"),
    (["--input", "own.jsonl", "--name", "x", "--vocabulary", str(10**20)], "x: tokenizer: vocabulary: expected below"),
    (["--input", "own.jsonl", "--name", "x", "--tokenizer", "own.jsonl"], "own.jsonl: expected a folder with ranks"),
    (["--input", "*.csv", "--name", "x", "--vocabulary", "300"], "no file matches"),
    (["--input", "missing.jsonl", "--name", "x", "--vocabulary", "300"], "missing.jsonl: No such file")])
def test_a_mistaken_command_is_one_line_and_exit_code_2(repository, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(repository)
    assert command(repository, *arguments) == 2
    assert re.search(message, capsys.readouterr().err)


def test_settings_of_ones_own_files_are_not_taken_for_a_studys(repository, capsys):
    with pytest.raises(SystemExit) as stopped:
        command(repository, "--study", "climbmix", "--name", "mine")
    assert stopped.value.code == 2 and "go with --input" in capsys.readouterr().err


def test_of_two_at_once_the_second_is_refused_and_leaves_the_first_alone(repository, capsys):
    own = ["--input", repository / "own.jsonl", "--name", "mine", "--vocabulary", 300]
    with alone(repository / "data/.mine.lock"):
        assert command(repository, *own) == 2 and not (repository / "data/mine").exists()
    assert "another prepare.py is at work" in capsys.readouterr().err
    assert command(repository, *own) == 0


@pytest.mark.parametrize("section, change, message", [
    ("corpus", {"kind": "magic"}, "corpus.kind: expected one of download, wheels, found 'magic'"),
    ("corpus", {"extra": 1}, "corpus: unknown key extra"), ("tokenizer", {"extra": 1}, "tokenizer: unknown key extra"),
    ("corpus", {"validation_shard": "../x"}, "corpus.validation_shard: expected a plain file name, found '../x'")])
def test_a_protocol_with_wrong_keys_is_refused_by_name(repository, capsys, section, change, message):
    protocol = CLIMBMIX | {section: CLIMBMIX[section] | change}
    (repository / "protocols/wrong.json").write_text(json.dumps(protocol))
    assert command(repository, "--study", "wrong") == 2
    assert message in capsys.readouterr().err


# ------------------------------------------------------------------------------------------- surroundings


def test_a_full_disk_is_named_and_the_same_command_goes_on(repository, tmp_path, capsys):
    own = ["--input", repository / "own.jsonl", "--name", "mine", "--vocabulary", 300]
    with disks.small_disk(repository / "data", 60_000):
        assert command(repository, *own) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and re.search(r"data/mine/.*: No space left on device; make room", said)
        assert not list((repository / "data/mine").glob("*.partial/*"))
    assert command(repository, *own) == 0


def test_a_folder_that_is_read_only_is_named(repository, capsys):
    (repository / "data").mkdir()
    with disks.read_only(repository / "data"):
        assert command(repository, "--input", repository / "own.jsonl", "--name", "mine", "--vocabulary", 300) == 2
    assert re.search("data/.mine.lock: .*read-only", capsys.readouterr().err)
