"""The packing checker agrees with cases worked by hand, covers small cases, and fails when a claim is made false."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import InputError
from research.theorem import counterexamples, packers, packing_checker, small_cases

# Ten documents, and one of 1,000 tokens in place of the end of the stream: it fills the buffer and is never chosen.
TEN_DOCUMENTS = [9, 30, 14, 20, 6, 5, 12, 3, 25, 4, 1000]


@pytest.mark.parametrize("packer_type", [packers.UnsortedPacker, packers.ReferencePacker])
def test_the_totals_of_four_rows_worked_by_hand_balance(packer_type):
    """Capacity 11, buffer 4: 128 drawn = 44 emitted + 29 discarded + 55 buffered, the closing 1,000 apart."""
    totals = packers.replay(TEN_DOCUMENTS, [1] * 11, capacity=11, buffer_size=4, rows=4, packer_type=packer_type)
    named = {name: totals[f"{name}_tokens"] for name in ("arrived", "emitted", "discarded", "buffered")}
    assert named == {"arrived": 1128, "emitted": 44, "discarded": 29, "buffered": 1055}
    assert (totals["started_documents"], totals["buffered_documents"], totals["crops"]) == (8, 3, 4)


def test_a_long_first_arrival_never_starts_while_short_ones_keep_coming():
    """One document of 100, then thirty of 4, capacity 8, buffer 3, five rows: it is drawn first and stays."""
    totals = packers.replay([100] + [4] * 30, [1] * 31, capacity=8, buffer_size=3, rows=5)
    assert (totals["arrived_tokens"], totals["emitted_tokens"], totals["discarded_tokens"]) == (144, 40, 0)
    assert (totals["buffered_tokens"], totals["started_long_documents"], totals["protected_documents"]) == (104, 0, 1)


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 6), st.integers(1, 6))
def test_the_protected_set_kept_up_to_date_is_the_one_sorted_afresh(lengths, capacity, buffer_size):
    """The heap holds the largest min(B - 1, N_L) keys after every arrival."""
    protected = packers.ProtectedSet(capacity, buffer_size)
    for arrival, length in enumerate(lengths):
        protected.add(arrival, length)
        keys = packers.largest_long_keys(lengths[:arrival + 1], capacity, buffer_size)
        assert sorted(protected.heap, reverse=True) == keys and protected.arrivals == {key[1] for key in keys}


def test_refill_patterns_are_all_the_ways_to_cut_a_pass():
    """Every composition of 4 exactly once."""
    found = list(small_cases.refill_patterns(4))
    assert len(found) == len(set(found)) == 8 and all(sum(pattern) == 4 and min(pattern) >= 1 for pattern in found)


def test_the_self_test_passes_and_says_how_much_it_covered(capsys):
    assert packing_checker.main(["--self-test", "--size", "2"]) == 0
    out = capsys.readouterr().out
    cases = sum(((r + 3) + 2 * (r + 3) ** 2) * 4 for r in range(1, 5))
    assert f"crop: {cases} cases" in out and f"lossless: {cases} cases" in out
    assert out.splitlines()[-1] == "34 checks, 0 failed" and "FAIL" not in out


class LatestOfEquals(packers.UnsortedPacker):
    """Ties to the latest arrival: a fault that only equal lengths show."""

    def fallback(self):
        return min(self.spans, key=lambda span: (span[2], -span[0]))


class Forgetful(packers.UnsortedPacker):
    """Loses what a document has beyond three tokens."""

    def add(self, arrival, length):
        super().add(arrival, min(length, 3))


FAULTS = [
    ("largest_long_keys", lambda lengths, capacity, size: packers.largest_long_keys(lengths, capacity, size + 1),
     {"theorem broken", "mass broken"}),
    ("UnsortedPacker", counterexamples.LongestFirst,
     {"theorem broken", "startup broken", "repetition broken", "packers differ at", "protected mass after whole"}),
    ("ReferencePacker", LatestOfEquals, {"packers differ in", "packers differ at"}),
    ("UnsortedPacker", Forgetful, {"account broken at", "mass broken"}),
]


@pytest.mark.parametrize("name, fault, claims", FAULTS, ids=["B keys", "longest", "ties", "loss"])
def test_the_self_test_fails_when_a_claim_is_made_false(name, fault, claims, monkeypatch, capsys):
    """Protecting B keys, cropping the longest, breaking ties the wrong way and losing tokens are each found."""
    for module in (small_cases, packing_checker):
        monkeypatch.setattr(module, name, fault, raising=False)
    assert packing_checker.main(["--self-test", "--size", "2"]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL crop")]
    assert all(any(claim in line for line in failed) for claim in claims)


SMALLEST = ["[2]", "[2]", "[2, 3]", "[2, 3]", "[4]", "[1, 2]"]


@pytest.mark.parametrize("name, lengths", list(zip(counterexamples.COUNTEREXAMPLES, SMALLEST, strict=True)))
def test_each_changed_rule_has_the_smallest_witness_worked_by_hand(name, lengths):
    """A protected document starts once one hypothesis is dropped."""
    _, witness = counterexamples.smallest_witness(counterexamples.COUNTEREXAMPLES[name], lossless=False)
    assert f"lengths {lengths}," in witness


@pytest.mark.parametrize("lossless", [False, True])
def test_the_studied_rule_has_no_witness_in_the_same_cases(lossless):
    """The search can come back empty."""
    assert counterexamples.smallest_witness(packers.UnsortedPacker, lossless) == (258 * 2 * 3, None)


def test_a_npy_file_is_read_as_numpy_reads_it(tmp_path):
    """Values beyond 2^31 and a file of one entry included."""
    for values in ([1], [5, 2**31, 2**40, 7]):
        np.save(tmp_path / "lengths.npy", np.array(values, dtype=np.int64))
        assert packing_checker.read_npy(tmp_path / "lengths.npy") == values


@pytest.mark.parametrize("array", [np.ones(3), np.ones((2, 2), np.int64), np.ones(3, np.int32), np.ones(3, ">i8")])
def test_another_npy_array_is_refused(array, tmp_path):
    """Only one-dimensional little-endian int64 is read."""
    np.save(tmp_path / "lengths.npy", array)
    with pytest.raises(InputError, match="expected descr"):
        packing_checker.read_npy(tmp_path / "lengths.npy")


@pytest.mark.parametrize("cut", [0, 5, 11, 60, 131])
def test_a_truncated_npy_file_is_refused(cut, tmp_path):
    """Wherever it is cut, an InputError names the file."""
    path = tmp_path / "lengths.npy"
    np.save(path, np.arange(1, 4, dtype=np.int64))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match="lengths.npy"):
        packing_checker.read_npy(path)


@pytest.mark.parametrize("value", [0, -3, 1.5, True, 2**31 + 1, "7", None])
def test_a_hostile_length_is_refused_by_its_place(value, tmp_path):
    """The third entry is named."""
    (tmp_path / "lengths.json").write_text(json.dumps([4, 5, value]))
    with pytest.raises(InputError, match="lengths.json: entry 2: expected a whole number from 1"):
        packing_checker.read_counts(tmp_path / "lengths.json", packing_checker.LONGEST_DOCUMENT)


def test_an_empty_list_of_lengths_is_refused(tmp_path):
    """As JSON and as .npy."""
    (tmp_path / "lengths.json").write_text("[]")
    np.save(tmp_path / "lengths.npy", np.empty(0, np.int64))
    for name in ("lengths.json", "lengths.npy"):
        with pytest.raises(InputError, match="at least one"):
            packing_checker.read_counts(tmp_path / name, 10)


def run(*arguments):
    """The script as a user runs it."""
    command = [sys.executable, packing_checker.__file__, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_stream_is_replayed_from_the_command_line_as_npy_or_json(tmp_path):
    """The hand-worked account, printed, checked and written; the two input forms give the same bytes."""
    (tmp_path / "lengths.json").write_text(json.dumps(TEN_DOCUMENTS))
    np.save(tmp_path / "lengths.npy", np.array(TEN_DOCUMENTS, dtype=np.int64))
    (tmp_path / "refill.json").write_text(json.dumps([1] * 11))
    for form in ("json", "npy"):
        done = run("--lengths", tmp_path / f"lengths.{form}", "--refill", tmp_path / "refill.json", "--capacity", 11,
                   "--buffer-size", 4, "--rows", 4, "--policy", "crop", "--output", tmp_path / f"totals_{form}.json")
        assert done.returncode == 0 and "discarded_tokens: 29" in done.stdout, done.stderr
        assert done.stdout.splitlines()[-1] == "2 checks, 0 failed"
    assert (tmp_path / "totals_json.json").read_bytes() == (tmp_path / "totals_npy.json").read_bytes()


def test_bad_use_exits_2_and_names_what_is_missing(tmp_path):
    """Missing options, a refill that does not sum to the documents, a missing file."""
    (tmp_path / "lengths.json").write_text("[3, 4]")
    (tmp_path / "refill.json").write_text("[1]")
    settings = ["--capacity", 4, "--buffer-size", 2, "--rows", 1, "--policy", "crop"]
    short = run("--lengths", tmp_path / "lengths.json")
    assert short.returncode == 2 and all(name in short.stderr for name in ("--refill", *settings[::2]))
    unequal = run("--lengths", tmp_path / "lengths.json", "--refill", tmp_path / "refill.json", *settings)
    assert unequal.returncode == 2 and "batches of 2 documents in all, found 1" in unequal.stderr
    absent = run("--lengths", tmp_path / "none.npy", "--refill", tmp_path / "refill.json", *settings)
    assert absent.returncode == 2 and "none.npy" in absent.stderr and "Traceback" not in absent.stderr
