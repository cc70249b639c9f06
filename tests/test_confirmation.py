"""Reserved documents are scored once, by checked models, under a protocol frozen before; every other way is refused."""

import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from evidence import InputError, read_json, sha256_file, write_json
from research.confirmation import (
    exclude_duplicates,
    freeze_protocol,
    gate,
    repetition,
    reserved,
    score_confirmation,
    verify_confirmation,
)
from research.sealed import seal_hash, utc_now
from research.source_windows import score_windows
from tiny import confirmed as confirmed_study
from tiny.confirmed import COPIED, RESERVED, RUNS, STUDY

PROTOCOL = f"research/confirmation/protocol_{STUDY}.json"
BEGAN = f"runs/{STUDY}/report/confirmation_began.json"
EXCLUSIONS = f"research/confirmation/exclusions_{STUDY}.json"
ROWS = f"research/confirmation/rows_{STUDY}.npy"
MODEL = f"runs/{STUDY}/{RUNS[0]}/model.safetensors"
CODE = f"runs/{STUDY}/{RUNS[1]}/loaders/rows.py"
CHECKPOINTS = f"runs/{STUDY}/report/checkpoints.json"
RESULT = f"runs/{STUDY}/report/confirmation.json"
FROZEN = f"research/confirmation/{STUDY}.json"
FROZEN_CHECKPOINTS = f"research/matched_training/checkpoints_{STUDY}.json"


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory):
    """A study confirmed from end to end, and what every script printed."""
    with pytest.MonkeyPatch.context() as patch:
        root = confirmed_study.build(tmp_path_factory.mktemp("confirmed"), patch)
    return root, confirmed_study.confirm(root)


@pytest.fixture
def after(confirmed, tmp_path):
    """A copy of the confirmed study."""
    return shutil.copytree(confirmed[0], tmp_path / "after")


@pytest.fixture
def before(after):
    """The study just before its scoring: frozen, checked, not scored."""
    for name in (BEGAN, RESULT, FROZEN):
        (after / name).unlink()
    return after


def change(path, edit, seal_again=False):
    """Rewrite a JSON file by `edit(value)`; a sealed one keeps its old hash unless it is sealed again."""
    value = read_json(path)
    edit(value)
    if seal_again:
        value["sha256"] = seal_hash(value["content"], value["sealed_at"])
    write_json(path, value)


def run(module, root):
    device = ["--device", "cpu"] if module is score_confirmation else []
    return module.main([*confirmed_study.options(root), *device])


# ------------------------------------------------------------------------------------- duplicates


def test_planted_copies_are_excluded_by_name_and_nothing_else_is(confirmed):
    found = read_json(confirmed[0] / EXCLUSIONS)
    assert {entry["document"]: entry["first"]["name"] for entry in found["excluded"]} == {
        document: f"{split}/{number}.txt" for document, (split, number) in COPIED.items()}
    assert [entry["copies"] for entry in found["excluded"]] == [2, 1, 1]  # 71 of train equals 70
    assert found["equal_reserved_kept"] == 1 and found["near_duplicates"] == "not audited"
    assert sum(found["compared"].values()) == confirmed_study.TRAIN + RESERVED[0]
    assert "48 validation/48.txt" in confirmed[1]["exclude_duplicates"]


def test_excluding_again_writes_nothing_and_another_list_is_refused(after):
    path = after / EXCLUSIONS
    data = path.read_bytes()
    assert run(exclude_duplicates, after) == 0 and path.read_bytes() == data
    change(path, lambda value: value["excluded"].pop())
    with pytest.raises(InputError, match="frozen, and the new content differs at .*excluded"):
        run(exclude_duplicates, after)


# ------------------------------------------------------------------------------------------- gate


def forge_score(record):
    for key in ("score", "rescored"):
        record["content"]["runs"][RUNS[0]][key]["bits_per_byte"] = 0.5


def set_time(time):
    return lambda record: record.update(sealed_at=time)


def fail_check(record):
    record["content"]["runs"][RUNS[1]]["findings"] = ["score: differs"]


def set_check(entry):
    return lambda record: record["content"]["runs"].update({RUNS[1]: entry})


def set_key(key, value):
    return lambda record: record["content"]["runs"][RUNS[1]].update({key: value})


def edit(path):
    path.write_text(path.read_text() + "# edited\n")


def edit_code_list(root):
    """As if the runs had been generated from other code."""
    edit(root / f"runs/{STUDY}/runs.sha256")


def begin_before_the_checks(root):
    """A second before the checks were sealed, which the protocol is made older than."""
    change(root / PROTOCOL, set_time(PAST), True)
    digest = read_json(root / PROTOCOL)["sha256"]
    write_json(root / BEGAN, {"began_at": "2001-01-01T00:00:01Z", "protocol_sha256": digest})


def fail_silently(record):
    record["content"]["runs"][RUNS[1]]["rescored"]["nats"] += 1.0


ZEROS = "0" * 64
FUTURE, PAST = "2999-01-01T00:00:00Z", "2001-01-01T00:00:00Z"
CLOSED = {
    "protocol missing": (lambda root: (root / PROTOCOL).unlink(), "protocol_tiny.json: missing; .*freeze_protocol"),
    "checkpoints missing": (lambda root: (root / CHECKPOINTS).unlink(), "checkpoints.json: missing; .*verify_checkp"),
    "exclusions missing": (lambda root: (root / EXCLUSIONS).unlink(), "exclusions_tiny.json: missing; .*exclude_dup"),
    "model missing": (lambda root: (root / MODEL).unlink(), "safetensors: missing"),
    "one run not checked": (lambda root: change(root / CHECKPOINTS, lambda r: r["content"]["runs"].pop(RUNS[1]), True),
                            f"no check of {RUNS[1]}"),
    "check failed": (lambda root: change(root / CHECKPOINTS, fail_check, True),
                     f"{RUNS[1]}: the check failed: score: differs"),
    "check failed unsaid": (lambda root: change(root / CHECKPOINTS, fail_silently, True),
                            f"{RUNS[1]}: the check failed: not the run's own: .*rescored.nats"),
    "checkpoints edited": (lambda root: change(root / CHECKPOINTS, fail_check), "edited after it was sealed"),
    "checkpoints forged": (lambda root: change(root / CHECKPOINTS, forge_score, True), "bits_per_byte: frozen 0.5"),
    "protocol edited": (lambda root: change(root / PROTOCOL, lambda r: r["content"]["excluded"].pop()),
                        "protocol_tiny.json: edited after it was sealed"),
    "protocol's time edited": (lambda root: change(root / PROTOCOL, set_time(PAST)), "edited after it was sealed"),
    "protocol forged": (lambda root: change(root / PROTOCOL, lambda r: r["content"]["excluded"].pop(), True),
                        "not the protocol that today's files give, at .*excluded"),
    "evaluation protocol edited": (
        lambda root: change(root / "protocols/evaluation_tiny.json", lambda v: v["confirmation"].update(targets=64)),
        "not the protocol that today's files give, at .*targets: frozen 192, new 64"),
    "data edited": (lambda root: np.save(root / f"data/{STUDY}/validation/lengths.npy", np.ones(3, np.int64)),
                    "lengths.npy: SHA-256 differs"),
    "model edited": (lambda root: (root / MODEL).write_bytes(b"other"),
                     "checked other files than are there: .*model.safetensors"),
    "result edited": (lambda root: change(root / f"runs/{STUDY}/{RUNS[0]}/result.json", lambda r: r.update(attempts=2)),
                      "checked other files than are there: .*result.json"),
    "protocol post-dated": (lambda root: change(root / PROTOCOL, set_time(FUTURE), True), "protocol_tiny.*post-dated"),
    "checks post-dated": (lambda root: change(root / CHECKPOINTS, set_time(FUTURE), True), "checkpoints.*post-dated"),
    "protocol without a time": (lambda root: change(root / PROTOCOL, set_time("yesterday"), True), "a time like"),
    "check is no object": (lambda root: change(root / CHECKPOINTS, set_check(None), True), "no check, but None"),
    "check without findings": (lambda root: change(root / CHECKPOINTS, set_check({}), True), "check failed: None"),
    "findings are null": (lambda root: change(root / CHECKPOINTS, set_key("findings", None), True),
                          "check failed: None"),
    "check without a score": (lambda root: change(root / CHECKPOINTS, set_check({"findings": []}), True),
                              "missing key"),
    "other rows rescored": (lambda root: change(root / CHECKPOINTS, set_key("rescored_rows_sha256", ZEROS), True),
                            "not the run's own: .*rescored_rows_sha256"),
    "checks without content": (lambda root: change(root / CHECKPOINTS, lambda r: r.update(content=None), True),
                               "checkpoints.json: content: expected an object"),
    "protocol without content": (lambda root: change(root / PROTOCOL, lambda r: r.update(content=[]), True),
                                 "protocol_tiny.json: content: expected an object"),
    "code edited": (lambda root: edit(root / CODE), f"{RUNS[1]}: changed since it was trained: loaders/rows.py"),
    "code added": (lambda root: (root / CODE).with_name("math.py").write_text(""), "loaders/math.py: SHA-256 None"),
    "scored before the protocol": (lambda root: write_json(root / RESULT, {"began_at": PAST}), "protocol.*post-dated"),
    "begun under another protocol": (
        lambda root: write_json(root / BEGAN, {"began_at": FUTURE, "protocol_sha256": ZEROS}),
        "began.json: scored under the protocol 0000"),
    "scored under another protocol": (
        lambda root: write_json(root / RESULT, {"began_at": FUTURE, "protocol": {"sha256": ZEROS}}),
        "confirmation.json: scored under the protocol 0000"),
    "frozen under another protocol": (
        lambda root: write_json(root / FROZEN, {"began_at": FUTURE, "protocol": {"sha256": ZEROS}}),
        "tiny.json: scored under the protocol 0000"),
    "begun before the checks": (begin_before_the_checks, "checkpoints.json: post-dated"),
    "other code, first scoring": (edit_code_list, "not the protocol that today's files give, at .*inputs"),
    "broken off before the protocol": (lambda root: write_json(root / BEGAN, {"began_at": PAST}),
                                       "protocol.*post-dated"),
    "frozen before the protocol": (lambda root: write_json(root / FROZEN, {"began_at": PAST}), "protocol.*post-dated"),
}


@pytest.mark.parametrize("case", CLOSED)
def test_no_model_is_scored_while_the_gate_is_closed(before, monkeypatch, case):
    damage, reason = CLOSED[case]
    damage(before)
    monkeypatch.setattr(score_confirmation, "score_run", lambda *_: pytest.fail("a forward pass was made"))
    with pytest.raises(InputError, match=reason):
        run(score_confirmation, before)


def test_the_same_gate_opens_for_the_sound_study(before, monkeypatch):
    class Scored(Exception):
        pass

    def score_run(*_):
        raise Scored

    monkeypatch.setattr(score_confirmation, "score_run", score_run)
    with pytest.raises(Scored):
        run(score_confirmation, before)
    assert read_json(before / BEGAN)["protocol_sha256"] == read_json(before / PROTOCOL)["sha256"]


def test_scoring_windows_of_the_reserved_documents_is_put_on_record_too(before):
    seals = score_windows.require_gate(SimpleNamespace(name=confirmed_study.STUDY, root=before))
    assert seals["protocol"] == read_json(before / PROTOCOL)["sha256"] == read_json(before / BEGAN)["protocol_sha256"]
    (before / PROTOCOL).unlink()
    with pytest.raises(InputError, match="scored already"):
        run(freeze_protocol, before)


def test_a_protocol_is_frozen_once_and_never_after_the_score(after):
    data = (after / PROTOCOL).read_bytes()
    assert run(freeze_protocol, after) == 0 and (after / PROTOCOL).read_bytes() == data
    (after / PROTOCOL).unlink()
    for name in (FROZEN, RESULT, BEGAN):
        with pytest.raises(InputError, match="scored already"):
            run(freeze_protocol, after)
        (after / name).unlink()
    assert run(freeze_protocol, after) == 0


def test_a_refusal_ends_with_exit_code_2_and_no_evidence(before):
    change(before / CHECKPOINTS, fail_check, True)
    code, printed, errors = confirmed_study.script(before, "score_confirmation")
    assert code == 2 and printed == "" and "the check failed" in errors
    assert not (before / RESULT).exists() and not (before / BEGAN).exists()


# ---------------------------------------------------------------------------------------- scoring


def test_every_run_is_fed_what_was_audited_and_deltas_are_of_the_same_seed(confirmed):
    root, printed = confirmed
    result, protocol = read_json(root / FROZEN), read_json(root / PROTOCOL)["content"]
    assert {entry["fingerprint"] for entry in result["runs"].values()} == {protocol["stream"]["fingerprint"]}
    bits = {name: entry["score"]["bits_per_byte"] for name, entry in result["runs"].items()}
    assert list(bits) == list(RUNS) and bits[RUNS[0]] != bits[RUNS[1]]
    assert result["bits_per_byte_minus_baseline"] == {RUNS[1]: bits[RUNS[1]] - bits[RUNS[0]]}
    assert f"|segmented|43|{bits[RUNS[1]]:.8f}|{bits[RUNS[1]] - bits[RUNS[0]]:+.8f}|" in printed["score_confirmation"]
    assert protocol["stream"]["batches"] == {"4": 1, "6": 1, "7": 1, "8": 1}  # of 8, 8, 8 and 4, less three


def test_a_run_fed_anything_else_is_named_and_nothing_is_written(before, monkeypatch, capsys):
    audited = read_json(before / PROTOCOL)["content"]["stream"]["fingerprint"]
    fed = dict(zip(RUNS, (audited, ZEROS)))
    monkeypatch.setattr(score_confirmation, "score_run",
                        lambda _, name, *rest: ({"fingerprint": fed[name]}, np.zeros((6, 4))))
    assert run(score_confirmation, before) == 1
    assert capsys.readouterr().out == f"FALSE {RUNS[1]}: fed {ZEROS}, audited {audited}\n"
    assert not (before / RESULT).exists()


def test_scoring_again_repeats_the_first_which_stands(after):
    data = (after / RESULT).read_bytes()
    code, printed, errors = confirmed_study.script(after, "score_confirmation")
    assert code == 0 and "fingerprint" in printed, errors
    assert (after / RESULT).read_bytes() == data


# -------------------------------------------------------------------------------------- repetition


@pytest.fixture
def elsewhere(after):
    """The confirmed study as a clone has it, its runs generated from other code since: frozen evidence, no records."""
    for name in (BEGAN, RESULT, CHECKPOINTS):
        (after / name).unlink()
    edit_code_list(after)
    return after


def test_who_checks_the_models_later_repeats_the_confirmation_with_other_code(elsewhere):
    frozen = {name: (elsewhere / name).read_bytes() for name in (FROZEN, ROWS, PROTOCOL, FROZEN_CHECKPOINTS)}
    assert run(freeze_protocol, elsewhere) == 0
    code, printed, errors = confirmed_study.script(elsewhere, "verify_checkpoints")
    assert code == 0, errors
    change(elsewhere / CHECKPOINTS, lambda r: r.update(sealed_at=utc_now()), True)  # after the frozen scoring
    code, printed, errors = confirmed_study.script(elsewhere, "score_confirmation")
    assert code == 0 and "repeats the confirmation with runs of other code" in printed, errors
    assert f"compared with {elsewhere / FROZEN}: the same models\n" in printed
    assert frozen == {name: (elsewhere / name).read_bytes() for name in frozen}
    assert run(verify_confirmation, elsewhere) == 0


def test_a_repetition_needs_the_frozen_protocol_in_all_but_the_code(elsewhere):
    change(elsewhere / "protocols/evaluation_tiny.json", lambda v: v["confirmation"].update(targets=64))
    for step in (freeze_protocol, score_confirmation):
        with pytest.raises(InputError, match="not the protocol that today's files give, at .*targets: frozen 192"):
            run(step, elsewhere)


def test_a_repetition_that_differs_is_named_and_the_first_stands(elsewhere, monkeypatch, capsys):
    frozen, rows = read_json(elsewhere / FROZEN), np.load(elsewhere / ROWS)
    entries = {name: (entry, part) for (name, entry), part in zip(frozen["runs"].items(), rows)}
    entries[RUNS[1]][0]["score"]["nats"] += 1e-9
    monkeypatch.setattr(score_confirmation, "score_run", lambda _, name, *rest: entries[name])
    shutil.copy(elsewhere / FROZEN_CHECKPOINTS, elsewhere / CHECKPOINTS)
    assert run(score_confirmation, elsewhere) == 1
    assert f"which stands: $.runs.{RUNS[1]}.score.nats: frozen " in capsys.readouterr().out
    assert read_json(elsewhere / FROZEN)["began_at"] == frozen["began_at"]


@pytest.mark.parametrize("edit, finding", [
    (lambda entry: entry["score"].update(bits_per_byte=entry["score"]["bits_per_byte"] + 0.0199), None),
    (lambda entry: entry["score"].update(bits_per_byte=entry["score"]["bits_per_byte"] - 0.0201), "differ by 0.0201"),
    (lambda entry: entry.update(fingerprint=ZEROS), f"{RUNS[1]}.fingerprint: frozen"),
    (lambda entry: entry["score"].update(targets=1), f"{RUNS[1]}.score.targets: frozen|{RUNS[1]}.targets: frozen"),
])
def test_models_trained_anew_may_score_a_little_otherwise_and_nothing_else(confirmed, edit, finding):
    frozen, found = (read_json(confirmed[0] / FROZEN) for _ in range(2))
    assert repetition.compare(found, frozen) == ([], "the same models")
    found["runs"][RUNS[1]]["model_sha256"] = ZEROS
    edit(found["runs"][RUNS[1]])
    findings, how = repetition.compare(found, frozen)
    assert how.startswith("models trained anew") and len(findings) == (finding is not None)
    assert all(re.search(finding, each) for each in findings)


def test_runs_are_compared_by_name_whatever_their_order(confirmed):
    """A scoring just made has them in the protocol's order, seed by seed; frozen JSON has them sorted."""
    frozen, found = (read_json(confirmed[0] / FROZEN) for _ in range(2))
    for number, name in enumerate(frozen["runs"]):
        for part in (frozen, found):
            part["runs"][name]["score"]["bits_per_byte"] = 1.0 + number
        found["runs"][name]["model_sha256"] = ZEROS
    found["runs"] = dict(reversed(found["runs"].items()))
    assert repetition.compare(found, frozen) == ([], "models trained anew, bits per byte within 0.000000")


# ------------------------------------------------------------------------------------- checkpoints


def test_a_changed_weight_or_code_is_found_and_closes_the_gate(before):
    baseline, segmented = (before / f"runs/{STUDY}/{name}" for name in RUNS)
    weights = load_file(baseline / "model.safetensors")
    weights["blocks.0.feedforward.input.weight"][0, 0] += 0.01
    save_file(weights, baseline / "model.safetensors")
    digest = sha256_file(baseline / "model.safetensors")  # the result is made to name the changed file
    change(baseline / "result.json", lambda r: r["digests"].update({"model.safetensors": digest}))
    with open(segmented / "loaders/rows.py", "a") as file:
        file.write("# changed\n")
    code, printed, errors = confirmed_study.script(before, "verify_checkpoints")
    assert code == 1 and printed.endswith("2 checks, 2 failed\n"), errors
    for name in ("score.bits_per_byte", "weights", "evaluation_rows.npy"):
        assert f"\n     {name}: frozen " in printed
    assert "\n     loaders/rows.py: SHA-256 " in printed
    with pytest.raises(InputError, match=f"{RUNS[0]}: the check failed"):
        gate.require_checkpoints(reserved.Study(STUDY, before))


# ---------------------------------------------------------------------------------------- verifier


def swap_rows(root):
    np.save(root / ROWS, np.load(root / ROWS)[::-1])


def one_row_changed(root):
    rows = np.load(root / ROWS)
    rows[1, 2, 0] += 1e-9
    np.save(root / ROWS, rows)


def move_token(root):
    path = root / f"data/{STUDY}/validation/tokens.npy"
    tokens = np.load(path)
    tokens[len(tokens) // 2 :] = tokens[len(tokens) // 2 :][::-1]
    np.save(path, tokens)


def no_array(root):
    """The rows' header is broken, and the evidence made to name the broken file."""
    data = (root / ROWS).read_bytes()
    (root / ROWS).write_bytes(b"?" + data[1:])
    change(root / FROZEN, lambda r: r["rows"].update(sha256=sha256_file(root / ROWS)))


def edit_result(edit):
    return lambda root: change(root / FROZEN, edit)


FALSE = {
    "score": (edit_result(lambda r: r["runs"][RUNS[1]]["score"].update(perplexity=2.0)), "segmented_s43: score.perp"),
    "delta": (edit_result(lambda r: r["bits_per_byte_minus_baseline"].update({RUNS[1]: 0.25})),
              "segmented_s43 minus baseline_s43: frozen 0.25"),
    "fingerprint": (edit_result(lambda r: r["runs"][RUNS[0]].update(fingerprint=ZEROS)), "baseline_s43: fingerprint"),
    "model": (edit_result(lambda r: r["runs"][RUNS[0]].update(model_sha256=ZEROS)), "baseline_s43: model scored"),
    "too early": (edit_result(lambda r: r.update(began_at=PAST)), "protocol: sealed 20"),
    "other protocol": (edit_result(lambda r: r["protocol"].update(sha256=ZEROS)), "protocol: the one that was scored"),
    "protocol edited": (lambda root: change(root / PROTOCOL, lambda r: r["content"]["excluded"].pop()),
                        "protocol: hash of content and time"),
    "stream": (lambda root: change(root / PROTOCOL, lambda r: r["content"]["stream"].update(started=1)),
               "stream packed again.started: frozen 1"),
    "duplicate dropped": (lambda root: change(root / EXCLUSIONS, lambda v: v["excluded"].pop(1)),
                          "excluded documents: 3 entries frozen, 2 new"),
    "rows changed": (one_row_changed, "segmented_s43: score."),
    "rows no array": (no_array, "check_scores: not the evidence of this question: ValueError"),
    "a byte of the rows": (lambda root: (root / ROWS).write_bytes(b"?" + (root / ROWS).read_bytes()[1:]), "rows file"),
    "a run dropped": (edit_result(lambda r: r["runs"].pop(RUNS[1])), "check_scores: not the evidence of this question"),
    "no time": (edit_result(lambda r: r.update(began_at="9999-99-99 whenever")), "check_order: not the evidence"),
    "a time to come": (edit_result(lambda r: r.update(began_at=FUTURE)), "times in UTC that have been"),
    "a time in short": (edit_result(lambda r: r.update(began_at="2026-1-1T0:0:0Z")), "times in UTC that have been"),
    "a key dropped": (edit_result(lambda r: r.pop("began_at")), "check_order: not the evidence of this question"),
    "runs swapped": (swap_rows, "baseline_s43: score."),
    "tokens changed": (move_token, "stream packed again.fingerprint"),
    "check failed": (lambda root: change(root / FROZEN_CHECKPOINTS, fail_check, True),
                     "segmented_s43: checkpoint check failed"),
}


@pytest.mark.parametrize("case", FALSE)
def test_the_verifier_names_what_is_false(after, capsys, case):
    damage, reason = FALSE[case]
    damage(after)
    assert run(verify_confirmation, after) == 1
    failures = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert any(line.startswith(f"FAIL {reason}") for line in failures), failures


def test_the_verifier_needs_no_data_and_says_what_it_left_out(after, capsys):
    shutil.rmtree(after / "data")
    shutil.rmtree(after / "runs")
    assert run(verify_confirmation, after) == 0
    printed = capsys.readouterr().out
    assert "left out the packing of the stream" in printed and printed.count("left out data/tiny/") == len(gate.DATA)
