"""The report compares trained runs with frozen evidence: exactly what no machine may change, scores within a bound."""

import copy

import pytest

import evidence
from research.matched_training import report
from tiny.runs import ROOT

FROZEN = evidence.read_json(ROOT / "research/matched_training/demo.json")
PROTOCOL = ROOT / "protocols/demo.json"


@pytest.fixture
def runs(tmp_path):
    """A runs folder whose results are the frozen ones, of configurations of the demo protocol."""
    digest = evidence.sha256_file(PROTOCOL)
    for name, result in FROZEN["runs"].items():
        folder, result = tmp_path / "demo" / name, copy.deepcopy(result)
        evidence.write_json(folder / "config.json", {"protocol_sha256": digest, "run": name})
        result["digests"]["config"] = evidence.sha256_file(folder / "config.json")
        evidence.write_json(folder / "result.json", result)
        lines = ['{"loss": 9.5, "seconds": 1.25}', '{"loss": null, "seconds": 2.5}', '{"loss": 4.5, "seconds": 3.0}']
        evidence.write_atomic(folder / "metrics.jsonl", "\n".join(lines).encode())
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
    assert code == 0 and "rows, plans and counts equal; bits per byte within 0.000000" in printed
    assert all(f"{result['score']['bits_per_byte']:.6f}" in printed for result in FROZEN["runs"].values())
    assert sorted(path.name for path in (runs / "demo/report").iterdir()) == [
        "curves.json", "learning_curves.png", "results.json", "scores.png"]
    curves = evidence.read_json(runs / "demo/report/curves.json")["runs"]
    assert curves["segmented_s44"] == {"loss": [9.5, None, 4.5], "seconds": [1.25, 2.5, 3.0]}
    assert list(curves) == sorted(FROZEN["runs"])


@pytest.mark.parametrize("section, key, change, message", [
    ("digests", "rows", "0" * 64, "$.random_crop_s43.digests.rows"),
    ("score", "rows", 7, "$.random_crop_s43.score.rows"),
    ("score", "bits_per_byte", 9.0, "more than 0.02")])
def test_a_changed_fact_or_a_far_score_exits_1_and_is_named(runs, capsys, section, key, change, message):
    edit(runs, "random_crop_s43", lambda result: result[section].update({key: change}))
    code, printed = reported(runs, capsys)
    assert code == 1 and message in printed


def test_results_of_another_protocol_or_configuration_are_refused(runs):
    edit(runs, "segmented_s44", lambda result: result["digests"].update(config="0" * 64))
    with pytest.raises(evidence.InputError, match="segmented_s44/result.json: of another configuration"):
        report.main(["--study", "demo", "--runs", str(runs)])
    evidence.write_json(runs / "demo/baseline_s43/config.json", {"protocol_sha256": "0" * 64})
    with pytest.raises(evidence.InputError, match="baseline_s43/config.json: generated from another protocol"):
        report.main(["--study", "demo", "--runs", str(runs)])


def test_a_changed_count_of_a_run_is_named(runs, capsys):
    """Counts of the run and of the score have the same names; neither hides the other."""
    edit(runs, "baseline_s43", lambda result: result.update(rows=7))
    code, printed = reported(runs, capsys)
    assert code == 1 and "$.baseline_s43.run.rows: frozen 1000, new 7" in printed


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
