"""The report compares runs with frozen evidence: exactly what no machine may change, and scores within a bound."""

import copy
import math

import numpy as np
import pytest

import evidence
from evidence import sha256_bytes
from research.frozen_arrays import npy_bytes
from research.matched_training import report
from research.matched_training.score_intervals import difference_intervals
from tiny.corpus import ROOT

FROZEN = evidence.read_json(ROOT / "research/matched_training/demo.json")
PROTOCOL = ROOT / "protocols/demo.json"


def row_statistics():
    """{run: float64 (rows, 4)} of the frozen runs, as prefix_ranking keeps them."""
    nats, counts = (np.load(ROOT / f"research/prefix_ranking/demo_{name}.npy") for name in ("nats", "counts"))
    names = [entry["run"] for entry in evidence.read_json(ROOT / "research/prefix_ranking/demo.json")["runs"]]
    return {name: np.column_stack([losses, counts]).astype(float) for name, losses in zip(names, nats, strict=True)}


@pytest.fixture
def runs(tmp_path):
    """A runs folder whose results are the frozen ones, of configurations of the demo protocol."""
    digest, statistics = evidence.sha256_file(PROTOCOL), row_statistics()
    for name, result in FROZEN["runs"].items():
        folder, result = tmp_path / "demo" / name, copy.deepcopy(result)
        evidence.write_json(folder / "config.json", {"protocol_sha256": digest, "run": name})
        result["digests"]["config"] = evidence.sha256_file(folder / "config.json")
        result["digests"]["evaluation_rows.npy"] = sha256_bytes(npy_bytes(statistics[name]))
        evidence.write_json(folder / "result.json", result)
        lines = [f'{{"update": {update}, "loss": {loss}, "seconds": {seconds}}}'
                 for update, loss, seconds in ((1, 9.5, 1.25), (2, "null", 2.5), (3, 4.5, 3.0))]
        evidence.write_atomic(folder / "metrics.jsonl", "\n".join(lines).encode())
        np.save(folder / "evaluation_rows.npy", statistics[name])
    audit = evidence.read_json(ROOT / "research/source_exclusion/demo.json")
    evidence.write_json(tmp_path / "demo/audit/audit.json", audit)
    return tmp_path


def edit(runs, name, change):
    """Apply `change` to the result of a run."""
    path = runs / "demo" / name / "result.json"
    result = evidence.read_json(path)
    change(result)
    evidence.write_json(path, result)


def reported(runs, capsys):
    """(exit code, text printed) of the report."""
    return report.main(["--study", "demo", "--runs", str(runs)]), capsys.readouterr().out


def test_equal_results_pass_and_every_score_stands_in_the_table(runs, capsys):
    code, printed = reported(runs, capsys)
    assert code == 0 and "demo.json: bits per byte differ by at most 0.000000" in printed and "warning" not in printed
    assert all(f"{result['score']['bits_per_byte']:.8f}" in printed for result in FROZEN["runs"].values())
    assert sorted(path.name for path in (runs / "demo/report").iterdir()) == [
        "curves.json", "intervals.json", "learning_curves.png", "results.json", "scores.png"]
    curves = evidence.read_json(runs / "demo/report/curves.json")["runs"]
    assert curves["segmented_s44"] == {"loss": [9.5, None, 4.5], "seconds": [1.25, 2.5, 3.0]}
    assert list(curves) == sorted(FROZEN["runs"])


@pytest.mark.parametrize("section, key, change, message", [
    ("digests", "rows", "0" * 64, ".random_crop_s43.digests.rows"),
    ("score", "rows", 7, ".random_crop_s43.score.rows"), ("score", "bits_per_byte", 9.0, "bits per byte differ by")])
def test_a_changed_fact_or_a_far_score_exits_1_and_is_named(runs, capsys, section, key, change, message):
    edit(runs, "random_crop_s43", lambda result: result[section].update({key: change}))
    code, printed = reported(runs, capsys)
    assert code == 1 and any(message in line for line in printed.splitlines() if line.startswith("FAIL"))


def test_results_of_another_protocol_or_configuration_are_refused(runs):
    edit(runs, "segmented_s44", lambda result: result["digests"].update(config="0" * 64))
    with pytest.raises(evidence.InputError, match="segmented_s44/result.json"):
        report.main(["--study", "demo", "--runs", str(runs)])
    evidence.write_json(runs / "demo/baseline_s43/config.json", {"protocol_sha256": "0" * 64})
    with pytest.raises(evidence.InputError, match="baseline_s43/config.json"):
        report.main(["--study", "demo", "--runs", str(runs)])


def test_a_changed_count_of_a_run_is_named(runs, capsys):
    """Counts of the run and of the score have the same names; neither hides the other."""
    edit(runs, "baseline_s43", lambda result: result.update(rows=7))
    code, printed = reported(runs, capsys)
    assert code == 1 and ".baseline_s43.run.rows: frozen 1000, new 7" in printed


def test_another_list_of_code_than_the_frozen_one_is_refused_and_nothing_is_frozen(runs, tmp_path, monkeypatch):
    there = tmp_path / "frozen"
    evidence.write_atomic(there / "runs_demo.sha256", b"the frozen list")
    evidence.write_atomic(runs / "demo/runs.sha256", b"another list")
    monkeypatch.setattr(report, "HERE", there)
    with pytest.raises(evidence.InputError, match="runs_demo.sha256: frozen"):
        report.main(["--study", "demo", "--runs", str(runs), "--freeze"])
    assert [path.name for path in there.iterdir()] == ["runs_demo.sha256"]
    assert (there / "runs_demo.sha256").read_bytes() == b"the frozen list"


def test_a_broken_line_of_metrics_is_named(runs):
    path = runs / "demo/segmented_s43/metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'\n{"loss": ')
    with pytest.raises(evidence.InputError, match="segmented_s43/metrics.jsonl:4"):
        report.main(["--study", "demo", "--runs", str(runs)])


def test_a_missing_run_is_named(runs):
    (runs / "demo/segmented_s43/result.json").unlink()
    with pytest.raises(evidence.InputError, match="segmented_s43/result.json: missing"):
        report.main(["--study", "demo", "--runs", str(runs)])


def test_differences_are_from_the_baseline_of_the_same_seed_where_there_is_one():
    runs = {"baseline_s1": 1.0, "other_s1": 1.5, "other_s2": 9.0}
    results = {name: {"score": {"bits_per_byte": score}} for name, score in runs.items()}
    assert report.collect({"study": "s"}, results, [])["bits_per_byte_minus_baseline"] == {"other_s1": 0.5}


# ------------------------------------------------------------------------------ warnings and intervals


@pytest.mark.parametrize("change, told", [
    (lambda result: result.update(empty_updates=2), "2 of 250 updates"),
    (lambda result: result.update(effective_targets=500_000), "500,000 of 512,000 positions"),
    (lambda result: result.update(positions=600_000), "512,000 of 600,000 positions"),
    (lambda result: result.update(attempts=3), "3 times"),
    (lambda result: result["score"].update(supplied_bytes=600_000), "+37.7%")])
def test_what_a_result_knows_to_be_unusual_is_in_the_last_lines(runs, capsys, change, told):
    edit(runs, "segmented_s43", change)
    lines = reported(runs, capsys)[1].splitlines()
    warned = [line for line in lines[-5:] if line.startswith("warning: segmented_s43")]
    assert len(warned) == 1 and told in warned[0]


def test_a_validation_split_that_is_read_several_times_is_warned_of(runs, capsys):
    path = runs / "demo/audit/audit.json"
    audit = evidence.read_json(path)
    audit["evaluation"]["documents"].update(arrived=138, corpus=23)
    evidence.write_json(path, audit)
    warned = [line for line in reported(runs, capsys)[1].splitlines() if line.startswith("warning")]
    assert len(warned) == 1 and "23 validation documents" in warned[0] and "6.0 times" in warned[0]


def test_the_interval_of_a_difference_is_the_paired_bootstrap_over_rows(runs, capsys):
    assert reported(runs, capsys)[0] == 0
    found = evidence.read_json(runs / "demo/report/intervals.json")
    rows, random = row_statistics(), np.random.default_rng(5)
    assert found["over"] == "rows" and sorted(found["differences"]) == sorted(
        name for name in rows if not name.startswith("baseline"))
    for name, entry in found["differences"].items():
        other, values = rows[f"baseline_{name[-3:]}"], []
        for _ in range(2000):
            drawn = random.integers(0, len(other), len(other))
            values.append((rows[name][drawn, 0] - other[drawn, 0]).sum() / (math.log(2) * other[drawn, 1].sum()))
        low, high = np.quantile(values, [0.025, 0.975])
        assert entry["interval_95"] == pytest.approx([low, high], abs=0.1 * (high - low))
        assert entry["reason"] is None


def test_equal_losses_have_no_interval_but_a_reason(runs):
    nats = {"baseline_s1": np.array([10.0, 20.0, 30.0]), "other_s1": np.array([11.0, 21.0, 31.0]),
            "alone_s2": np.array([1.0, 2.0, 3.0])}
    found = difference_intervals(nats, np.array([100, 100, 100]))
    assert list(found) == ["other_s1"] and found["other_s1"][0] is None and found["other_s1"][1]
    assert difference_intervals(nats, np.array([100, 0, 100]))["other_s1"][0] is None
