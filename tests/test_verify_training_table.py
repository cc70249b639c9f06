"""The training table follows from the frozen results; a number changed in any result, alone, is named."""

import copy
import json
import math

import pytest

from evidence import InputError, canonical_json, read_json, sha256_bytes, write_json
from research.matched_training import verify_training_table as verifier
from research.matched_training.report_tables import score_table

DIGESTS = ("plan", "rows", "evaluation_plan", "initial_weights")


def result(condition, seed, nats):
    """A result as train.py writes it, of 10 updates of 4 rows of 32 targets; it scored `nats` over 1,000 bytes."""
    ln2 = math.log(2)
    score = {"rows": 24, "targets": 700, "nats": nats, "supplied_bytes": 1000, "raw_bytes": 900,
             "bits_per_byte": nats / (ln2 * 1000), "raw_bits_per_byte": nats / (ln2 * 900),
             "cross_entropy": nats / 700, "perplexity": math.exp(nats / 700)}
    names = {"plan": condition, "rows": condition, "evaluation_plan": "all", "initial_weights": f"{seed}"}
    return {
        "study": "demo", "condition": condition, "seed": seed, "parameters": 50, "flops_per_token": 300, "updates": 10,
        "rows": 40, "targets": 1280, "total_flops": 384_000, "score": score, "effective_targets": 1280,
        "empty_updates": 0, "attempts": 1, "peak_bytes": 3 * 2**20,
        "seconds": {"timed": 1.5, "loop": 2.25, "score": 0.5, "run": 3.125},
        "digests": {"code": {"train.py": "t", "loader.py": condition}, **names},
    }


@pytest.fixture
def folder(tmp_path):
    """Results of two conditions and two seeds, with checkpoint evidence and learning curves."""
    folder = tmp_path / "research/matched_training"
    nats = {("baseline", 43): 693.1471805599453, ("segmented", 43): 700.5,
            ("baseline", 44): 690.0, ("segmented", 44): 695.0}
    runs = {f"{condition}_s{seed}": result(condition, seed, value) for (condition, seed), value in nats.items()}
    bits = {name: run["score"]["bits_per_byte"] for name, run in runs.items()}
    deltas = {f"segmented_s{seed}": bits[f"segmented_s{seed}"] - bits[f"baseline_s{seed}"] for seed in (43, 44)}
    write_json(folder / "demo.json",
               {"study": "demo", "inputs": [], "runs": runs, "bits_per_byte_minus_baseline": deltas})
    checked = {name: {"files": {"result.json": sha256_bytes(canonical_json(run))}, "findings": [],
                      "score": run["score"], "rescored": run["score"]} for name, run in runs.items()}
    write_json(folder / "checkpoints_demo.json", {"content": {"runs": checked}, "sealed_at": "", "sha256": ""})
    curves = {name: {"loss": [9.0, 8.0, *[7.5] * 8], "seconds": [0.25 * i for i in range(10)]} for name in runs}
    write_json(folder / "curves_demo.json", {"study": "demo", "inputs": [], "runs": curves})
    return folder


def verify(folder, capsys):
    """(exit code, lines that failed, everything printed); without protocols, which test_run_identity.py has."""
    capsys.readouterr()
    code = verifier.main(["--root", str(folder.parents[1]), "--study", "demo"])
    printed = capsys.readouterr().out
    return code, [line for line in printed.splitlines() if line.startswith("FAIL")], printed


def rewrite(folder, edit, name="demo.json"):
    value = read_json(folder / name)
    edit(value)
    write_json(folder / name, value)


def test_sound_results_hold_and_give_the_table_worked_by_hand(folder, capsys):
    code, failures, _ = verify(folder, capsys)
    assert (code, failures) == (0, [])
    cells = [[cell.strip() for cell in line.split("|")[1:-1]]
             for line in score_table(read_json(folder / "demo.json"), {}).splitlines()]
    for row in (["baseline", "43", "1.00000000", "", "1.11111111", "0.99021026", "2.69180", "2.250", "3.125", "3.00"],
                ["segmented", "43", "1.01060788", "+0.01060788", "1.12289764", "1.00071429", "2.72022", "2.250",
                 "3.125", "3.00"]):
        assert row in cells


def numbers(value, path=()):
    """Every path to a number inside a JSON value."""
    if isinstance(value, (int, float)):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, (*path, key))


def multiply(path, factor):
    """An edit of the frozen results: one number of segmented_s44, times `factor`."""
    def edit(value):
        at = value["runs"]["segmented_s44"]
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] *= factor
    return edit


ALL = list(numbers(result("segmented", 44, 695.0)))


@pytest.mark.parametrize("path", ALL, ids=".".join)
def test_a_changed_number_is_named_by_its_run(folder, capsys, path):
    rewrite(folder, multiply(path, 1.001))
    code, failures, _ = verify(folder, capsys)
    assert code == 1 and any("segmented_s44" in line for line in failures)


@pytest.mark.parametrize("path, name", [
    (("score", "nats"), "segmented_s44: score.bits_per_byte"),
    (("score", "bits_per_byte"), "segmented_s44: score.bits_per_byte"),
    (("score", "perplexity"), "segmented_s44: score.perplexity"), (("score", "cross_entropy"), "score.cross_entropy"),
    (("total_flops",), "segmented_s44: total_flops"), (("parameters",), "budget of baseline_s43.parameters"),
    (("score", "supplied_bytes"), "population of baseline_s43.supplied_bytes"), (("seconds", "loop"), "seconds: timed"),
])
def test_without_checkpoint_evidence_relations_name_the_key(folder, capsys, path, name):
    (folder / "checkpoints_demo.json").unlink()
    rewrite(folder, multiply(path, 2))
    code, failures, printed = verify(folder, capsys)
    assert code == 1 and any(name in line for line in failures) and "left out the SHA-256 of each result" in printed


@pytest.mark.parametrize("edit, name", [
    (lambda v: v["bits_per_byte_minus_baseline"].update(segmented_s43=0.5), "baseline.segmented_s43: frozen 0.5"),
    (lambda v: v["bits_per_byte_minus_baseline"].pop("segmented_s43"), "baseline.segmented_s43: only in the new"),
    (lambda v: v["runs"]["segmented_s43"]["digests"].update(initial_weights="x"), "initial weights of baseline_s43"),
    (lambda v: v["runs"]["segmented_s44"]["digests"].update(plan="x"), "plan and rows of segmented_s43.plan"),
    (lambda v: v["runs"]["segmented_s43"]["digests"]["code"].update({"train.py": "x"}), "loader.py of baseline_s43"),
    (lambda v: v["runs"].update(baseline_s43=copy.deepcopy(v["runs"]["baseline_s44"])), "baseline_s43: name"),
])
def test_runs_that_are_not_matched_are_named(folder, capsys, edit, name):
    rewrite(folder, edit)
    code, failures, _ = verify(folder, capsys)
    assert code == 1 and any(name in line for line in failures)


def test_a_run_whose_model_did_not_reproduce_its_score_is_named(folder, capsys):
    rewrite(folder, lambda v: v["content"]["runs"]["baseline_s44"].update(findings=["score"]), "checkpoints_demo.json")
    code, failures, _ = verify(folder, capsys)
    assert code == 1 and failures == ["FAIL baseline_s44: score reproduced"]


@pytest.mark.parametrize("edit, name", [
    (lambda curve: curve["loss"].pop(), "updates of the curve[0]: frozen 9"),
    (lambda curve: curve["loss"].__setitem__(3, None), "updates of the curve[2]: frozen 1"),
    (lambda curve: curve["loss"].__setitem__(3, -7.5), "losses over 0"),
    (lambda curve: curve["seconds"].__setitem__(3, 9.0), "seconds ascend"),
    (lambda curve: curve["seconds"].__setitem__(9, 2.26), "end of the curve in seconds"),
])
def test_a_curve_that_is_not_of_its_run_is_named(folder, capsys, edit, name):
    rewrite(folder, lambda v: edit(v["runs"]["segmented_s44"]), "curves_demo.json")
    code, failures, _ = verify(folder, capsys)
    assert code == 1 and len(failures) == 1 and "segmented_s44" in failures[0] and name in failures[0]


def test_a_run_without_a_curve_is_named(folder, capsys):
    rewrite(folder, lambda v: v["runs"].pop("segmented_s44"), "curves_demo.json")
    code, failures, _ = verify(folder, capsys)
    assert code == 1 and failures[0].startswith("FAIL runs with curves")


def test_losses_are_compared_with_the_metrics_of_the_frozen_run_and_of_no_other(folder, capsys):
    runs, frozen = folder.parents[1] / "runs/demo", read_json(folder / "demo.json")["runs"]
    curves = read_json(folder / "curves_demo.json")["runs"]
    for name, curve in curves.items():
        write_json(runs / name / "result.json", frozen[name])
        lines = [json.dumps({"update": update, "loss": loss, "seconds": seconds})
                 for update, (loss, seconds) in enumerate(zip(curve["loss"], curve["seconds"], strict=True), 1)]
        (runs / name / "metrics.jsonl").write_text("\n".join(lines))
    code, failures, printed = verify(folder, capsys)
    assert (code, failures) == (0, []) and "left out curves_demo.json" not in printed
    rewrite(folder, lambda v: v["runs"]["segmented_s44"]["loss"].__setitem__(3, 7.25), "curves_demo.json")
    code, failures, _ = verify(folder, capsys)
    assert code == 1 and len(failures) == 1 and "segmented_s44: curve of metrics.jsonl.loss[3]" in failures[0]
    rewrite(folder, lambda v: v["runs"]["segmented_s44"].update(attempts=2))  # so the run there is another one
    assert not any("metrics.jsonl" in line for line in verify(folder, capsys)[1])


def test_no_evidence_is_no_success(tmp_path):
    with pytest.raises(InputError, match="matched_training: no results"):
        verifier.main(["--root", str(tmp_path)])


def test_a_result_that_counts_positions_apart_may_have_fewer_targets_and_its_flops_are_of_positions(folder, capsys):
    """As of a padded condition: 1,000 of its 1,280 positions were computed, and 900 of them were targets."""
    def padded(value):
        for name, run in value["runs"].items():
            run["positions"] = 1000 if name.startswith("segmented") else 1280
            run["targets"] = run["effective_targets"] = 900 if name.startswith("segmented") else 1280
            run["total_flops"] = 300 * run["positions"]

    (folder / "checkpoints_demo.json").unlink()
    rewrite(folder, padded)
    assert verify(folder, capsys)[:2] == (0, [])
    rewrite(folder, lambda v: v["runs"]["segmented_s44"].update(total_flops=300 * 900))
    assert "segmented_s44: total_flops" in verify(folder, capsys)[1][0]
