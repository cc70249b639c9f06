"""A sealed file cannot be edited in part, is not dated in the future, and keeps the time at which it was made."""

import numpy as np
import pytest
import torch

from evidence import InputError, read_json, write_json
from research.sealed import read_sealed, seal_hash, write_sealed

PAST = "2001-01-01T00:00:00Z"


def sealed(path, time, content=None):
    write_json(path, {"content": content or {}, "sealed_at": time, "sha256": seal_hash(content or {}, time)})
    return path


@pytest.mark.parametrize("time", ["2999-01-01T00:00:00Z", "2026-1-1T0:0:0Z", "yesterday", None])
def test_only_a_time_in_the_past_whose_text_sorts_by_time_is_read(tmp_path, time):
    with pytest.raises(InputError, match=r"a\.json: sealed_at"):
        read_sealed(sealed(tmp_path / "a.json", time), "make it")
    assert read_sealed(sealed(tmp_path / "a.json", PAST), "make it")["sealed_at"] == PAST


@pytest.mark.parametrize("key, value", [
    ("content", {"score": 1}), ("sealed_at", "2002-01-01T00:00:00Z"), ("sha256", "0")])
def test_a_part_that_was_edited_alone_is_found(tmp_path, key, value):
    path = sealed(tmp_path / "a.json", PAST)
    write_json(path, read_json(path) | {key: value})
    with pytest.raises(InputError, match=r"a\.json: sha256"):
        read_sealed(path, "make it")


def test_a_missing_file_names_the_command_that_makes_it(tmp_path):
    with pytest.raises(InputError, match=r"a\.json: missing.*make it"):
        read_sealed(tmp_path / "a.json", "make it")


def test_the_same_content_keeps_its_first_time_whatever_types_it_was_made_of(tmp_path):
    content = {"score": 0.5, "rows": [1, 2], "torch": str(torch.__version__)}
    path = sealed(tmp_path / "a.json", PAST, content)
    measured = {"score": np.float64(0.5), "rows": (1, 2), "torch": torch.__version__}
    assert write_sealed(path, measured, "make it")["sealed_at"] == PAST
    with pytest.raises(InputError, match=r"a\.json: .*score"):
        write_sealed(path, measured | {"score": 0.75}, "make it")
    assert write_sealed(path, measured | {"score": 0.75}, "make it", replace=True)["sealed_at"] > PAST
