"""A sealed time has the one spelling whose order as text is the order in time; every other is refused."""

import numpy as np
import pytest
import torch

from evidence import InputError, write_json
from research.sealed import read_sealed, seal_hash, write_sealed


def sealed(path, time):
    write_json(path, {"content": {}, "sealed_at": time, "sha256": seal_hash({}, time)})
    return read_sealed(path, "make it")


@pytest.mark.parametrize("time", [
    "2026-1-1T0:0:0Z", "2026-01-01T00:00:0Z", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00.000Z",
    "2026-01-01t00:00:00z", "2026-01-01T00:00:00+00:00", "999-01-01T00:00:00Z", "\u0662026-01-01T00:00:00Z", "", None, 1])
def test_another_spelling_of_a_time_is_refused(tmp_path, time):
    with pytest.raises(InputError, match="sealed_at: expected a time like "):
        sealed(tmp_path / "a.json", time)


def test_the_spelling_that_is_written_is_read(tmp_path):
    assert sealed(tmp_path / "a.json", "2001-01-01T00:00:00Z")["sealed_at"] == "2001-01-01T00:00:00Z"
    record = write_sealed(tmp_path / "b.json", {"value": 1}, "make it")
    assert read_sealed(tmp_path / "b.json", "make it") == record


def test_the_same_content_keeps_its_first_time_whatever_types_it_was_made_of(tmp_path):
    path, time = tmp_path / "a.json", "2001-01-01T00:00:00Z"
    content = {"score": 0.5, "rows": [1, 2], "torch": str(torch.__version__)}
    write_json(path, {"content": content, "sealed_at": time, "sha256": seal_hash(content, time)})
    measured = {"score": np.float64(0.5), "rows": (1, 2), "torch": torch.__version__}
    assert not any(type(measured[key]) is type(content[key]) for key in content)
    assert write_sealed(path, measured, "make it", replace=True)["sealed_at"] == time
    assert write_sealed(path, measured | {"score": 0.75}, "make it", replace=True)["sealed_at"] > time
