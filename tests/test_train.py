"""A run is decided by its config: the same bytes again, after any kill, over any ranks; bad runs are refused."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import evidence
import scoring
from loaders import rows
from loaders.accounting import plan_sha256
from tiny import corpus as tiny_corpus
from tiny import runs as tiny_runs

pytestmark = pytest.mark.slow
KEPT = ("model.safetensors", "evaluation_rows.npy")
SCORED = ("score", "digests")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run directories of the tiny study, generated and not begun."""
    return tiny_runs.build(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def finished(runs, trained):
    """baseline_s43 trained without interruption, in a process that trained other runs too."""
    return shutil.copytree(trained / "runs/tiny/baseline_s43", runs / "finished")


def copy(runs, name, new):
    """A copy of a run directory beside it, so that its relative data path holds."""
    return shutil.copytree(runs / name, runs / new)


def same(run, other):
    return all((run / name).read_bytes() == (other / name).read_bytes() for name in KEPT) and all(
        tiny_runs.result(run)[key] == tiny_runs.result(other)[key] for key in SCORED)


def test_two_runs_of_one_config_write_the_same_bytes(runs, finished):
    again = copy(runs, "baseline_s43", "again")
    tiny_runs.train(again)
    assert same(again, finished)
    assert tiny_runs.losses(again) == tiny_runs.losses(finished)


def test_a_killed_run_resumes_to_the_same_bytes(runs, finished):
    """Killed before the first checkpoint, between two, and again before the score."""
    run = copy(runs, "baseline_s43", "killed")
    assert [tiny_runs.kill_after(run, lines) for lines in (1, 5, 9)] == [-signal.SIGKILL] * 3
    assert not (run / "result.json").exists()
    done = tiny_runs.train(run)
    assert re.search(r"resumed after update (6|9|12) of 12", done.stderr)
    assert same(run, finished)
    assert tiny_runs.losses(run) == tiny_runs.losses(finished)
    assert tiny_runs.result(run)["attempts"] > 1


def test_a_checkpoint_of_another_config_or_code_is_refused_by_name(runs, finished):
    run = copy(runs, "finished", "other")
    (run / "result.json").unlink()
    config = evidence.read_json(run / "config.json")
    config["packing"]["buffer_size"] += 1
    evidence.write_json(run / "config.json", config)
    done = tiny_runs.train(run, check=False)
    assert done.returncode == 2 and "packing.buffer_size: frozen 20, new 21" in done.stderr
    shutil.copy(runs / "baseline_s43/config.json", run / "config.json")
    with open(run / "loader.py", "a") as file:
        file.write("# changed\n")
    done = tiny_runs.train(run, check=False)
    assert done.returncode == 2 and "loader.py" in done.stderr
    assert not (run / "result.json").exists()


def test_a_truncated_checkpoint_is_refused(runs, finished):
    run = copy(runs, "finished", "truncated")
    data = (run / "checkpoint.safetensors").read_bytes()
    (run / "checkpoint.safetensors").write_bytes(data[: len(data) // 2])
    done = tiny_runs.train(run, check=False)
    assert done.returncode == 2 and "checkpoint.safetensors: not a checkpoint" in done.stderr
    assert "Traceback" not in done.stderr


def test_changed_data_is_refused(runs, tmp_path):
    shutil.copytree(runs.parents[1], tmp_path / "all", dirs_exist_ok=True)
    tokens = tmp_path / "all/data/tiny/train/tokens.npy"
    data = tokens.read_bytes()
    tokens.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    done = tiny_runs.train(tmp_path / "all/runs/tiny/baseline_s43", check=False)
    assert done.returncode == 2 and "train/tokens.npy: SHA-256 differs" in done.stderr


def test_an_unknown_config_key_is_refused(runs):
    run = copy(runs, "baseline_s43", "surplus")
    evidence.write_json(run / "config.json", {**evidence.read_json(run / "config.json"), "surplus": 1})
    done = tiny_runs.train(run, check=False)
    assert done.returncode == 2 and "unknown key surplus" in done.stderr


@pytest.mark.parametrize("change", [{"loss_limit": 1.0}, {"rate": 1e30}])
def test_an_exploding_or_infinite_loss_stops_the_run(runs, change):
    run = copy(runs, "baseline_s43", f"diverging_{next(iter(change))}")
    config = evidence.read_json(run / "config.json")
    config["training" if "loss_limit" in change else "optimizer"].update(
        change if "loss_limit" in change else {"muon": {**config["optimizer"]["muon"], **change}})
    evidence.write_json(run / "config.json", config)
    done = tiny_runs.train(run, check=False)
    assert done.returncode == 1 and "config.json: update" in done.stderr and "loss" in done.stderr
    assert not (run / "result.json").exists() and not (run / "model.safetensors").exists()


def test_two_ranks_see_the_rows_of_one_process_and_agree_on_the_loss(runs, finished):
    run = copy(runs, "baseline_s43", "ranks")
    tiny_runs.train(run, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    one, two = tiny_runs.result(finished), tiny_runs.result(run)
    assert two["environment"]["ranks"] == 2
    for key in ("rows", "first_microbatch", "last_microbatch", "plan", "initial_weights"):
        assert one["digests"][key] == two["digests"][key]
    assert np.allclose(tiny_runs.losses(run), tiny_runs.losses(finished), rtol=1e-5)
    assert two["score"]["targets"] == one["score"]["targets"]
    assert two["score"]["bits_per_byte"] == pytest.approx(one["score"]["bits_per_byte"], rel=1e-4)


ENDING = """
import os, sys, time, torch
sys.path.insert(0, {root!r})
import run_directory
tasks = lambda: len(os.listdir("/proc/self/task"))
device, threads = torch.device("cpu"), tasks()
ranks = run_directory.Ranks(device)
torch.use_deterministic_algorithms(True)  # imports most of torch, as training does
ranks.sum(torch.ones(1))
during, until = tasks(), time.monotonic() + 10
ranks.close()
while tasks() > threads and time.monotonic() < until:  # a thread that was joined may be listed a moment longer
    time.sleep(0.01)
os.write(1, b"threads %d %d %d\\n" % (threads, during, tasks()))  # in one piece: both ranks write to one pipe
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
def test_no_thread_of_the_group_outlives_a_rank(tmp_path):
    """Python would end under it: rarely, a rank that had finished was aborted."""
    (tmp_path / "ends.py").write_text(ENDING.format(root=str(tiny_corpus.ROOT)))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*launcher, str(tmp_path / "ends.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    counts = [tuple(map(int, line.split()[1:])) for line in done.stdout.splitlines()]
    assert len(counts) == 2 and all(before == after < during for before, during, after in counts), counts


def test_an_edited_run_consumes_the_reordered_rows_and_captures_its_first_updates(tmp_path):
    """Both runs have the loader's own plan; the reordered one has every row once, in the order that the edit says."""
    edit = {"kind": "order", "unit": "row", "block_updates": 4, "generator": "PCG64", "seed": 5}
    study = tiny_runs.build(tmp_path, tiny_corpus.protocol() | {
        "conditions": {"identity": "best_fit_crop", "shuffled": "best_fit_crop"}, "edits": {"shuffled": [edit]},
        "captures": 3, "runs": [["identity", 43], ["shuffled", 43]], "seeds": [43]})
    assert sorted(path.name for path in study.iterdir() if path.is_dir()) == ["identity_s43", "shuffled_s43"]
    shutil.copytree(study / "shuffled_s43", study / "again")
    for run in ("identity_s43", "shuffled_s43"):
        tiny_runs.train(study / run)
    tiny_runs.kill_after(study / "again", 7)
    tiny_runs.train(study / "again")
    identity, shuffled, again = (tiny_runs.result(study / run) for run in ("identity_s43", "shuffled_s43", "again"))
    assert identity["digests"]["plan"] == shuffled["digests"]["plan"] != shuffled["digests"]["edited_plan"]
    assert identity["digests"]["rows"] != shuffled["digests"]["rows"] == again["digests"]["rows"]
    assert identity["digests"]["initial_weights"] == shuffled["digests"]["initial_weights"]
    assert "edits" not in identity and shuffled["edits"] == again["edits"]
    assert shuffled["edits"][0]["kind"] == "order" and shuffled["edits"][0]["rows_moved"] > 0
    captures = [evidence.parse_json(line, "captures") for line in
                (study / "shuffled_s43/captures.jsonl").read_bytes().splitlines()]
    assert [line["update"] for line in captures] == [1, 2, 3]
    assert (study / "again/captures.jsonl").read_bytes() == (study / "shuffled_s43/captures.jsonl").read_bytes()
    assert [len(captures[0]["scalars"][name]) for name in ("residual_scales", "embedding_scales")] == [3, 3]
    for line in captures:
        for scalar in (*line["scalars"]["residual_scales"], *line["scalars"]["embedding_scales"]):
            assert scalar["sign"] == np.sign(scalar["gradient"]) and scalar["before"] != scalar["after"]
        assert line["gradient_norms"]["head.weight"] > 0 and len(line["gradient_norms"]) > 10


def test_a_run_whose_metrics_lack_an_update_before_its_checkpoint_stops_by_number(runs, finished):
    run = copy(runs, "finished", "gap")
    (run / "result.json").unlink()
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:4] + lines[5:]))
    done = tiny_runs.train(run, check=False)
    assert done.returncode == 2 and "metrics.jsonl: " in done.stderr and "update 5" in done.stderr


def test_a_model_that_memory_cannot_hold_is_refused_before_it_is_made(runs):
    run = copy(runs, "baseline_s43", "large")
    config = evidence.read_json(run / "config.json")
    config["model"].update(width=65536, layers=1000)
    evidence.write_json(run / "config.json", config)
    done = tiny_runs.train(run, check=False)
    assert done.returncode == 2 and "GiB" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("raw, warned", [(1000, False), (995, False), (985, True), (1020, True)])
def test_the_last_lines_give_raw_bits_and_warn_where_the_bytes_differ_by_over_one_percent(capsys, raw, warned):
    found = scoring.summarise(np.array([[700.0, 1000, raw, 300]]))
    scoring.print_score({"score": found, "effective_targets": 1234}, "result.json")
    printed = capsys.readouterr().out
    assert f"({found['raw_bits_per_byte']:.6f} raw)" in printed and "1,234 targets" in printed
    assert ("warning" in printed) == warned


def test_more_ranks_than_microbatches_are_refused(runs):
    run = copy(runs, "baseline_s43", "indivisible")
    done = tiny_runs.train(run, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", check=False)
    assert done.returncode != 0 and "cannot be dealt to 3 ranks" in done.stderr


def test_conditions_of_one_seed_start_from_the_same_weights_and_differ_in_rows(trained):
    first, crop, segmented, seed = (tiny_runs.result(trained / "runs/tiny" / name)["digests"] for name in (
        "baseline_s43", "random_crop_s43", "segmented_s43", "baseline_s44"))
    assert first["initial_weights"] == crop["initial_weights"] == segmented["initial_weights"]
    assert first["initial_weights"] != seed["initial_weights"]
    assert len({first["rows"], crop["rows"], segmented["rows"]}) == 3 and first["rows"] == seed["rows"]
    assert first["evaluation_plan"] == crop["evaluation_plan"] == segmented["evaluation_plan"]


def test_the_result_names_the_rows_that_the_plan_stands_for(runs, finished):
    """Plan, tokens and row digest computed again outside the trainer."""
    from loaders import best_fit_crop

    data, tiny = runs.parents[1] / "data/tiny", tiny_corpus.protocol()
    load = {name: np.load(data / f"train/{name}.npy") for name in ("tokens", "lengths", "refill")}
    microbatches = tiny_corpus.UPDATES * 2
    plan = best_fit_crop.plan(load["lengths"], capacity=tiny_corpus.CONTEXT + 1, rows=2 * microbatches, buffer_size=20,
                              refill=load["refill"])
    reader = rows.RowReader(plan, load["tokens"], load["lengths"], tiny_corpus.VOCABULARY - 4, tiny_corpus.CONTEXT + 1)
    digests, chained = [rows.digest(reader.rows(2 * i, 2 * i + 2)) for i in range(microbatches)], ""
    for update in range(tiny_corpus.UPDATES):
        chained = rows.chain(chained, digests[2 * update : 2 * update + 2])
    found = tiny_runs.result(finished)
    assert found["digests"]["plan"] == plan_sha256(plan) and found["digests"]["rows"] == chained
    assert (found["digests"]["first_microbatch"], found["digests"]["last_microbatch"]) == (digests[0], digests[-1])
    assert found["targets"] == 2 * microbatches * tiny["packing"]["context"]
