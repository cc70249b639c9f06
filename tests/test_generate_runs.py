"""Generated run directories are complete, alike but for their condition and seed, reproducible, and never overwritten;
every key of a protocol is needed, known and typed."""

import copy
import json
import shutil
import subprocess
import sys

import pytest
import tiny_study
from evidence import InputError, manifest_findings, read_json, read_manifest, sha256_file

from generate_runs import check_protocol

RUNS = ["baseline_s43", "baseline_s44", "random_crop_s43", "random_crop_s44", "segmented_s43", "segmented_s44"]
SHARED = {"train.py", "evidence.py", "loaders/accounting.py", "loaders/best_fit_crop.py", "loaders/rows.py"}
PROTOCOLS = {name: read_json(tiny_study.ROOT / f"protocols/{name}.json") for name in ("demo", "climbmix")}


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
    code = f"import sys; sys.path.insert(0, {str(alone)!r}); import loader; print(loader.plan([]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=alone.parent)
    assert done.stdout == "('span', ('crop', 0))\n", done.stderr


def test_another_place_gives_the_same_bytes(study, tmp_path_factory):
    other = tmp_path_factory.mktemp("elsewhere")
    tiny_study.build(other)
    assert tiny_study.generate(other).returncode == 0
    assert tiny_study.tree(other / "runs/demo") == tiny_study.tree(study)


# -------------------------------------------------------------------------------------- a second run


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


# ------------------------------------------------------------------------------------------ protocols


def objects(value, path=()):
    """Every (path, object) inside a JSON value, itself first."""
    if isinstance(value, dict):
        yield path, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(item, (*path, key))


def leaves(value, path=()):
    if not isinstance(value, (dict, list)):
        yield path
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(item, (*path, key))


def at(protocol, path):
    for key in path:
        protocol = protocol[key]
    return protocol


def refusal(protocol):
    with pytest.raises(InputError) as caught:
        check_protocol(protocol, "here.json")
    return str(caught.value)


@pytest.mark.parametrize("study_name", PROTOCOLS)
def test_the_frozen_protocols_are_accepted(study_name):
    assert check_protocol(PROTOCOLS[study_name], study_name) is None
    assert len(list(leaves(PROTOCOLS[study_name]))) > 60


@pytest.mark.parametrize("study_name", PROTOCOLS)
def test_any_missing_or_unknown_key_at_any_level_is_named(study_name):
    tried = 0
    for path, value in list(objects(PROTOCOLS[study_name])):
        if path == ("conditions",):
            continue  # its keys are the user's own
        for key in value:
            changed = copy.deepcopy(PROTOCOLS[study_name])
            del at(changed, path)[key]
            assert str(key) in refusal(changed)
            tried += 1
        changed = copy.deepcopy(PROTOCOLS[study_name])
        at(changed, path)["surplus"] = 1
        message = refusal(changed)
        assert "surplus" in message and ".".join(map(str, path)) in message
    assert tried > 60


@pytest.mark.parametrize("study_name", PROTOCOLS)
@pytest.mark.parametrize("wrong", [None, [], {}, -1, "", float("inf")], ids=repr)
def test_a_value_of_the_wrong_type_anywhere_is_named(study_name, wrong):
    for path in leaves(PROTOCOLS[study_name]):
        changed = copy.deepcopy(PROTOCOLS[study_name])
        at(changed, path[:-1])[path[-1]] = wrong
        assert str(next(key for key in reversed(path) if isinstance(key, str))) in refusal(changed)


def test_true_is_no_number_and_one_is_no_flag():
    for path in leaves(PROTOCOLS["demo"]):
        changed = copy.deepcopy(PROTOCOLS["demo"])
        at(changed, path[:-1])[path[-1]] = 1 if isinstance(at(changed, path), bool) else True
        refusal(changed)


@pytest.mark.parametrize("path, value, reason", [
    (("study",), "../up", "study"),
    (("conditions",), {}, "conditions"),
    (("conditions",), {"Base line": "best_fit_crop"}, "Base line"),
    (("seeds",), [43, 43], "distinct"),
    (("seeds",), [], "seeds"),
    (("corpus", "kind"), "tape", "download, wheels"),
    (("corpus", "validation_shard"), "shard_00000.parquet", "distinct"),
    (("corpus", "wheels", 0, "file"), "../x.whl", "plain file name"),
    (("tokenizer", "bos"), "<|other|>", "tokenizer.bos"),
    (("tokenizer", "vocabulary"), 259, "256 bytes"),
    (("model", "heads"), 3, "model.width"),
    (("model", "gate_channels"), 129, "gate_channels"),
    (("model", "window_pattern"), "SM", "S and L"),
    (("training", "precision"), "float16", "bfloat16"),
    (("evaluation", "targets"), 262145, "packing.context = 256"),
])
def test_contradictions_are_named(path, value, reason):
    changed = copy.deepcopy(PROTOCOLS["demo"])
    at(changed, path[:-1])[path[-1]] = value
    assert reason in refusal(changed)


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
    for name in tiny_study.SCRIPTS:
        shutil.copy(tiny_study.ROOT / name, tmp_path / name)
    for script in ("generate_runs.py", "run_all.py"):
        done = tiny_study.run(tmp_path, script, "--help")
        assert done.returncode == 0 and "Writes" in done.stdout
