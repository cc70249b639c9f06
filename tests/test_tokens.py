"""Token arrays: ids never wrap, streams are what NumPy saves, results keep their order over processes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from corpora.tokens import in_order, narrow, refill_batches, token_dtype, write_stream
from evidence import InputError, sha256_file


def test_ids_are_16_bit_up_to_65536_tokens_and_never_wrap():
    """Case 12B."""
    assert token_dtype(65_536) == np.uint16 and token_dtype(65_537) == np.uint32
    assert narrow([0, 65_535], 65_536).tolist() == [0, 65_535]
    assert narrow([70_000], 100_000).tolist() == [70_000]
    assert narrow([], 300).dtype == np.uint16
    for ids, vocabulary in [([70_000], 65_536), ([65_536], 65_536), ([-1], 300), ([300], 300)]:
        with pytest.raises(InputError, match="do not fit a vocabulary"):
            narrow(ids, vocabulary)


def test_documents_arrive_in_batches_cut_inside_each_row_group():
    assert refill_batches([1000, 300, 128, 1], 128).tolist() == [128] * 7 + [104, 128, 128, 44, 128, 1]
    assert refill_batches([], 128).tolist() == [] and refill_batches([0, 2], 2).tolist() == [2]
    assert refill_batches([5], 2).dtype == np.int64


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
@pytest.mark.parametrize("sizes", [[], [0], [3], [5, 0, 70_000], [1] * 50])
def test_a_streamed_array_is_byte_for_byte_what_numpy_saves(tmp_path, dtype, sizes):
    arrays = [np.arange(size).astype(dtype) for size in sizes]
    assert write_stream(tmp_path / "a.npy", iter(arrays), np.dtype(dtype)) == sum(sizes)
    np.save(tmp_path / "b.npy", np.concatenate([np.zeros(0, dtype), *arrays]))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_tasks_and_a_refusal_crosses_processes(workers):
    assert list(in_order(abs, [-3, 2, -1, 0, -9, 5, 5, -4], workers)) == [3, 2, 1, 0, 9, 5, 5, 4]
    with pytest.raises(InputError, match="nowhere: No such file"):
        list(in_order(sha256_file, ["nowhere", "nowhere"], workers))


def test_a_dead_worker_is_one_clear_error():
    with pytest.raises(InputError, match="a worker died"):
        list(in_order(os._exit, [1, 1, 1], 2))


PARENT = """
import time
from corpora.tokens import in_order
if __name__ == "__main__":
    for _ in in_order(time.sleep, [0, 60, 60], 2):
        print("begun", flush=True)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path):
    """They hold the parent's output open, which ends with the last of them."""
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout.readline() == b"begun\n"
    parent.kill()
    assert parent.communicate(timeout=60) == (b"", None)
