"""Groups and texts that stand in both splits are found and counted; the grouped hold-out of prepare.py leaves none."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import prepare
from corpora.split import VALIDATION_SHARE, directories_of, held_out_groups, read_grouped
from evidence import InputError, read_json, run_script, sha256_file, write_json
from research.batch_boundaries import audit_split

HERE = audit_split.ROOT / "research/batch_boundaries"


def shard(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def study(folder, train, validation, name="own"):
    """A prepared corpus of {name: text} a shard."""
    paths = [shard(folder / f"{name}/corpus/shard_{number:05d}.parquet", text=pa.array(documents.values(), pa.string()),
                   name=pa.array(documents, pa.string())) for number, documents in enumerate([*train, validation])]
    *others, last = [path.name for path in paths]
    write_json(folder / name / "prepared.json", {
        "corpus": {"train_shards": others, "validation_shard": last, "text_column": "text"},
        "files": {f"corpus/{path.name}": sha256_file(path) for path in paths}})


def command(folder, *arguments):
    return run_script(audit_split.main, ["--study", "own", "--data", str(folder), *map(str, arguments)])


# --------------------------------------------------------------------------------------------- check


def test_a_group_in_both_splits_and_a_text_in_both_splits_are_counted_with_examples(tmp_path, capsys):
    study(tmp_path, [{"a-1.whl/a/x.py": "one", "a-1.whl/b/y.py": "two"}, {"b-1.whl/b/z.py": "three"}],
          {"A-2.whl/a/x.py": "four", "c-1.whl/c.py": "two", "a-1.whl/b/w.py": "two"})
    assert command(tmp_path, "--json", tmp_path / "out.json") == 1
    found, out = read_json(tmp_path / "out.json"), capsys.readouterr().out
    assert found["documents"] == {"train": 3, "validation": 3}
    assert found["groupings"]["package"] == {
        "groups": {"train": 2, "validation": 2}, "shared_groups": 1, "examples": ["a"],
        "documents_of_shared_groups": {"train": 2, "validation": 2}}
    assert found["groupings"]["directory"]["examples"] == ["a-1.whl/b"]
    assert found["duplicates"] == {"texts": 1, "documents": {"train": 1, "validation": 2}, "examples": [
        {"train": "shard_00000.parquet: document 1", "validation": "shard_00002.parquet: document 1"}]}
    assert "3 checks, 3 failed" in out and "package: 1 groups are in both splits (of 2 and 2)" in out
    assert command(tmp_path, "--json", tmp_path / "out.json") == 1
    study(tmp_path, [{"a-1.whl/a.py": "one"}], {"b-1.whl/b.py": "two"})
    assert command(tmp_path, "--json", tmp_path / "out.json") == 2
    assert "frozen, and the new content differs" in capsys.readouterr().err


def test_groups_and_texts_apart_pass(tmp_path, capsys):
    study(tmp_path, [{"a-1.whl/a.py": "one", "a-1.whl/b.py": "one"}], {"b-1.whl/b.py": "two"})
    assert command(tmp_path) == 0
    assert "3 checks, 0 failed" in capsys.readouterr().out


def test_ones_own_files_and_column_are_checked(tmp_path):
    train = shard(tmp_path / "t.parquet", body=["one", "two"], repo=["r", "s"])
    validation = tmp_path / "v.jsonl"
    for repo, code in (("q", 0), ("s", 1)):
        validation.write_text(json.dumps({"body": "three", "repo": repo}) + "\n")
        arguments = ["--train", train, "--validation", validation, "--text-column", "body", "--group", "column:repo"]
        assert run_script(audit_split.main, list(map(str, arguments))) == code


def test_files_without_names_are_searched_for_exact_duplicates(tmp_path, capsys):
    train, validation = shard(tmp_path / "t.parquet", text=["one", "two"]), shard(tmp_path / "v.parquet", text=["two"])
    assert run_script(audit_split.main, ["--train", str(train), "--validation", str(validation)]) == 1
    out = capsys.readouterr().out
    assert "exact duplicates: 1 texts are in both splits" in out and "--group column:COL" in out
    validation = shard(tmp_path / "v.parquet", text=["three"])
    assert run_script(audit_split.main, ["--train", str(train), "--validation", str(validation)]) == 0


@pytest.mark.parametrize("arguments, message", [
    (["--group", "colour"], "--group colour: expected package, directory or column:COL"),
    (["--group", "column:"], "--group column:: expected"), (["--group", "column:repo"], "no column 'repo'"),
    (["--study", "absent"], "absent/prepared.json"), (["--study", "empty"], "validation: expected a document")])
def test_what_cannot_be_checked_is_named(tmp_path, capsys, arguments, message):
    study(tmp_path, [{"a-1.whl/a.py": "one"}], {"b-1.whl/b.py": "two"})
    study(tmp_path, [{"a-1.whl/a.py": "one"}], {}, "empty")
    assert command(tmp_path, *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["demo", "wheels"])
def test_the_frozen_splits_belong_to_the_frozen_corpora_and_say_that_groups_are_torn(name):
    """Their documents are ordered by content hash: no text twice, every package on both sides."""
    found = read_json(HERE / f"split_{name}.json")
    listed = dict(reversed(line.split("  ")) for line in
                  (prepare.ROOT / f"manifests/{name}.sha256").read_text().splitlines())
    assert {e["path"].removeprefix(f"data/{name}/"): e["sha256"] for e in found["inputs"]} == {
        path: digest for path, digest in listed.items() if path.endswith(".parquet")}
    packages = found["groupings"]["package"]
    assert packages["shared_groups"] == packages["groups"]["validation"] == len(
        read_json(prepare.ROOT / f"protocols/{name}.json")["corpus"]["wheels"])
    assert packages["documents_of_shared_groups"] == found["documents"] and found["duplicates"]["texts"] == 0


# ------------------------------------------------------------------------------------------ hold-out


def test_a_group_keeps_its_side_when_others_come_and_go():
    names = [f"group {number}" for number in range(400)]
    chosen = held_out_groups(names)
    expected = {name for name in names if int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) % 20 == 0}
    assert chosen == expected and VALIDATION_SHARE == 20 and 10 <= len(chosen) <= 30
    half = held_out_groups(names[::2])
    assert half == chosen & set(names[::2])


def test_both_sides_have_a_group_however_the_hashes_fall():
    """Also where all hashes say training, or all say validation."""
    names = [f"group {number}" for number in range(2000)]
    chosen = sorted(held_out_groups(names))
    rest = sorted(set(names) - set(chosen))
    for groups in (rest[:2], chosen[:2], rest[:9]):
        assert len(held_out_groups(groups)) == 1 and held_out_groups(groups) < set(groups)
    with pytest.raises(InputError, match="1 groups in all"):
        held_out_groups(["only"])


def texts(repo, count):
    return [f"repo {repo} holds document number {i}, with words that a tokenizer can merge\n" for i in range(count)]


def prepared(folder, name, *arguments):
    argv = ["--name", name, "--vocabulary", 280, "--data", folder / "data", "--workers", 1, *arguments]
    return run_script(prepare.main, list(map(str, argv)))


def test_prepared_by_column_no_group_is_torn_and_no_document_lost_or_moved(tmp_path, capsys):
    rows = [(text, f"r{repo}") for repo in range(12) for text in texts(repo, 3)]
    rows = rows[::2] + rows[1::2]
    path = shard(tmp_path / "own.parquet", body=[text for text, _ in rows], repo=[repo for _, repo in rows])
    own = ["--input", path, "--text-column", "body"]
    assert prepared(tmp_path, "grouped", *own, "--group-column", "repo") == 0
    corpus = tmp_path / "data/grouped/corpus"
    split = [[(row["text"], row["group"]) for row in pq.read_table(shard).to_pylist()]
             for shard in sorted(corpus.glob("*.parquet"))]
    chosen = held_out_groups({repo for _, repo in rows})
    assert split == [[r for r in rows if r[1] not in chosen], [r for r in rows if r[1] in chosen]]
    assert f"{len(chosen)} of 12 groups, {len(split[1])} of 36 documents, are held out" in capsys.readouterr().out
    check = ["--data", str(tmp_path / "data"), "--group", "column:group"]
    assert run_script(audit_split.main, ["--study", "grouped", *check]) == 0
    assert prepared(tmp_path, "plain", *own) == 0
    assert pq.read_table(tmp_path / "data/plain/corpus/shard_00000.parquet").column_names == ["text"]


def test_prepared_by_directory_whole_directories_are_held_out_wherever_they_lie(tmp_path):
    splits = []
    for place in ("here", "there/deep"):
        paths = []
        for repo in range(6):
            for number, text in enumerate(texts(repo, 2)):
                path = tmp_path / place / f"d{repo}" / f"{number}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                paths.append(path)
        name = place.replace("/", "_")
        assert prepared(tmp_path, name, "--input", *paths, "--group-by", "directory") == 0
        splits.append([pq.read_table(shard).to_pylist()
                       for shard in sorted((tmp_path / "data" / name / "corpus").glob("*.parquet"))])
    assert splits[0] == splits[1] and sum(map(len, splits[0])) == 12
    sides = [{row["group"] for row in side} for side in splits[0]]
    assert sides[0] | sides[1] == {f"d{repo}" for repo in range(6)} and not sides[0] & sides[1] and all(sides)


def test_directories_are_named_from_what_the_files_have_in_common(tmp_path):
    assert directories_of([tmp_path / "a/x.txt", tmp_path / "a/b/y.txt"]) == [".", "b"]
    with pytest.raises(InputError, match="x.txt: plain text has no column 'repo'"):
        list(read_grouped([tmp_path / "x.txt"], "text", "repo"))


@pytest.mark.parametrize("arguments", [
    ["--study", "demo", "--group-by", "directory"], ["--input", "a.txt", "--name", "x", "--vocabulary", "300",
     "--group-column", "c", "--group-by", "directory"], ["--input", "a.txt", "--name", "x", "--vocabulary", "300",
     "--group-column", "c", "--validation-input", "b.txt"]])
def test_a_hold_out_by_group_is_for_ones_own_files_without_validation_files(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        prepare.main(arguments)
    assert stopped.value.code == 2 and "group" in capsys.readouterr().err
