"""Lengths are frozen byte for byte and once, with a histogram whose numbers are those of the lengths."""

import numpy as np
import pytest

from evidence import InputError, read_json
from research.source_exclusion import freeze_lengths
from research.source_exclusion.reference_service import steps
from tiny import audited
from tiny.corpus import list_prepared

FOLDER = freeze_lengths.FOLDER


@pytest.fixture
def root(tmp_path):
    """A repository with a prepared tiny study and nothing frozen."""
    protocol, _, _ = audited.build(tmp_path)
    (tmp_path / "protocols").mkdir()
    protocol.rename(tmp_path / "protocols/tiny.json")
    (tmp_path / FOLDER).mkdir(parents=True)
    return tmp_path


def freeze(root):
    return freeze_lengths.main(["--study", "tiny", "--root", str(root)])


def test_the_frozen_arrays_are_the_prepared_bytes(root):
    assert freeze(root) == 0
    for split in ("train", "validation"):
        for name in ("lengths", "refill"):
            frozen = root / FOLDER / f"tiny_{split}_{name}.npy"
            assert frozen.read_bytes() == (root / f"data/tiny/{split}/{name}.npy").read_bytes()


def test_the_histogram_is_a_count_of_the_lengths(root):
    freeze(root)
    content, lengths = read_json(root / FOLDER / "length_histogram_tiny.json"), np.load(
        root / "data/tiny/train/lengths.npy").tolist()
    assert content["histogram"] == [[length, lengths.count(length)] for length in sorted(set(lengths))]
    assert (content["documents"], content["tokens"], content["capacity"]) == (len(lengths), sum(lengths), 33)
    assert [row["length"] for row in content["thresholds"]][::len(content["thresholds"]) - 1] == [34, max(lengths)]
    for row in content["thresholds"]:
        reached = [length for length in lengths if length >= row["length"]]
        assert (row["documents"], row["tokens"]) == (len(reached), sum(reached))
        assert (row["earliest_pass"] - 1) * len(reached) < 9 <= row["earliest_pass"] * len(reached)


@pytest.mark.parametrize("capacity, longest", [(257, 257), (257, 3), (255, 256), (256, 256), (255, 257), (1, 2),
                                               (513, 82052), (5, 4096)])
def test_script_and_verifier_derive_the_same_thresholds(capacity, longest):
    summary = freeze_lengths.summarise(np.array([1, longest]), capacity, 1000)
    assert [row["length"] for row in summary["thresholds"]] == steps(capacity, longest)


def test_freezing_again_writes_the_same_or_refuses(root):
    freeze(root)
    before = {path.name: path.read_bytes() for path in (root / FOLDER).iterdir()}
    assert freeze(root) == 0
    assert {path.name: path.read_bytes() for path in (root / FOLDER).iterdir()} == before
    lengths = np.load(root / "data/tiny/train/lengths.npy")
    np.save(root / "data/tiny/train/lengths.npy", lengths[::-1])
    list_prepared(root / "data/tiny")
    with pytest.raises(InputError, match=r"tiny_train_lengths\.npy: frozen"):
        freeze(root)


def test_a_study_that_is_not_prepared_says_what_to_run(root):
    (root / "data/tiny/prepared.json").unlink()
    with pytest.raises(InputError, match=r"prepare\.py"):
        freeze(root)
