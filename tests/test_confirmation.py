"""Reserved documents are scored once, by checked models, under a protocol frozen before; anything else is refused."""

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
    score_confirmation,
    verify_confirmation,
)
from research.confirmation.reserved import Reserved
from research.sealed import seal_hash, utc_now
from research.source_windows import score_windows
from tiny import confirmed as confirmed_study
from tiny.confirmed import RESERVED, RUNS, STUDY
from tiny.corpus import COPIES, DOCUMENTS

pytestmark = pytest.mark.slow  # the study is trained and scored first
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
    root = confirmed_study.build(tmp_path_factory.mktemp("confirmed"))
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
        document: f"{source}/{original}.txt" for (split, document), (source, original) in COPIES.items()
        if split == "validation" and (source == "train" or original < RESERVED[0])}
    assert [entry["copies"] for entry in found["excluded"]] == [2, 1, 1]  # 71 of train equals 70
    assert found["equal_reserved_kept"] == 1 and found["near_duplicates"] == "not audited"
    assert sum(found["compared"].values()) == DOCUMENTS["train"] + RESERVED[0]


def test_excluding_again_writes_nothing_and_another_list_is_refused(after):
    path = after / EXCLUSIONS
    data = path.read_bytes()
    assert run(exclude_duplicates, after) == 0 and path.read_bytes() == data
    change(path, lambda value: value["excluded"].pop())
    with pytest.raises(InputError, match="exclusions_tiny.json.*excluded"):
        run(exclude_duplicates, after)


# ------------------------------------------------------------------------------------------- gate

ZEROS = "0" * 64
FUTURE, PAST = "2999-01-01T00:00:00Z", "2001-01-01T00:00:00Z"


def edited(name, edit):
    """Edit a sealed file as text, without sealing it again."""
    return lambda root: change(root / name, edit)


def forged(name, edit):
    """Edit a sealed file and seal it again, as a forger could."""
    return lambda root: change(root / name, edit, True)


def check_of(run, **values):
    """An edit of the checkpoint checks: values of the entry of one run."""
    return lambda record: record["content"]["runs"][run].update(values)


def append(path):
    path.write_text(path.read_text() + "# edited\n")


def edit_code_list(root):
    """As if the runs had been generated from other code."""
    append(root / f"runs/{STUDY}/runs.sha256")


def recorded(name, began_at, digest):
    """A record of a scoring that began at a time, under the protocol of that SHA-256."""
    return lambda root: write_json(root / name, {"began_at": began_at, "protocol_sha256": digest,
                                                 "protocol": {"sha256": digest}})


def begin_before_the_checks(root):
    """The protocol is older than the recorded beginning, and the checkpoint checks are younger."""
    forged(PROTOCOL, lambda record: record.update(sealed_at=PAST))(root)
    recorded(BEGAN, "2001-01-01T00:00:01Z", read_json(root / PROTOCOL)["sha256"])(root)


CLOSED = {  # what keeps the gate closed, and the file and key that the refusal names
    "protocol missing": (lambda root: (root / PROTOCOL).unlink(), "protocol_tiny.json: missing"),
    "checkpoints missing": (lambda root: (root / CHECKPOINTS).unlink(), "checkpoints.json: missing"),
    "exclusions missing": (lambda root: (root / EXCLUSIONS).unlink(), "exclusions_tiny.json: missing"),
    "model missing": (lambda root: (root / MODEL).unlink(), "model.safetensors: missing"),
    "protocol edited": (edited(PROTOCOL, lambda r: r["content"]["excluded"].pop()), "protocol_tiny.json: sha256"),
    "protocol forged": (forged(PROTOCOL, lambda r: r["content"]["excluded"].pop()), "protocol_tiny.json: stream"),
    "protocol incomplete": (forged(PROTOCOL, lambda r: r.update(content=[])), "protocol_tiny.json: content"),
    "protocol post-dated": (forged(PROTOCOL, lambda r: r.update(sealed_at=FUTURE)), "protocol_tiny.json: sealed_at"),
    "evaluation edited": (edited("protocols/evaluation_tiny.json", lambda v: v["confirmation"].update(targets=64)),
                          "protocol_tiny.json: .*inputs"),
    "other code, first scoring": (edit_code_list, "protocol_tiny.json: .*inputs"),
    "data edited": (lambda root: np.save(root / f"data/{STUDY}/validation/lengths.npy", np.ones(3, np.int64)),
                    "lengths.npy: SHA-256"),
    "checks edited": (edited(CHECKPOINTS, check_of(RUNS[1], findings=["differs"])), "checkpoints.json: sha256"),
    "checks post-dated": (forged(CHECKPOINTS, lambda r: r.update(sealed_at=FUTURE)), "checkpoints.json: sealed_at"),
    "one run not checked": (forged(CHECKPOINTS, lambda r: r["content"]["runs"].pop(RUNS[1])),
                            f"checkpoints.json: runs: .*{RUNS[1]}"),
    "check failed": (forged(CHECKPOINTS, check_of(RUNS[1], findings=["differs"])), f"{RUNS[1]}: findings"),
    "check is no object": (forged(CHECKPOINTS, lambda r: r["content"]["runs"].update({RUNS[1]: None})), RUNS[1]),
    "check without findings": (forged(CHECKPOINTS, check_of(RUNS[1], findings=None)), f"{RUNS[1]}: findings"),
    "other rows rescored": (forged(CHECKPOINTS, check_of(RUNS[1], rescored_rows_sha256=ZEROS)),
                            f"{RUNS[1]}: .*rescored_rows_sha256"),
    "other score stated": (forged(CHECKPOINTS, check_of(RUNS[0], score={}, rescored={})), f"{RUNS[0]}: .*score"),
    "model edited": (lambda root: (root / MODEL).write_bytes(b"other"), f"{RUNS[0]}: .*model.safetensors"),
    "code edited": (lambda root: append(root / CODE), f"{RUNS[1]}: .*loaders/rows.py"),
    "code added": (lambda root: (root / CODE).with_name("math.py").write_text(""), f"{RUNS[1]}: .*loaders/math.py"),
    "begun before the protocol": (recorded(BEGAN, PAST, ZEROS), "protocol_tiny.json: sealed_at"),
    "begun before the checks": (begin_before_the_checks, "checkpoints.json: sealed_at"),
    "begun under another protocol": (recorded(BEGAN, FUTURE, ZEROS), "confirmation_began.json: .*0000"),
    "scored under another protocol": (recorded(RESULT, FUTURE, ZEROS), "confirmation.json: .*0000"),
    "frozen under another protocol": (recorded(FROZEN, FUTURE, ZEROS), "confirmation/tiny.json: .*0000"),
}


@pytest.mark.parametrize("case", CLOSED)
def test_no_model_is_scored_while_the_gate_is_closed(before, monkeypatch, case):
    damage, reason = CLOSED[case]
    damage(before)
    monkeypatch.setattr(score_confirmation, "score_run", lambda *_: pytest.fail("a forward pass was made"))
    with pytest.raises(InputError, match=reason):
        run(score_confirmation, before)


def test_the_same_gate_opens_for_the_sound_study(before, monkeypatch):
    def score_run(*_):
        raise InterruptedError

    monkeypatch.setattr(score_confirmation, "score_run", score_run)
    with pytest.raises(InterruptedError):
        run(score_confirmation, before)
    assert read_json(before / BEGAN)["protocol_sha256"] == read_json(before / PROTOCOL)["sha256"]


def test_scoring_windows_of_the_reserved_documents_is_put_on_record_too(before):
    seals = score_windows.require_gate(SimpleNamespace(name=confirmed_study.STUDY, root=before))
    assert seals["protocol"] == read_json(before / PROTOCOL)["sha256"] == read_json(before / BEGAN)["protocol_sha256"]
    (before / PROTOCOL).unlink()
    with pytest.raises(InputError, match="tiny.json|confirmation(_began)?.json"):
        run(freeze_protocol, before)


def test_a_protocol_is_frozen_once_and_never_after_the_score(after):
    data = (after / PROTOCOL).read_bytes()
    assert run(freeze_protocol, after) == 0 and (after / PROTOCOL).read_bytes() == data
    (after / PROTOCOL).unlink()
    for name in (FROZEN, RESULT, BEGAN):
        with pytest.raises(InputError, match="tiny.json|confirmation(_began)?.json"):
            run(freeze_protocol, after)
        (after / name).unlink()
    assert run(freeze_protocol, after) == 0


def test_a_refusal_ends_with_exit_code_2_and_no_evidence(before):
    forged(CHECKPOINTS, check_of(RUNS[1], findings=["differs"]))(before)
    code, printed, errors = confirmed_study.script(before, "score_confirmation")
    assert code == 2 and printed == "" and f"{RUNS[1]}: findings" in errors
    assert not (before / RESULT).exists() and not (before / BEGAN).exists()


# ---------------------------------------------------------------------------------------- scoring


def test_every_run_is_fed_what_was_audited_and_deltas_are_of_the_same_seed(confirmed):
    root, printed = confirmed
    result, protocol = read_json(root / FROZEN), read_json(root / PROTOCOL)["content"]
    assert {entry["fingerprint"] for entry in result["runs"].values()} == {protocol["stream"]["fingerprint"]}
    bits = {name: entry["score"]["bits_per_byte"] for name, entry in result["runs"].items()}
    assert list(bits) == list(RUNS) and bits[RUNS[0]] != bits[RUNS[1]]
    assert result["bits_per_byte_minus_baseline"] == {RUNS[1]: bits[RUNS[1]] - bits[RUNS[0]]}
    assert f"{bits[RUNS[1]] - bits[RUNS[0]]:+.8f}" in printed["score_confirmation"]
    assert protocol["stream"]["batches"] == {"4": 1, "6": 1, "7": 1, "8": 1}  # of 8, 8, 8 and 4, less three


def test_a_run_fed_anything_else_is_named_and_nothing_is_written(before, monkeypatch, capsys):
    audited = read_json(before / PROTOCOL)["content"]["stream"]["fingerprint"]
    fed = dict(zip(RUNS, (audited, ZEROS), strict=True))
    monkeypatch.setattr(score_confirmation, "score_run",
                        lambda _, name, *rest: ({"fingerprint": fed[name]}, np.zeros((6, 4))))
    assert run(score_confirmation, before) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert len(failed) == 1 and all(word in failed[0] for word in (RUNS[1], ZEROS, audited))
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
    code, printed, errors = confirmed_study.script(elsewhere, "audit_checkpoints")
    assert code == 0, errors
    change(elsewhere / CHECKPOINTS, lambda r: r.update(sealed_at=utc_now()), True)  # after the frozen scoring
    code, printed, errors = confirmed_study.script(elsewhere, "score_confirmation")
    assert code == 0 and "the runs' code is not that of protocol_tiny.json" in printed, errors
    assert f"repeats {elsewhere / FROZEN}: the same models" in printed
    assert frozen == {name: (elsewhere / name).read_bytes() for name in frozen}
    assert run(verify_confirmation, elsewhere) == 0


def test_a_repetition_needs_the_frozen_protocol_in_all_but_the_code(elsewhere):
    change(elsewhere / "protocols/evaluation_tiny.json", lambda v: v["confirmation"].update(targets=64))
    for step in (freeze_protocol, score_confirmation):
        with pytest.raises(InputError, match="protocol_tiny.json"):
            run(step, elsewhere)


def test_a_repetition_that_differs_is_named_and_the_first_stands(elsewhere, monkeypatch, capsys):
    frozen, rows = read_json(elsewhere / FROZEN), np.load(elsewhere / ROWS)
    entries = {name: (entry, part) for (name, entry), part in zip(frozen["runs"].items(), rows, strict=True)}
    entries[RUNS[1]][0]["score"]["nats"] += 1e-9
    monkeypatch.setattr(score_confirmation, "score_run", lambda _, name, *rest: entries[name])
    shutil.copy(elsewhere / FROZEN_CHECKPOINTS, elsewhere / CHECKPOINTS)
    assert run(score_confirmation, elsewhere) == 1
    assert f"FAIL does not repeat {elsewhere / FROZEN}" in capsys.readouterr().out
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
    code, printed, errors = confirmed_study.script(before, "audit_checkpoints")
    assert code == 1 and printed.endswith("2 checks, 2 failed\n"), errors
    for name in ("score.bits_per_byte", "weights", "evaluation_rows.npy"):
        assert f"\n     {name}: frozen " in printed
    assert "\n     loaders/rows.py: SHA-256 " in printed
    with pytest.raises(InputError, match=f"{RUNS[0]}: findings"):
        gate.require_checkpoints(Reserved(STUDY, before))


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
    "difference": (edit_result(lambda r: r["bits_per_byte_minus_baseline"].update({RUNS[1]: 0.25})),
                   "bits_per_byte_minus_baseline.segmented_s43"),
    "fingerprint": (edit_result(lambda r: r["runs"][RUNS[0]].update(fingerprint=ZEROS)), "baseline_s43: fingerprint"),
    "model": (edit_result(lambda r: r["runs"][RUNS[0]].update(model_sha256=ZEROS)), "baseline_s43: model scored"),
    "too early": (edit_result(lambda r: r.update(began_at=PAST)), "protocol: sealed 20"),
    "a time to come": (edit_result(lambda r: r.update(began_at=FUTURE)), "times in UTC"),
    "no time": (edit_result(lambda r: r.pop("began_at")), "tiny: check_order"),
    "other protocol": (edit_result(lambda r: r["protocol"].update(sha256=ZEROS)), "protocol: the one"),
    "protocol edited": (edited(PROTOCOL, lambda r: r["content"]["excluded"].pop()), "protocol: SHA-256 of content"),
    "evaluation": (forged(PROTOCOL, lambda r: r["content"]["evaluation"]["confirmation"].update(targets=1)),
                   "protocol: evaluation.confirmation.targets"),
    "packing": (forged(PROTOCOL, lambda r: r["content"]["packing"].update(span_seed=1)), "protocol: packing.span_seed"),
    "contrasts": (forged(PROTOCOL, lambda r: r["content"].update(contrasts=[])), "protocol: contrasts"),
    "stream": (forged(PROTOCOL, lambda r: r["content"]["stream"].update(started=1)), "stream packed again.started"),
    "targets": (forged(PROTOCOL, lambda r: r["content"]["stream"].update(targets=1)), "protocol: rows and targets"),
    "duplicate dropped": (lambda root: change(root / EXCLUSIONS, lambda v: v["excluded"].pop(1)), "excluded documents"),
    "rows changed": (one_row_changed, "segmented_s43: score."),
    "rows no array": (no_array, "tiny: check_scores"),
    "a byte of the rows": (lambda root: (root / ROWS).write_bytes(b"?" + (root / ROWS).read_bytes()[1:]), "rows file"),
    "a run dropped": (edit_result(lambda r: r["runs"].pop(RUNS[1])), "tiny: check_scores"),
    "runs swapped": (swap_rows, "baseline_s43: score."),
    "tokens changed": (move_token, "fingerprint"),
    "check failed": (forged(FROZEN_CHECKPOINTS, check_of(RUNS[1], findings=["differs"])),
                     "segmented_s43: the checkpoint check failed"),
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
    assert "left out what follows from the lengths" in capsys.readouterr().out


def test_frozen_lengths_serve_the_verifier_in_place_of_the_data(after, capsys):
    (after / "research/source_exclusion").mkdir()
    for name in ("lengths", "refill"):
        shutil.copy(after / f"data/{STUDY}/validation/{name}.npy",
                    after / f"research/source_exclusion/{STUDY}_validation_{name}.npy")
    shutil.rmtree(after / "data")
    assert run(verify_confirmation, after) == 0
    printed = capsys.readouterr().out
    assert "ok   stream packed again" in printed and "left out the fingerprint" in printed
    forged(PROTOCOL, lambda r: r["content"]["stream"].update(arrived=1))(after)
    assert run(verify_confirmation, after) == 1 and "stream packed again.arrived" in capsys.readouterr().out
