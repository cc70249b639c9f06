"""Rows hold exactly the tokens of the plan's segments, in whatever batches they are read; targets follow inputs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from loaders import best_fit_crop, lossless
from loaders.rows import RowReader, read_ahead, stream, text_offsets
from tiny.packed_tokens import PackedTokens
from tiny.streams import CASE_1B, EVERY, LOADERS, streams

BOS_ID = 60_000
SIZES = {"capacity": 11, "rows": 40, "buffer_size": 4, "refill": [3, 3, 4]}


def flat_tokens(lengths):
    """Text token n of document d is unique in the corpus: its position in the flat array."""
    return np.arange(sum(lengths) - len(lengths), dtype=np.uint16)


def reader_of(policy, lengths, sizes, seed=7):
    plan = LOADERS[policy].plan(lengths, seed=seed, **sizes)
    return RowReader(plan, flat_tokens(lengths), lengths, BOS_ID, sizes["capacity"])


@EVERY
@settings(max_examples=150)
@given(world=streams())
def test_rows_hold_the_tokens_the_reference_packer_emits(policy, world):
    lengths, sizes = world
    begins = [sum(lengths[:d]) - d for d in range(len(lengths))]
    slow = PackedTokens(lengths, policy=policy, seed=7, **sizes).rows
    expected = [[BOS_ID if n in (0, "bos") else begins[a % len(lengths)] + n - 1 for a, n in row] for row in slow]
    found = reader_of(policy, lengths, sizes).rows(0, sizes["rows"])
    assert found.dtype == np.uint16 and found.tolist() == expected


@EVERY
@pytest.mark.parametrize("batch", [1, 3, 7, 40])
def test_rows_do_not_depend_on_how_many_are_read_at_once(policy, batch):
    reader = reader_of(policy, CASE_1B, SIZES)
    parts = [reader.rows(first, min(first + batch, 40)) for first in range(0, 40, batch)]
    assert np.array_equal(np.concatenate(parts), reader.rows(0, 40))


def test_case_9c_separate_rows_never_have_their_first_token_as_a_target():
    """A stream 0..12 in rows of 5: rows 0-4 and 5-9, targets 1-4 and 6-9; 10, 11 and 12 are not read."""
    plan = lossless.plan([13], capacity=5, rows=2, buffer_size=1, refill=[1])
    reader = RowReader(plan, np.arange(1, 13, dtype=np.uint16), [13], 0, 5)
    [(rows, inputs, targets)] = stream(reader, [(0, 2)], "cpu")
    assert rows.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert inputs.tolist() == [[0, 1, 2, 3], [5, 6, 7, 8]] and targets.tolist() == [[1, 2, 3, 4], [6, 7, 8, 9]]
    assert inputs.dtype == targets.dtype == torch.int64 and inputs.is_contiguous() and targets.is_contiguous()


def test_case_12a_offsets_beyond_32_bits_are_exact(tmp_path):
    """Three documents of 1.2e9 text tokens of 2 bytes: they begin at bytes 0, 2.4e9 and 4.8e9."""
    lengths = [1_200_000_001] * 3
    assert text_offsets(lengths).tolist() == [0, 1_200_000_000, 2_400_000_000, 3_600_000_000]
    tokens = np.memmap(tmp_path / "sparse", dtype=np.uint16, mode="w+", shape=(3_600_000_000,))
    tokens[2_400_000_000 : 2_400_000_003] = [7, 8, 9]
    reader = RowReader(np.array([[0, 2, 1, 0, 3]]), tokens, lengths, 5, 4)
    assert reader.rows(0, 1).tolist() == [[5, 7, 8, 9]]
    (tmp_path / "sparse").unlink()


@pytest.mark.slow
def test_case_39_a_new_process_reads_the_remaining_rows_of_the_unbroken_run(tmp_path):
    np.save(tmp_path / "tokens.npy", flat_tokens(CASE_1B))
    code = (
        "import sys, importlib, numpy as np; from loaders.rows import RowReader\n"
        f"for policy in {list(LOADERS)}:\n"
        f"    plan = importlib.import_module(f'loaders.{{policy}}').plan({CASE_1B}, seed=7, **{SIZES})\n"
        f"    reader = RowReader(plan, np.load(sys.argv[1], mmap_mode='r'), {CASE_1B}, {BOS_ID}, 11)\n"
        "    for k in range(41): sys.stdout.buffer.write(reader.rows(k, 40).tobytes())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "tokens.npy")]
    found = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, check=True).stdout
    unbroken = [reader_of(policy, CASE_1B, SIZES).rows(0, 40) for policy in LOADERS]
    assert found == b"".join(rows[k:].tobytes() for rows in unbroken for k in range(41))


def test_the_stream_yields_the_rows_of_the_ranges_in_order():
    reader = reader_of("best_fit_crop", CASE_1B, SIZES)
    ranges = [(0, 4), (8, 12), (36, 40)]
    for (first, last), (rows, inputs, targets) in zip(ranges, stream(reader, ranges, "cpu"), strict=True):
        assert np.array_equal(rows, reader.rows(first, last))
        assert np.array_equal(inputs.numpy(), rows[:, :-1]) and np.array_equal(targets.numpy(), rows[:, 1:])


def test_reading_ahead_keeps_order_stays_two_ahead_and_raises_at_its_item():
    begun = []

    def read(item):
        begun.append(item)
        return 10 // (5 - item)

    results = read_ahead(read, range(10))
    assert next(results) == 2 and max(begun, default=0) <= 2
    assert [next(results) for _ in range(4)] == [2, 3, 5, 10]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_memory_mapped_wide_tokens_keep_ids_beyond_16_bits(tmp_path):
    np.save(tmp_path / "tokens.npy", np.array([70_000, 5], dtype=np.uint32))
    tokens = np.load(tmp_path / "tokens.npy", mmap_mode="r")
    plan = best_fit_crop.plan([3], capacity=3, rows=1, buffer_size=1, refill=[1])
    [(rows, inputs, _)] = stream(RowReader(plan, tokens, [3], 70_001, 3), [(0, 1)], "cpu")
    assert rows.dtype == np.uint32 and inputs.tolist() == [[70_001, 70_000]]


def test_rows_beyond_the_plan_and_data_that_does_not_belong_are_refused():
    reader = reader_of("best_fit_crop", CASE_1B, SIZES)
    for span in [(0, 41), (-1, 2), (5, 4)]:
        with pytest.raises(ValueError, match="the plan has 40"):
            reader.rows(*span)
    with pytest.raises(ValueError, match="tokens: 117 ids, but the lengths count 119"):
        RowReader(reader.plan, flat_tokens(CASE_1B)[1:], [*CASE_1B[:-1], 5], BOS_ID, 11)
    with pytest.raises(ValueError, match="bos: 70000 is not an id of type uint16"):
        RowReader(reader.plan, flat_tokens(CASE_1B), CASE_1B, 70_000, 11)
    with pytest.raises(ValueError, match="tokens planned"):
        RowReader(reader.plan, flat_tokens(CASE_1B), CASE_1B, BOS_ID, 12).rows(0, 2)
