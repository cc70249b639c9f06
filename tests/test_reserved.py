"""The reserved stream keeps its refill batches and draws nothing that was scored; a range that cannot is named."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from evidence import InputError, write_json
from research.confirmation import reserved, score_confirmation
from tiny.corpus import ROOT


def small(first, last, targets=4):
    """A study of context 4 and buffer 2, whose official score has one row; twelve documents have 3 tokens each."""
    return SimpleNamespace(
        evaluation_path="here.json", first=first, last=last, targets=targets, packing={"context": 4, "buffer_size": 2},
        protocol={"evaluation": {"targets": 4}}, lengths=lambda split: np.full(12, 3),
        refill=lambda split: np.array([3, 3, 2, 4]))


def test_refill_batches_keep_their_places_and_lose_only_what_is_excluded():
    stream = reserved.reserved_stream(small(3, 12), [4, 6, 7])
    assert stream.documents.tolist() == [3, 5, 8, 9, 10, 11] and stream.refill.tolist() == [2, 4]
    assert stream.plan.tolist() == [[0, 3, 1, 0, 2], [0, 5, 1, 0, 1]] and stream.arrived == 6


@pytest.mark.parametrize("first, last, targets, reason", [
    (4, 12, 4, "here.json: confirmation.documents: .* 4; .* 3 and 6"),
    (3, 11, 4, "here.json: confirmation.documents: .* 11"),
    (0, 12, 4, "here.json: confirmation.documents: .* 3 on"),
    (3, 12, 40, "here.json: confirmation.targets: 40 "),
])
def test_a_range_that_was_scored_or_does_not_suffice_is_named(first, last, targets, reason):
    with pytest.raises(InputError, match=reason):
        reserved.reserved_stream(small(first, last, targets), [])


@pytest.mark.parametrize("section, reason", [
    (None, "reserves no documents"), ({"documents": [0, 1]}, "missing key targets"),
    ({"documents": [2, 1], "targets": 4}, "first < last"),
    ({"documents": [0, 1], "targets": 0}, "targets: expected an integer from 1"),
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
