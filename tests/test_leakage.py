"""The reserved documents that a sweep had scored are found, by hand-made numbers, and cannot be reserved again."""

import shutil

import numpy as np
import pytest

from evidence import InputError, read_json, write_json
from research.confirmation import blocks, freeze_protocol, verify_leakage
from research.confirmation.leakage import require_no_leakage
from research.confirmation.reserved import Reserved
from tiny import swept
from tiny.corpus import ROOT, list_prepared

SEEN, FOLDER = "research/confirmation/seen_tiny.json", ROOT / "research/confirmation"
EVALUATION, CANDIDATES = "protocols/evaluation_tiny.json", "protocols/candidates_tiny.json"


@pytest.fixture
def study(tmp_path):
    return swept.build(tmp_path / "study")


def verify(root, capsys):
    """(exit code, lines that failed, everything printed)."""
    capsys.readouterr()
    code = verify_leakage.main(["--study", "tiny", "--root", str(root)])
    printed = capsys.readouterr().out
    return code, [line for line in printed.splitlines() if line.startswith("FAIL")], printed


def change(path, edit):
    value = read_json(path)
    edit(value)
    write_json(path, value)


def reserve(study, first, last):
    change(study / EVALUATION, lambda value: value["confirmation"].update(documents=[first, last]))
    return Reserved("tiny", study)


# ---------------------------------------------------------------------------------- what may be reserved


def test_no_protocol_is_frozen_over_documents_that_a_candidate_starts(study):
    for name in ("protocol_tiny.json", "tiny.json"):
        (study / "research/confirmation" / name).unlink()
    with pytest.raises(InputError, match="evaluation_tiny.json: confirmation.documents: .* document 3 at context 2"):
        freeze_protocol.frozen_protocol(Reserved("tiny", study))
    assert require_no_leakage(reserve(study, 6, 12)) is None
    (study / CANDIDATES).unlink()
    assert require_no_leakage(reserve(study, 3, 12)) is None


def test_a_document_behind_the_reserved_ones_may_have_been_scored(study):
    """A candidate of context 2 starts documents of three tokens alone: 0 and 2 to 4, because 1 is longer now."""
    np.save(study / "data/tiny/validation/lengths.npy", [3, 9, *[3] * 10])
    list_prepared(study / "data/tiny")
    change(study / CANDIDATES, lambda value: value["candidates"].pop(1))
    assert require_no_leakage(reserve(study, 1, 2)) is None
    with pytest.raises(InputError, match="document 2 at context 2"):
        require_no_leakage(reserve(study, 1, 3))


def test_candidates_of_another_study_are_refused(study):
    change(study / CANDIDATES, lambda value: value.update(base="wheels"))
    with pytest.raises(InputError, match="candidates_tiny.json: base: .*'tiny'.*'wheels'"):
        require_no_leakage(Reserved("tiny", study))


# ------------------------------------------------------------------------------------- the verifier


def test_the_numbers_made_by_hand_pass_with_the_data_with_frozen_lengths_and_in_part_without(study, capsys):
    code, failed, printed = verify(study, capsys)
    assert (code, failed) == (0, []) and "left out" not in printed
    (study / "research/source_exclusion").mkdir()
    for name in ("lengths", "refill"):
        shutil.copy(study / f"data/tiny/validation/{name}.npy",
                    study / f"research/source_exclusion/tiny_validation_{name}.npy")
    shutil.rmtree(study / "data")
    assert verify(study, capsys) == (code, failed, printed)
    shutil.rmtree(study / "research/source_exclusion")
    code, failed, printed = verify(study, capsys)
    assert (code, failed) == (0, []) and "left out what follows from the lengths" in printed


def test_the_frozen_evidence_of_the_repository_passes():
    assert verify_leakage.main([]) == 0


def test_a_stream_that_reads_the_split_again_has_scored_every_reserved_document(study, capsys):
    change(study / CANDIDATES, lambda value: value.update(evaluation_targets=64))
    code, failed, printed = verify(study, capsys)
    assert code == 1 and "context 2.arrived" in failed[0]
    frozen = verify_leakage.Evidence("tiny", study)
    lengths, refill = (np.load(study / f"data/tiny/validation/{name}.npy") for name in ("lengths", "refill"))
    found = verify_leakage.derive_streams(frozen, lengths, refill)
    assert found["contexts"][0]["arrived"] > 24 and found["contexts"][0]["reserved_arrived"] == 9
    assert found["seen"]["reserved"] == list(range(3, 12)) and found["seen"]["in_confirmation"]["rows"] == [0, 1, 2]
    found["bits_per_byte_minus_baseline"] = {"all_rows": {}, "without_rows_seen": None}
    assert "Each of its 3 rows" in blocks.leakage_finding(found)


def leaves(value, path=()):
    """Every path to a number or a text inside a JSON value."""
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path


def test_every_single_changed_leaf_is_found(study, capsys):
    """Paths and SHA-256 of inputs apart, which check_manifests.py compares with the files."""
    path, original = study / SEEN, read_json(study / SEEN)
    found = [leaf for leaf in leaves(original) if leaf[0] != "inputs"]
    assert len(found) >= 40
    for leaf in found:
        value = read_json(path)
        at = value
        for key in leaf[:-1]:
            at = at[key]
        at[leaf[-1]] = at[leaf[-1]] + ("x" if isinstance(at[leaf[-1]], str) else 1)
        write_json(path, value)
        assert verify(study, capsys)[0] == 1, leaf
        write_json(path, original)


@pytest.mark.parametrize("edit", [
    lambda v: v["seen"]["in_confirmation"].update(rows=[]), lambda v: v["contexts"].pop(1),
    lambda v: v["inputs"][0].update(sha256="0" * 64), lambda v: v.update(contexts=None)],
    ids=["a row less", "a context less", "another input", "no contexts"])
def test_what_is_missing_or_malformed_is_found(study, capsys, edit):
    change(study / SEEN, edit)
    assert verify(study, capsys)[0] == 1


def test_changed_rows_are_found(study, capsys):
    path = study / "research/confirmation/rows_tiny.npy"
    statistics = np.load(path)
    statistics[1, 2, 0] += 1e-9
    np.save(path, statistics)
    code, failed, _ = verify(study, capsys)
    assert code == 1 and failed[0].startswith("FAIL rows file")
    path.unlink()
    with pytest.raises(InputError, match="rows_tiny.npy: missing"):
        verify(study, capsys)


def test_no_document_of_the_window_contrasts_had_been_scored():
    seen, windows = read_json(FOLDER / "seen_wheels.json"), ROOT / "research/source_windows"
    contrasts = read_json(windows / "wheels_confirmation.json")["contrast_strata"]
    longest = max(record["longest_begun"] for record in seen["contexts"])
    assert longest < min(int(stratum.split("-")[0]) for stratum in contrasts)
    cut = np.load(windows / "wheels_confirmation_windows.npy")
    found = cut[np.isin(cut[:, 0], seen["seen"]["reserved"]), 1]
    assert len(found) and found.max() <= longest
