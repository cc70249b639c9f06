"""The sweep compares candidates at equal time that differ from the study's protocol in nothing else."""

import copy
import json

import pytest

from evidence import InputError, read_json, sha256_file, write_json
from protocols.schema import candidate_protocol, read_sweep, study_protocols
from research.matched_training import sweep
from tiny.corpus import ROOT

BASE = read_json(ROOT / "protocols/wheels.json")
SETTINGS = read_sweep(ROOT / "protocols/candidates_wheels.json")
CANDIDATE = {"context": 512, "heads": 4, "microbatch": 3, "width": 64}


def differences(old, new, path=()):
    """Every path at which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [found for key in sorted({*old, *new})
                for found in differences(old.get(key), new.get(key), (*path, key))]
    return [] if old == new else [".".join(path)]


def test_a_candidate_differs_from_the_protocol_in_what_is_varied_and_its_budget_alone():
    protocol = candidate_protocol(BASE, SETTINGS, CANDIDATE, 77, 2048)
    assert set(differences(BASE, protocol)) <= {
        "conditions.random_crop", "conditions.segmented", "seeds", "packing.context", "model.heads", "model.width",
        "training.microbatch", "training.updates", "training.checkpoint_every", "training.logit_chunk",
        "evaluation.targets"}
    assert (protocol["training"]["updates"], protocol["model"]["width"]) == (77, 64)
    assert protocol["packing"]["context"] == 512


def test_a_candidate_that_no_model_can_have_is_refused():
    with pytest.raises(InputError, match="width.*multiple of 2"):
        candidate_protocol(BASE, SETTINGS, CANDIDATE | {"width": 63}, 77, 2048)


def test_candidates_are_no_study(tmp_path):
    assert {path.stem for path in study_protocols(ROOT / "protocols")} == {"climbmix", "demo", "wheels"}
    write_json(tmp_path / "candidates.json", SETTINGS | {"candidates": [CANDIDATE | {"depth": 3}]})
    with pytest.raises(InputError, match=r"candidates\.0.*depth"):
        read_sweep(tmp_path / "candidates.json")


@pytest.mark.parametrize("updates", [1, 0, -1, 2.0, "10", True, None])
def test_a_rate_needs_two_updates_of_calibration(tmp_path, updates):
    path = tmp_path / "candidates.json"
    write_json(path, SETTINGS | {"calibration_updates": updates})
    with pytest.raises(InputError, match=f"candidates.json.calibration_updates: .*{updates!r}"):
        read_sweep(path)
    write_json(path, SETTINGS | {"calibration_updates": 2})
    assert read_sweep(path)["calibration_updates"] == 2


@pytest.mark.parametrize("jobs", ["0", "-1"])
def test_no_jobs_are_refused(jobs):
    with pytest.raises(InputError, match=f"--jobs: .*{jobs}"):
        sweep.main(["--study", "wheels", "--jobs", jobs])


def test_the_rate_is_that_of_the_second_half_so_that_the_start_does_not_count(tmp_path):
    seconds = [9.0, 9.5, 10.0, 10.5, 11.5, 12.5]  # the last three updates take 0.5, 1 and 1 s
    (tmp_path / "metrics.jsonl").write_text("".join(
        json.dumps({"update": update, "seconds": value}) + "\n" for update, value in enumerate(seconds, 1)))
    assert sweep.seconds_per_update(tmp_path) == pytest.approx(2.5 / 3)


def test_a_finished_candidate_is_kept_and_one_of_another_protocol_refused(tmp_path):
    protocol = candidate_protocol(BASE, SETTINGS, CANDIDATE, 77, 2048)
    write_json(tmp_path / "protocol.json", protocol)
    write_json(tmp_path / "baseline_s43/result.json", {})
    assert sweep.train_candidate(protocol, tmp_path, tmp_path / "no data") == tmp_path / "baseline_s43"
    other = copy.deepcopy(protocol)
    other["training"]["updates"] = 78
    with pytest.raises(InputError, match=r"updates: frozen 77, new 78.*move"):
        sweep.train_candidate(other, tmp_path, tmp_path / "no data")


def test_the_frozen_sweep_is_of_the_listed_candidates_and_its_rates_follow():
    frozen = read_json(ROOT / "research/matched_training/sweep_wheels.json")
    assert [{key: record[key] for key in CANDIDATE} for record in frozen["candidates"]] == SETTINGS["candidates"]
    digests = {entry["path"]: entry["sha256"] for entry in frozen["inputs"]}
    assert digests["protocols/candidates_wheels.json"] == sha256_file(ROOT / "protocols/candidates_wheels.json")
    for record in frozen["candidates"]:
        assert record["targets"] == record["updates"] * record["microbatch"] * record["context"]
        assert record["targets_per_second"] == record["targets"] / record["loop_seconds"]


def test_a_rate_is_not_taken_from_metrics_that_lack_an_update(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("".join(
        json.dumps({"update": update, "seconds": update}) + "\n" for update in (1, 2, 4, 5)))
    with pytest.raises(InputError, match="metrics.jsonl:3: update"):
        sweep.seconds_per_update(tmp_path)
