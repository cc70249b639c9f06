"""A study's resources add up from its records, nothing unrecorded is guessed, and no changed number passes."""

import copy
import json
from pathlib import Path

import pytest

import evidence
import reservations
from research.resources import sum_resources
from research.resources import verify_resources as verifier
from tiny import corpus as tiny_corpus
from tiny import runs as tiny_runs

ROOT = Path(__file__).resolve().parents[1]

FROZEN = evidence.read_json(ROOT / "research/matched_training/demo.json")
CPU = {"kind": "cpu", "index": None, "uuid": None, "name": None}
RUNS = list(FROZEN["runs"])
SWEPT = {"context": 512, "heads": 2, "microbatch": 4, "width": 128}
SWEPT_FOLDER = "context512_width128_microbatch4"


def reserve(ledger, run, outcome, seconds, status):
    """One reservation, written by run_all.py's own Ledger; without a status it is left open."""
    start = ledger.start(run, CPU)
    if outcome:
        ledger.append({**start, "event": "end", "end": start["start"], "seconds": seconds, "outcome": outcome,
                       "exit_status": status})


def write_result(directory, result, logged=()):
    """A run directory with its result, or with `logged` updates and none."""
    evidence.write_json(directory / "config.json", {})
    if result:
        evidence.write_json(directory / "result.json", result)
    lines = "".join(json.dumps({"update": i, "targets": targets, "seconds": 1.5 * i}) + "\n"
                    for i, targets in enumerate(logged, 1))
    evidence.write_atomic(directory / "metrics.jsonl", lines.encode())


def write_scorings(folder):
    """Records of three later scorings of the first two runs, as their scripts write them."""
    checked = {run: {"forward_positions": 131072, "findings": []} for run in RUNS[:2]}
    evidence.write_json(folder / "report/checkpoints.json", {"content": {"runs": checked}})
    confirmed = {run: {"score": {"rows": 10}, "seconds": 2.5} for run in RUNS[:2]}
    evidence.write_json(folder / "report/confirmation.json", {"runs": confirmed})
    for run in RUNS[:2]:
        evidence.write_json(folder / f"windows/development/{run}.json",
                            {"run": run, "forward_positions": 512 * 70, "seconds": 4.25})
    evidence.write_json(folder / "windows/development/selection.json", {"windows": 60})


def write_sweep(root, swept):
    """A sweep of the demo's own shape, and its evidence as sweep.py freezes it."""
    path, loop = root / "protocols/candidates_demo.json", swept["seconds"]["loop"]
    evidence.write_json(path, {
        "base": "demo", "calibration_updates": swept["updates"], "candidates": [SWEPT], "condition": "baseline",
        "evaluation_targets": 131072, "logit_chunk": 512, "seconds": 110, "seed": 43})
    candidate = {**SWEPT, **{key: swept[key] for key in ("updates", "targets", "parameters", "peak_bytes")},
                 "loop_seconds": loop, "targets_per_second": swept["targets"] / loop,
                 "flops_per_second": swept["total_flops"] / loop, "bits_per_byte": swept["score"]["bits_per_byte"]}
    evidence.write_json(root / "research/matched_training/sweep_demo.json", {
        "study": "demo", "jobs": 1, "seconds": 110, "candidates": [candidate],
        "inputs": evidence.input_list([path], root)})


@pytest.fixture
def study(tmp_path):
    """A repository with the demo's frozen results in runs/, a full ledger, a sweep, scorings, unfinished trainings."""
    folder, research = tmp_path / "runs/demo", tmp_path / "research/matched_training"
    evidence.write_json(tmp_path / "protocols/demo.json", evidence.read_json(ROOT / "protocols/demo.json"))
    evidence.write_json(research / "demo.json", FROZEN)
    for run, result in FROZEN["runs"].items():
        write_result(folder / run, result)
    swept = copy.deepcopy(FROZEN["runs"]["baseline_s43"])
    for phase, rows in (("calibration", 1), ("run", 256)):
        result = swept | {"score": swept["score"] | {"rows": rows}}
        write_result(tmp_path / "runs/sweep_demo" / SWEPT_FOLDER / phase / "baseline_s43", result)
    unfinished = tmp_path / "runs/sweep_demo/context512_width96_microbatch2/run/baseline_s43"
    write_result(unfinished, None, [2048, 2048, 0])
    write_sweep(tmp_path, swept)
    ledger = reservations.Ledger(folder / "ledger.jsonl")
    reserve(ledger, RUNS[0], "finished", 130.0, 0)
    reserve(ledger, RUNS[1], "failed", 7.25, 3)
    ledger.start(RUNS[1], CPU)
    ledger.close_lost()
    for run in RUNS:
        reserve(ledger, run, "finished", FROZEN["runs"][run]["seconds"]["run"] + 2, 0)
    write_scorings(folder)
    return tmp_path


def freeze(study, *more):
    return sum_resources.main(["--study", "demo", "--root", str(study), "--freeze", *more])


def totals(study):
    return evidence.read_json(study / "research/resources/demo.json")["totals"]


def verify(study, capsys):
    """(exit code, lines that failed, everything printed)."""
    capsys.readouterr()
    code = verifier.main(["--root", str(study)])
    printed = capsys.readouterr().out
    return code, [line for line in printed.splitlines() if line.startswith("FAIL")], printed


def test_the_sums_are_those_of_a_plain_addition(study):
    assert freeze(study) == 0
    found, results = totals(study), FROZEN["runs"].values()
    run, sweep = found["trainings"]["run"], found["trainings"]["sweep"]
    assert run["number"] == 6 and run["training_positions"] == 6 * 512_000 and sweep["number"] == 2
    assert run["seconds"]["loop"] == pytest.approx(sum(r["seconds"]["loop"] for r in results), abs=1e-9)
    assert run["training_flops"] == 6 * 9831168 * 512_000
    assert found["peak_bytes"] == max(r["peak_bytes"] for r in results)
    assert found["unfinished"] == {"number": 1, "updates": 3, "targets": 4096, "seconds": 4.5}


def test_forward_positions_are_rows_times_context_and_cost_a_third(study):
    assert freeze(study) == 0
    scorings = totals(study)["scorings"]
    positions = {kind: entry["forward_positions"] for kind, entry in scorings.items()}
    assert positions == {"official_run": 6 * 131072, "official_sweep": 131072 + 512, "checkpoints": 2 * 131072,
                         "confirmation": 2 * 10 * 512, "windows_development": 2 * 512 * 70}
    assert totals(study)["forward_positions"] == sum(positions.values())
    assert scorings["confirmation"]["forward_flops"] * 3 == 9831168 * 2 * 10 * 512
    assert scorings["checkpoints"]["seconds"] is None and scorings["windows_development"]["seconds"] == 8.5


def test_failed_lost_and_superseded_attempts_are_apart_with_their_device_time(study):
    assert freeze(study) == 0
    found = totals(study)["reservations"]
    assert found["discarded"] == {"number": 1, "seconds": 130.0, "without_seconds": 0}
    assert found["failed"] == {"number": 1, "seconds": 7.25, "without_seconds": 0}
    assert found["lost"] == {"number": 1, "seconds": 0.0, "without_seconds": 1}
    assert found["finished"]["number"] == 6


def test_what_no_record_holds_is_said(study, capsys):
    freeze(study)
    said = evidence.read_json(study / "research/resources/demo.json")["not_recorded"]
    for line in ("seconds of scorings: checkpoints", "seconds of 1 reservations whose runner was killed",
                 "a last update of each unfinished training, if one was under way"):
        assert line in said
    (study / "research/resources/demo.json").unlink()
    (study / "runs/demo/ledger.jsonl").unlink()
    assert freeze(study) == 0 and totals(study)["reservations"] is None
    assert "not recorded: reservations: no ledger.jsonl" in capsys.readouterr().out
    assert verify(study, capsys)[:2] == (0, [])


def test_a_sound_ledger_holds_with_the_other_evidence_and_alone(study, capsys):
    assert freeze(study) == 0
    assert verify(study, capsys)[:2] == (0, [])
    for path in [*(study / "research/matched_training").iterdir(), *(study / "protocols").iterdir()]:
        path.unlink()
    code, failures, printed = verify(study, capsys)
    assert (code, failures) == (0, []) and printed.count("not compared") == 2


def numbers(value, path=()):
    """Every path to a number in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if type(value) in (int, float):
        yield path
    for key, item in items:
        yield from numbers(item, (*path, key))


def test_any_changed_number_is_found(study, capsys):
    """But for the exit status of a failed attempt: any that is not 0 is as good."""
    assert freeze(study) == 0
    path = study / "research/resources/demo.json"
    good = evidence.read_json(path)
    failed = ("records", "reservations", 1, "exit_status")
    places = [place for place in numbers(good) if place != failed]
    assert len(places) > 200
    for place in places:
        bad = copy.deepcopy(good)
        at = bad
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = at[place[-1]] + 1 if type(at[place[-1]]) is int else at[place[-1]] * 1.01 + 0.01
        evidence.write_json(path, bad)
        code, failures, _ = verify(study, capsys)
        assert code == 1 and failures, place


@pytest.mark.parametrize("edit, named", [
    (lambda r: r["trainings"].pop(0), "runs without a record in trainings: ['baseline_s43']"),
    (lambda r: r["scorings"].pop(0), "trainings with an official score"),
    (lambda r: r["reservations"].pop(), "in the result, "),
    (lambda r: r["reservations"][1].update(attempt=7), "reservations ["),
    (lambda r: r["reservations"][1].update(outcome="killed"), "outcomes that contradict"),
    (lambda r: r["reservations"][1].update(outcome="lost"), "outcomes that contradict"),
    (lambda r: r["unfinished"].pop(), "total unfinished"),
    (lambda r: r["trainings"][0].update(sha256="0" * 64), "SHA-256 of result.json"),
])
def test_a_dropped_or_renamed_record_is_found(study, capsys, edit, named):
    assert freeze(study) == 0
    path = study / "research/resources/demo.json"
    value = evidence.read_json(path)
    edit(value["records"])
    evidence.write_json(path, value)
    code, failures, _ = verify(study, capsys)
    assert code == 1 and any(named in line for line in failures)


@pytest.mark.parametrize("edit, named", [
    (lambda c: c.update(flops_per_second=2 * c["flops_per_second"]), "from its record.flops_per_second"),
    (lambda c: c.update(targets_per_second=2 * c["targets_per_second"]), "its record.targets_per_second"),
    (lambda c: c.update(parameters=c["parameters"] + 1), "baseline_s43: parameters"),
    (lambda c: c.update(heads=4), "candidates and seconds of the protocol[0][0].heads"),
    (lambda c: c.update(microbatch=2), "no training in the ledger"),
])
def test_what_a_candidate_of_the_sweep_claims_beyond_its_measurements_is_derived(study, capsys, edit, named):
    assert freeze(study) == 0
    path = study / "research/matched_training/sweep_demo.json"
    value = evidence.read_json(path)
    edit(value["candidates"][0])
    evidence.write_json(path, value)
    code, failures, _ = verify(study, capsys)
    assert code == 1 and any(named in line for line in failures), failures


def rename_device(records, kind):
    """Another device in one kind of record."""
    for record in records["reservations"] if kind == "reservations" else records["trainings"]:
        if kind in ("reservations", record.get("kind")):
            record["device"] = "NVIDIA H100"


@pytest.mark.parametrize("kind, named", [
    ("reservations", "baseline_s43: on cpu, reserved ['NVIDIA H100']"), ("run", "numbers of the frozen result.device"),
    ("sweep", "run/baseline_s43: as the protocol says.device")])
def test_a_device_that_other_records_contradict_is_named(study, capsys, kind, named):
    assert freeze(study) == 0
    path = study / "research/resources/demo.json"
    value = evidence.read_json(path)
    rename_device(value["records"], kind)
    evidence.write_json(path, value)
    code, failures, _ = verify(study, capsys)
    assert code == 1 and any(named in line for line in failures), failures


def test_a_sweep_without_its_protocol_is_held_against_its_records_alone(study, capsys):
    assert freeze(study) == 0
    (study / "protocols/candidates_demo.json").unlink()
    code, failures, printed = verify(study, capsys)
    assert (code, failures) == (0, []) and "candidates_demo.json: not here" in printed


def test_other_runs_than_the_frozen_ones_are_not_frozen(study):
    path = study / f"runs/demo/{RUNS[2]}/result.json"
    result = evidence.read_json(path)
    result["seconds"]["run"] += 1
    evidence.write_json(path, result)
    with pytest.raises(evidence.InputError, match=f"runs.{RUNS[2]}: expected the result.json"):
        freeze(study)


def test_unfinished_and_running_runs_are_not_frozen(study):
    reservations.Ledger(study / "runs/demo/ledger.jsonl").start(RUNS[0], CPU)
    with pytest.raises(evidence.InputError, match=f"{RUNS[0]}: attempt 3 has no end"):
        freeze(study)
    (study / f"runs/demo/{RUNS[3]}/result.json").unlink()
    with pytest.raises(evidence.InputError, match=f"{RUNS[3]}: not finished"):
        freeze(study)


def test_nothing_to_sum_and_nothing_to_check_are_named(tmp_path):
    evidence.write_json(tmp_path / "protocols/demo.json", evidence.read_json(ROOT / "protocols/demo.json"))
    with pytest.raises(evidence.InputError, match="demo: missing"):
        sum_resources.main(["--study", "demo", "--root", str(tmp_path)])
    (tmp_path / "runs/demo").mkdir(parents=True)
    with pytest.raises(evidence.InputError, match="no finished training"):
        sum_resources.main(["--study", "demo", "--root", str(tmp_path)])
    with pytest.raises(evidence.InputError, match="sum_resources.py --study NAME --freeze"):
        verifier.main(["--root", str(tmp_path)])


@pytest.mark.slow
def test_a_real_training_is_read_as_the_trainer_writes_it(tmp_path, capsys):
    runs = tiny_runs.build(tmp_path, tiny_corpus.protocol(updates=3) | {"conditions": {"baseline": "best_fit_crop"}})
    tiny_runs.train(runs / "baseline_s43")
    arguments = ["--study", str(tmp_path / "protocols/tiny.json"), "--root", str(tmp_path)]
    assert sum_resources.main(arguments) == 0
    printed = capsys.readouterr().out
    assert f"{3 * 2 * 2 * 32:,}" in printed and f"{24 * 32:,}" in printed and "Nothing was written" in printed
    with pytest.raises(evidence.InputError, match="baseline_s44: not finished"):
        sum_resources.main([*arguments, "--freeze"])
