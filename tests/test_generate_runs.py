"""Generated run directories are complete, alike but for their condition and seed, reproducible, never overwritten, and
refused when the protocol's loaders or the prepared data do not fit."""

import json
import shutil
import subprocess
import sys

import pytest

from evidence import read_json, sha256_file, write_json
from manifest import manifest_findings, read_manifest
from tiny import repository as tiny_study

RUNS = ["baseline_s43", "baseline_s44", "random_crop_s43", "random_crop_s44", "segmented_s43", "segmented_s44"]
SHARED = {"train.py", "evidence.py", "files.py", "loaders/accounting.py", "loaders/best_fit_crop.py", "loaders/rows.py"}


@pytest.fixture
def repository(tmp_path):
    tiny_study.build(tmp_path)
    return tmp_path


@pytest.fixture
def study(repository):
    done = tiny_study.generate(repository)
    assert done.returncode == 0, done.stderr
    return repository / "runs/demo"


# ------------------------------------------------------------------------------------ what is written


def test_six_runs_hold_exactly_the_code_they_need_and_are_all_listed(study):
    expected = {f"{run}/{name}" for run in RUNS for name in SHARED | {"loader.py", "config.json"}}
    assert set(tiny_study.tree(study)) == expected | {"runs.sha256"}
    digests = read_manifest(study / "runs.sha256")
    assert set(digests) == expected
    assert manifest_findings(digests, study) == ["runs.sha256: extra"]


def test_every_config_is_complete_and_copies_the_protocol(study):
    repository = study.parents[1]
    protocol_path, prepared = repository / "protocols/demo.json", repository / "data/demo/prepared.json"
    protocol, files = read_json(protocol_path), read_json(prepared)["files"]
    for run in RUNS:
        config = read_json(study / run / "config.json")
        condition, seed = run.rsplit("_s", 1)
        data = config.pop("data")
        assert config == {
            "study": "demo", "condition": condition, "seed": int(seed), "bos": 4092, "vocabulary": 4096,
            "loader": protocol["conditions"][condition] + ".py", "protocol_sha256": sha256_file(protocol_path),
            **{key: protocol[key] for key in ("packing", "model", "optimizer", "training", "evaluation")},
        }
        assert data["directory"] == "../../../data/demo"
        assert (study / run / data["directory"]).resolve() == repository / "data/demo"
        assert data["files"] == {name: digest for name, digest in files.items() if not name.startswith("corpus/")}


def test_runs_differ_only_in_loader_condition_and_seed(study):
    trees = {run: tiny_study.tree(study / run) for run in RUNS}
    for name in SHARED:
        assert len({trees[run][name] for run in RUNS}) == 1, name
    configs = [json.loads(trees[run]["config.json"]) for run in RUNS]
    own = ("condition", "seed", "loader")
    rest = [{key: value for key, value in config.items() if key not in own} for config in configs]
    assert all(other == rest[0] for other in rest)
    for run, config in zip(RUNS, configs):
        assert trees[run]["loader.py"] == (study.parents[1] / "loaders" / config["loader"]).read_bytes()
    assert len({trees[run]["loader.py"] for run in RUNS}) == 3


def test_a_run_directory_imports_its_loader_without_the_repository(study, tmp_path_factory):
    alone = tmp_path_factory.mktemp("alone") / "run"
    shutil.copytree(study / "random_crop_s43", alone)
    code = f"import sys; sys.path.insert(0, {str(alone)!r}); import loader; print(loader.LOADER)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=alone.parent)
    assert done.stdout == "('span', ('crop', 0))\n", done.stderr


def test_another_place_gives_the_same_bytes(study, tmp_path_factory):
    other = tmp_path_factory.mktemp("elsewhere")
    tiny_study.build(other)
    assert tiny_study.generate(other).returncode == 0
    assert tiny_study.tree(other / "runs/demo") == tiny_study.tree(study)


# -------------------------------------------------------------------------------------- a second run


def test_a_split_that_the_buffer_holds_whole_is_warned_of(repository):
    path = repository / "data/demo/prepared.json"
    prepared = read_json(path)
    for documents, warned in ((1000, True), (1001, False)):
        write_json(path, {**prepared, "splits": {"train": {"documents": 9999}, "validation": {"documents": documents}}})
        done = tiny_study.generate(repository)
        assert done.returncode == 0 and "train has" not in done.stdout
        assert ("warning: validation has 1,000 documents, no more than the buffer of 1,000" in done.stdout) == warned


def test_a_second_run_writes_nothing(study):
    before = {path: path.stat().st_mtime_ns for path in study.rglob("*")}
    done = tiny_study.generate(study.parents[1])
    assert done.returncode == 0 and " 0 of them new" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in study.rglob("*")} == before


def test_an_interrupted_generation_is_completed(study):
    whole = tiny_study.tree(study)
    shutil.rmtree(study / "segmented_s44")
    (study / "runs.sha256").unlink()
    assert tiny_study.generate(study.parents[1]).returncode == 0
    assert tiny_study.tree(study) == whole


def test_results_of_the_runs_do_not_stand_in_the_way(study):
    (study / "baseline_s43/result.json").write_text("{}")
    assert tiny_study.generate(study.parents[1]).returncode == 0


@pytest.mark.parametrize("name", ["baseline_s44/config.json", "segmented_s43/loaders/rows.py", "runs.sha256"])
def test_an_edited_file_is_named_and_left_alone(study, name):
    (study / name).write_bytes(b"edited")
    (study / "baseline_s43/train.py").unlink()
    before = tiny_study.tree(study)
    done = tiny_study.generate(study.parents[1])
    assert done.returncode == 2 and name in done.stderr and "random_crop" not in done.stderr
    assert tiny_study.tree(study) == before


def test_a_new_version_of_the_trainer_is_refused_for_all_runs(study):
    with open(study.parents[1] / "train.py", "a") as file:
        file.write("# newer\n")
    done = tiny_study.generate(study.parents[1])
    assert done.returncode == 2
    assert all(f"{run}/train.py" in done.stderr for run in RUNS)


# --------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("loader", ["missing_file", "accounting"])
def test_a_condition_must_name_a_loader(tmp_path, loader):
    tiny_study.build(tmp_path, conditions={"baseline": "best_fit_crop", "other": loader})
    done = tiny_study.generate(tmp_path)
    assert done.returncode == 2 and "conditions.other" in done.stderr and loader in done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_unprepared_study_names_the_command(repository):
    (repository / "data/demo/prepared.json").unlink()
    done = tiny_study.generate(repository)
    assert done.returncode == 2 and "prepare.py --study demo" in done.stderr


def test_data_without_a_hash_is_named(repository):
    path = repository / "data/demo/prepared.json"
    path.write_text(path.read_text().replace("train/refill.npy", "train/other.npy"))
    done = tiny_study.generate(repository)
    assert done.returncode == 2 and "train/refill.npy" in done.stderr


@pytest.mark.parametrize("key, value", [("vocabulary", 512), ("pattern", r"\w"), ("bos", "<|reserved_1|>"),
                                        ("specials", ["<|reserved_0|>"])])
def test_data_prepared_with_another_tokenizer_is_refused(repository, key, value):
    path = repository / "protocols/demo.json"
    protocol = read_json(path)
    protocol["tokenizer"][key] = value
    path.write_text(json.dumps(protocol))
    done = tiny_study.generate(repository)
    assert done.returncode == 2 and f"tokenizer.json: {key}" in done.stderr and "prepare the study again" in done.stderr


def test_an_edited_tokenizer_is_refused(repository):
    path = repository / "data/demo/tokenizer/tokenizer.json"
    path.write_text(path.read_text() + " ")
    done = tiny_study.generate(repository)
    assert done.returncode == 2 and "SHA-256 differs" in done.stderr


def test_help_needs_nothing_prepared(tmp_path):
    tiny_study.copy_scripts(tmp_path)
    for script in ("generate_runs.py", "run_all.py"):
        done = tiny_study.run(tmp_path, script, "--help")
        assert done.returncode == 0 and "Writes" in done.stdout


# --------------------------------------------------------------------------------------- optional keys


def change_protocol(repository, **changes):
    path = repository / "protocols/demo.json"
    write_json(path, read_json(path) | changes)


def test_a_study_without_optional_keys_has_configs_without_them(study):
    assert not {"edits", "captures", "prepared", "runs"} & set(read_json(study / "baseline_s43/config.json"))


def test_listed_runs_of_another_studys_data_get_their_edits_captures_and_tables(repository):
    (repository / "data/demo").rename(repository / "data/other")
    write_json(repository / "protocols/substitution_a.json", {"rows": [3], "documents": [7]})
    edit = {"kind": "substitute", "table": "substitution_a.json",
            "sha256": sha256_file(repository / "protocols/substitution_a.json")}
    change_protocol(repository, prepared="other", captures=4, edits={"segmented": [edit]},
                    runs=[["baseline", 43], ["random_crop", 44], ["segmented", 44]])
    done = tiny_study.generate(repository)
    assert done.returncode == 0, done.stderr
    study = repository / "runs/demo"
    configs = {path.parent.name: read_json(path) for path in study.glob("*/config.json")}
    assert set(configs) == {"baseline_s43", "random_crop_s44", "segmented_s44"}
    assert all(config["captures"] == 4 and config["data"]["directory"] == "../../../data/other"
               for config in configs.values())
    assert [name for name in configs if "edits" in configs[name]] == ["segmented_s44"]
    assert configs["segmented_s44"]["edits"] == [edit]
    assert sha256_file(study / "segmented_s44/substitution_a.json") == edit["sha256"]
    assert not (study / "baseline_s43/substitution_a.json").exists()
    assert tiny_study.run_all(repository, "--device", "cpu").returncode == 0
    (study / "segmented_s44/result.json").unlink()
    (study / "segmented_s44/substitution_a.json").write_text("{}")
    done = tiny_study.run_all(repository, "--device", "cpu")
    assert done.returncode == 2 and "segmented_s44/substitution_a.json: changed" in done.stderr


def test_a_table_that_is_not_the_one_of_the_protocol_is_refused_by_file(repository):
    write_json(repository / "protocols/substitution_a.json", {"rows": [3], "documents": [7]})
    edit = {"kind": "substitute", "table": "substitution_a.json", "sha256": "0" * 64}
    change_protocol(repository, edits={"segmented": [edit]})
    done = tiny_study.generate(repository)
    assert done.returncode == 2 and "protocols/substitution_a.json: SHA-256 differs" in done.stderr
    assert not (repository / "runs").exists()
