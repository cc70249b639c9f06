"""The slow text loader agrees with the plans on a small corpus, and any departure of plan or data from it is named."""

import re
from pathlib import Path

import numpy as np
import pytest

from evidence import InputError, read_json, write_json
from loaders import best_fit_crop, random_span
from loaders.accounting import ARRIVAL, START
from research.source_exclusion import match_stream, permute_order
from research.source_exclusion.streams import whole_stream
from tiny import audited as audited_study
from tiny.corpus import list_prepared


@pytest.fixture
def study(tmp_path):
    protocol, data, runs = audited_study.build(tmp_path)
    return ["--study", str(protocol), "--data", str(data), "--runs", str(runs)]


def run(capsys, script, arguments):
    """(exit code, printed text)."""
    code = script.main(arguments)
    return code, capsys.readouterr().out


def test_every_selection_span_and_batch_of_a_small_study_matches(capsys, study):
    code, printed = run(capsys, match_stream, study)
    lines = printed.splitlines()
    assert code == 0 and lines[-1] == "8 checks, 0 failed"
    crops = re.findall(r"ok   (\w+): .* (\d+) of them crops", printed)
    assert [name for name, count in crops if int(count)] == ["baseline", "segmented", "validation"]


def test_a_document_taken_out_of_turn_is_named_by_selection(capsys, study, monkeypatch):
    def swapped(*arguments):
        for plan in best_fit_crop.pieces(*arguments):
            plan[5, ARRIVAL] += 1
            yield plan

    monkeypatch.setattr(best_fit_crop, "LOADER", best_fit_crop.LOADER._replace(pieces=swapped))
    code, printed = run(capsys, match_stream, study)
    assert code == 1 and "FAIL baseline" in printed and "; at 5 the plan has" in printed


def test_a_span_drawn_otherwise_is_found(capsys, study, monkeypatch):
    def shifted(*arguments):
        for plan in random_span.pieces(*arguments):
            plan[np.flatnonzero(plan[:, START] > 0)[-1], START] -= 1
            yield plan

    monkeypatch.setattr(random_span, "LOADER", random_span.LOADER._replace(pieces=shifted))
    code, printed = run(capsys, match_stream, study)
    assert code == 1 and "FAIL random spans" in printed and "ok   baseline" in printed


def test_one_changed_token_of_the_prepared_data_is_found_by_hash(capsys, study):
    path = Path(study[3]) / "tiny/train/tokens.npy"
    tokens = np.load(path)
    tokens[:] = np.where(np.arange(len(tokens)) % 50 == 0, 1, tokens)
    np.save(path, tokens)
    facts = read_json(path.parents[1] / "prepared.json")
    list_prepared(path.parents[1], corpus=facts["corpus"])
    code, printed = run(capsys, match_stream, study)
    assert code == 1 and "FAIL baseline: 8 batches" in printed and "FAIL validation" not in printed


def test_the_first_batch_of_a_trained_run_is_compared(capsys, study):
    result = Path(study[5]) / "tiny/baseline_s43/result.json"
    write_json(result, {"digests": {"first_microbatch": "0" * 64}})
    code, printed = run(capsys, match_stream, study)
    assert code == 1 and "FAIL baseline_s43" in printed and "9 checks, 1 failed" in printed


def test_rows_outside_the_run_are_refused(study):
    with pytest.raises(InputError, match=r"--rows 3: expected 4\.\.160"):
        match_stream.main([*study, "--rows", "3"])


def test_permuted_orders_hold_the_same_documents_and_freeze_once(capsys, study, tmp_path, monkeypatch):
    monkeypatch.setattr(permute_order, "HERE", tmp_path)
    code, printed = run(capsys, permute_order, [*study, "--orders", "6", "--freeze"])
    evidence = read_json(tmp_path / "permutations_tiny.json")
    assert code == 0 and printed.startswith("baseline: over 6 orders") and len(evidence["orders"]) == 6
    assert len({order["arrived_tokens"] for order in evidence["orders"]}) > 1
    startups = [order["startup_target"] for order in evidence["orders"]]
    assert evidence["ranges"]["startup_target"]["least"] == min(startups)
    for order in evidence["orders"]:
        assert order["buffered_tokens"] >= order["protected_tokens"] > 0 == order["started"]
    assert "equals the frozen evidence" in run(capsys, permute_order, [*study, "--orders", "6"])[1]
    assert "left out" in run(capsys, permute_order, [*study, "--orders", "5"])[1]
    evidence["orders"][3]["discarded_tokens"] += 1
    write_json(tmp_path / "permutations_tiny.json", evidence)
    code, printed = run(capsys, permute_order, [*study, "--orders", "6"])
    assert code == 1 and "differs at $.orders[3].discarded_tokens" in printed


def test_an_order_is_a_permutation_that_depends_on_its_seed_alone():
    stream = whole_stream(np.arange(1, 101), np.array([60, 40]))
    first, again, other = (permute_order.permuted(stream, seed) for seed in (1, 1, 2))
    assert sorted(first.lengths) == sorted(stream.lengths) and first.refill.tolist() == [60, 40]
    assert (first.documents + 1 == first.lengths).all()
    assert first.lengths.tolist() == again.lengths.tolist() != other.lengths.tolist()
