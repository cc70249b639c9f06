"""The reserved stream keeps its refill batches and is untouched; a range that cannot be so is named; scores stand."""

import copy

import numpy as np
import pytest

from evidence import InputError, write_json
from research.confirmation import reserved, score_confirmation
from tiny.confirmed import ROOT  # puts the scripts' folder on the path


def small(first, last, targets=4, refill=(3, 3, 2, 4)):
    """(a study of context 4, buffer 2 and an official score of one row, its twelve lengths of 3 tokens, its refill)."""
    study = object.__new__(reserved.Study)
    study.evaluation_path, study.first, study.last, study.targets, study.capacity = "here.json", first, last, targets, 5
    study.packing, study.protocol = {"context": 4, "buffer_size": 2}, {"evaluation": {"targets": 4}}
    return study, np.full(sum(refill), 3), np.array(refill)


def test_refill_batches_keep_their_places_and_lose_only_what_is_excluded():
    study, lengths, refill = small(3, 12)
    stream = reserved.reserved_stream(study, lengths, refill, [4, 6, 7])
    assert stream.documents.tolist() == [3, 5, 8, 9, 10, 11] and stream.refill.tolist() == [2, 4]
    assert stream.plan.tolist() == [[0, 3, 1, 0, 2], [0, 5, 1, 0, 1]] and stream.arrived == 6


@pytest.mark.parametrize("first, last, targets, reason", [
    (4, 12, 4, "no refill batch begins or ends at 4; the nearest do at 3 and 6"),
    (3, 11, 4, "no refill batch begins or ends at 11"),
    (0, 12, 4, "documents 0 to 2; reserve from 3 on"),
    (3, 12, 40, r"40 targets draw \d+ documents, but 9 are reserved"),
])
def test_a_range_that_cannot_be_scored_untouched_is_named(first, last, targets, reason):
    study, lengths, refill = small(first, last, targets)
    with pytest.raises(InputError, match=reason):
        reserved.reserved_stream(study, lengths, refill, [])


@pytest.mark.parametrize("section, reason", [
    (None, "reserves no documents"), ({"documents": [0, 1]}, "missing key targets"),
    ({"documents": [2, 1], "targets": 4}, "first < last"), ({"documents": [0, 1], "targets": 0}, "positive integer"),
    ({"documents": [0, 1], "targets": 4, "more": 1}, "unknown key more"),
])
def test_evaluation_protocols_are_complete_and_exact(tmp_path, section, reason):
    write_json(tmp_path / "evaluation.json", {"confirmation": section})
    with pytest.raises(InputError, match=reason):
        reserved.read_reserved(tmp_path / "evaluation.json")


def test_the_evaluation_protocols_of_the_repository_are_read():
    paths = sorted((ROOT / "protocols").glob("evaluation_*.json"))
    assert [path.stem for path in paths] == ["evaluation_climbmix", "evaluation_demo", "evaluation_wheels"]
    assert reserved.read_reserved(paths[0]) == (49152, 84992, 10485760)  # the paper's
    assert reserved.read_reserved(paths[2])[0] < reserved.read_reserved(paths[2])[1]


def test_the_fingerprint_does_not_depend_on_batches_but_on_every_id():
    ids = np.random.default_rng(1).integers(0, 70_000, (6, 9))

    def of(rows, size):
        fingerprint = reserved.Fingerprint()
        for first in range(0, len(rows), size):
            fingerprint.add(rows[first : first + size, :-1], rows[first : first + size, 1:])
        return fingerprint.hexdigest()

    assert of(ids, 1) == of(ids, 4) == of(ids.astype(np.uint32), 6)
    other = ids.copy()
    other[5, 8] += 1
    assert of(other, 4) != of(ids, 4) != of(ids[::-1], 4)


def test_a_scoring_that_is_not_the_first_one_is_a_finding(tmp_path):
    first = {"began_at": "a", "runs": {"x": {"seconds": 1.0, "score": {"nats": 2.0}}}}
    assert score_confirmation.keep(tmp_path / "confirmation.json", first, b"rows") == (first, None)
    later = copy.deepcopy(first) | {"began_at": "b"}
    later["runs"]["x"]["seconds"] = 3.0
    assert score_confirmation.keep(tmp_path / "confirmation.json", later, b"rows") == (first, None)
    later["runs"]["x"]["score"]["nats"] = 2.5
    assert "nats: frozen 2.0, new 2.5" in score_confirmation.keep(tmp_path / "confirmation.json", later, b"rows")[1]
