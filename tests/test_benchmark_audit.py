"""The benchmark measures the audit that users run, its account is exact, and each of its checks can fail."""

from pathlib import Path

import numpy as np
import pytest

from evidence import Checks, InputError
from loaders import best_fit_crop
from loaders.ledger import ledger
from research.source_exclusion import benchmark_audit

ROOT = Path(__file__).resolve().parents[1]

CAPACITY, BUFFER = 513, 100


@pytest.fixture
def scale(monkeypatch):
    """check_scale on small sizes whose times mean nothing, as (made, failed) checks."""
    def run():
        checks = Checks()
        benchmark_audit.check_scale(checks, [3000, 9000], CAPACITY, BUFFER)
        return checks.made, checks.failed

    monkeypatch.setattr(benchmark_audit, "MOST_GROWTH", 1000)
    return run


def test_lengths_written_in_pieces_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark_audit, "PIECE", 700)
    tokens, longest = benchmark_audit.write_lengths(tmp_path / "lengths.npy", 2000, CAPACITY, 99)
    lengths = np.load(tmp_path / "lengths.npy")
    assert (lengths.dtype, lengths.shape, lengths.min() > 0) == (np.int64, (2000,), True)
    assert np.array_equal(lengths[700:1400], benchmark_audit.synthetic_lengths(700, 1))
    assert (tokens, longest) == (sum(lengths.tolist()), sum(sorted(lengths.tolist())[-99:]))
    assert benchmark_audit.write_lengths(tmp_path / "short.npy", 2000, 10**6, 99)[1] == 0


def test_the_audit_that_is_measured_is_the_ledger_of_its_pass(tmp_path):
    benchmark_audit.write_lengths(tmp_path / "lengths.npy", 3000, CAPACITY, 99)
    lengths = np.load(tmp_path / "lengths.npy")
    seconds, peak, record = benchmark_audit.run_audit(tmp_path / "lengths.npy", tmp_path / "out", CAPACITY, BUFFER)
    arrays = {"capacity": CAPACITY, "buffer_size": BUFFER, "refill": benchmark_audit.batches(3000)}
    plan = best_fit_crop.plan(lengths, rows=record["rows"], **arrays)
    found = ledger(plan, lengths, loader=best_fit_crop.LOADER, **arrays)["tokens"]
    assert {name: record["tokens"][name] for name in found} == found
    assert seconds > 0 and 10e6 < peak < 4e9


@pytest.mark.slow
def test_growing_streams_are_audited(scale, capsys):
    assert scale() == (5, 0)
    assert "documents arrived with" in capsys.readouterr().out


def made_up_audit(*arguments):
    """The account of one small audit, without a process."""
    record = {"selections": 9, "tokens": {"arrived": 9, "emitted": 5, "discarded": 1, "buffered": 3},
              "documents": {"arrived": int(np.load(arguments[0]).size)},
              "protected": {"documents": 1, "tokens": 3, "started": 0}}
    return 1.0, 10**8, record


@pytest.mark.parametrize("keys", [("tokens", "emitted"), ("documents", "arrived"), ("protected", "tokens"),
                                  ("protected", "started")])
def test_a_wrong_account_fails(scale, monkeypatch, keys):
    def wrong(*arguments):
        seconds, peak, record = made_up_audit(*arguments)
        record[keys[0]][keys[1]] += 10**9
        return seconds, peak, record

    monkeypatch.setattr(benchmark_audit, "run_audit", made_up_audit)
    assert scale() == (5, 0)
    monkeypatch.setattr(benchmark_audit, "run_audit", wrong)
    assert scale() == (5, 2)


@pytest.mark.parametrize("limit", ["LARGE_SECONDS", "LARGE_BYTES", "MOST_GROWTH"])
def test_too_much_time_or_memory_fails(scale, monkeypatch, limit):
    monkeypatch.setattr(benchmark_audit, "run_audit", made_up_audit)
    monkeypatch.setattr(benchmark_audit, "LARGE", 9000)
    monkeypatch.setattr(benchmark_audit, limit, 0)
    assert scale() == (6, 1)


def test_the_reference_on_lists_makes_the_baselines_segments():
    lengths, refill = benchmark_audit.synthetic_lengths(2000), benchmark_audit.batches(2000)
    reference = benchmark_audit.list_segments(lengths.tolist(), refill.tolist(), CAPACITY, 60, 40)
    plan = best_fit_crop.plan(lengths, capacity=CAPACITY, rows=80, buffer_size=40, refill=refill)
    assert reference[-1][0] == 59 and benchmark_audit.same_segments(reference, plan)
    for column in (0, 1, 4):
        changed = plan.copy()
        changed[len(reference) // 2, column] += 1
        assert not benchmark_audit.same_segments(reference, changed)


def test_bad_use_is_refused_by_name(tmp_path):
    for arguments in (["--sizes", "10"], ["--documents", "10"], ["--capacity", "1"]):
        with pytest.raises(InputError, match=arguments[0]):
            benchmark_audit.main(arguments)
    np.save(tmp_path / "lengths.npy", np.array([3, 0]))
    with pytest.raises(InputError, match="entry 1"):
        benchmark_audit.run_audit(tmp_path / "lengths.npy", tmp_path / "out", CAPACITY, BUFFER)
