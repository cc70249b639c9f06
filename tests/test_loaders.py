"""Every plan equals what the reference packer does with real tokens, token for token, and the worked cases hold."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders import best_fit_crop, lossless, random_span, segment_first
from loaders.accounting import ARRIVAL, BOS, COUNT, ROW, START, plan_sha256
from tiny.packed_tokens import PackedTokens
from tiny.streams import CASE_1B, EVERY, LOADERS, streams


def expand(plan, policy, lengths, capacity):
    """Rows of tokens as the reference packer names them, from the plan's segments."""
    rows = [[] for _ in range(plan[-1, ROW] + 1)] if len(plan) else []
    for row, arrival, bos, start, count in plan.tolist():
        cut = policy == "segment_first" and lengths[arrival % len(lengths)] > capacity
        rows[row] += [(arrival, "bos" if cut and start else 0)] * bos + [(arrival, start + 1 + n) for n in range(count)]
    return rows


def assert_same_rows(policy, lengths, sizes, seed=7):
    plan = LOADERS[policy].plan(lengths, seed=seed, **sizes)
    slow = PackedTokens(lengths, policy=policy, seed=seed, **sizes)
    assert expand(plan, policy, lengths, sizes["capacity"]) == slow.rows


@pytest.mark.slow
@EVERY
@settings(max_examples=400)
@given(world=streams())
def test_every_plan_equals_the_reference_packer(policy, world):
    assert_same_rows(policy, *world)


@EVERY
@pytest.mark.parametrize(("lengths", "refill", "capacity", "buffer_size"), [
    ([5], [1], 4, 3),
    ([1], [1], 7, 2),
    ([6] * 9, [4, 4, 1], 8, 4),
    ([4] * 12, [5, 5, 2], 8, 1),
    ([100, 3, 2, 90, 1, 80], [6], 5, 4),
    ([2, 2, 3, 3, 2, 3], [1, 2, 3], 4, 5),
    (CASE_1B, [3, 3, 4], 11, 4),
    ([3, 8, 5], [2, 1], 6, 20),
], ids=["one document", "one token", "equal", "buffer of 1", "over a row", "ties", "case 1B", "buffer over a pass"])
def test_named_worlds_equal_the_reference_packer_over_many_passes(policy, lengths, refill, capacity, buffer_size):
    assert_same_rows(policy, lengths, {"refill": refill, "capacity": capacity, "buffer_size": buffer_size, "rows": 60})


@EVERY
@pytest.mark.parametrize("capacity", [31, 32, 33, 1023, 1024, 2049, 2100])
def test_long_rows_equal_the_reference_packer_across_bitmap_words(policy, capacity):
    lengths = 1 + np.random.default_rng(capacity).lognormal(np.log(capacity / 3), 1.2, 230).astype(np.int64)
    sizes = {"refill": [64, 64, 64, 38], "capacity": capacity, "buffer_size": 40, "rows": 150}
    assert_same_rows(policy, lengths, sizes)


@EVERY
@pytest.mark.parametrize("block", [1, 2, 7])
def test_plans_made_in_blocks_equal_the_reference_packer(policy, block, monkeypatch):
    monkeypatch.setattr(best_fit_crop, "BLOCK", block)
    assert_same_rows(policy, CASE_1B, {"refill": [3, 3, 4], "capacity": 11, "buffer_size": 4, "rows": 15})


@EVERY
@settings(max_examples=100)
@given(world=streams(), rows=st.integers(0, 12))
def test_fewer_rows_give_a_prefix_of_the_same_plan(policy, world, rows):
    lengths, sizes = world
    long = LOADERS[policy].plan(lengths, seed=5, **sizes)
    short = LOADERS[policy].plan(lengths, seed=5, **sizes | {"rows": min(rows, sizes["rows"])})
    assert np.array_equal(short, long[: len(short)]) and (long[len(short) :, ROW] >= rows).all()


@EVERY
@settings(max_examples=100)
@given(world=streams())
def test_rows_are_full_and_segments_lie_inside_their_documents(policy, world):
    lengths, sizes = world
    plan = LOADERS[policy].plan(lengths, seed=5, **sizes)
    assert plan.dtype == np.int64 and plan.shape[1] == 5 and plan.flags.c_contiguous
    filled = np.zeros(sizes["rows"], dtype=np.int64)
    np.add.at(filled, plan[:, ROW], plan[:, BOS] + plan[:, COUNT])
    assert (filled == sizes["capacity"]).all()
    assert (plan[:, START] + plan[:, COUNT] < np.array(lengths)[plan[:, ARRIVAL] % len(lengths)]).all()


@settings(max_examples=100)
@given(world=streams())
def test_random_spans_change_only_where_a_cropped_segment_starts(world):
    lengths, sizes = world
    baseline, random = best_fit_crop.plan(lengths, **sizes), random_span.plan(lengths, seed=3, **sizes)
    others = [ROW, ARRIVAL, BOS, COUNT]
    assert np.array_equal(baseline[:, others], random[:, others])
    whole = baseline[:, COUNT] == np.array(lengths)[baseline[:, ARRIVAL] % len(lengths)] - 1
    assert (random[whole | (random[:, COUNT] == 0), START] == 0).all()


def test_random_spans_reach_every_start_about_equally_often():
    plan = random_span.plan([9], capacity=5, rows=10_000, buffer_size=1, refill=[1], seed=1)
    starts = np.bincount(plan[:, START])
    assert len(starts) == 5 and (abs(starts - 2000) < 5 * 40).all()  # 40: standard deviation of Binomial(10000, 1/5)


def test_case_1a_crops_the_shortest_candidate():
    """Space 7 and 23, 12, 9, 31 held: the 9 gives 7 tokens and loses 2."""
    plan = best_fit_crop.plan([1, 23, 12, 9, 31], capacity=8, rows=1, buffer_size=4, refill=[5])
    assert plan.tolist() == [[0, 0, 1, 0, 0], [0, 3, 1, 0, 6]]


def test_case_1b_gives_the_worked_rows():
    """A last document longer than all keeps the buffer at four until the end, as the case's finite stream does."""
    plan = best_fit_crop.plan([*CASE_1B, 40], capacity=11, rows=4, buffer_size=4, refill=[1] * 11)
    assert [(row, arrival, bos + count) for row, arrival, bos, _, count in plan.tolist()] == [
        (0, 0, 9), (0, 4, 2), (1, 5, 5), (1, 6, 6), (2, 7, 3), (2, 2, 8), (3, 9, 4), (3, 3, 7)]


def test_case_1c_never_starts_the_long_document_that_came_first():
    plan = best_fit_crop.plan([100] + [4] * 30, capacity=8, rows=5, buffer_size=3, refill=[1] * 31)
    assert plan[:, ARRIVAL].tolist() == list(range(1, 11))


def test_case_3_oversized_documents_alone_still_fill_every_row_and_the_short_one_is_reached():
    plan = best_fit_crop.plan([9, 12, 10, 20, 3], capacity=8, rows=3, buffer_size=4, refill=[1] * 5)
    assert plan.tolist() == [[0, 0, 1, 0, 7], [1, 4, 1, 0, 2], [1, 5, 1, 0, 4], [2, 2, 1, 0, 7]]


def test_case_6_pieces_of_long_documents_keep_document_and_offset():
    """Cut before insertion, 7 tokens become 4 (BOS + 3) and 4 (BOS + 3): the second BOS is an added one."""
    plan = segment_first.plan([7, 3, 5, 1], capacity=4, rows=4, buffer_size=1, refill=[4])
    assert [sum(bos + count for r, _, bos, _, count in plan.tolist() if r == row) for row in range(4)] == [4] * 4
    assert [0, 1, 0, 3] in plan[:, 1:].tolist() and [0, 1, 3, 3] in plan[:, 1:].tolist()
    kept = lossless.plan([7, 3, 5, 1], capacity=4, rows=4, buffer_size=1, refill=[1] * 4)
    assert kept[:2].tolist() == [[0, 0, 1, 0, 3], [1, 0, 0, 3, 3]]


@pytest.mark.parametrize("refill", [[3, 3, 3, 1], [1] * 10, [10]])
def test_case_10a_lossless_rows_do_not_depend_on_the_reader_batch_in_number_or_tokens(refill):
    plan = lossless.plan([7] * 10, capacity=16, rows=4, buffer_size=1, refill=refill)
    assert plan[-1, ROW] == 3 and (plan[:, BOS] + plan[:, COUNT]).sum() == 64
    assert plan[:, ARRIVAL].max() == 9


@pytest.mark.slow
def test_case_39_a_new_process_in_a_run_directory_plans_the_same_bytes(tmp_path):
    """A loader has no state to save: its copy beside a copy of `loaders/` plans the same, in any process."""
    source = Path(best_fit_crop.__file__).parent
    shutil.copytree(source, tmp_path / "loaders", ignore=shutil.ignore_patterns("__pycache__"))
    for policy in LOADERS:
        shutil.copy(source / f"{policy}.py", tmp_path / f"copied_{policy}.py")
    sizes = {"capacity": 11, "rows": 40, "buffer_size": 4, "refill": [3, 3, 4], "seed": 9}
    code = "from loaders.accounting import plan_sha256\n"
    code += "".join(f"import copied_{p} as l; print(plan_sha256(l.plan({CASE_1B}, **{sizes})))\n" for p in LOADERS)
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found.split() == [plan_sha256(loader.plan(CASE_1B, **sizes)) for loader in LOADERS.values()]


def test_memory_mapped_lengths_of_any_integer_type_compile_once(tmp_path):
    sizes = {"capacity": 11, "rows": 9, "buffer_size": 4, "refill": [10]}
    np.save(tmp_path / "lengths.npy", np.array(CASE_1B))
    mapped = np.load(tmp_path / "lengths.npy", mmap_mode="r")
    plans = [best_fit_crop.plan(lengths, **sizes) for lengths in (CASE_1B, mapped, np.array(CASE_1B, dtype=np.uint16))]
    assert all(np.array_equal(plan, plans[0]) for plan in plans)
    assert len(best_fit_crop._fill.signatures) == 1


@EVERY
@pytest.mark.parametrize(("change", "text"), [
    ({"lengths": []}, "lengths: expected a list of at least one"),
    ({"lengths": [3, 0, 2]}, r"lengths\[1\]: expected 1..2147483647, found 0"),
    ({"lengths": [3, 4, -2]}, r"lengths\[2\]: .* found -2"),
    ({"lengths": [3, 2**31, 1]}, r"lengths\[1\]: .* found 2147483648"),
    ({"lengths": [3.0, 1.0, 2.0]}, "lengths: expected integers, found float64"),
    ({"lengths": [[3, 1, 2]]}, "lengths: .* shape"),
    ({"refill": [2, 2]}, "refill: batches hold 4 documents, lengths has 3"),
    ({"refill": [3, 0]}, r"refill\[1\]"),
    ({"capacity": 1}, "capacity: expected an integer of at least 2, found 1"),
    ({"capacity": 4.0}, "capacity"),
    ({"buffer_size": 0}, "buffer_size"),
    ({"rows": -1}, "rows"),
])
def test_impossible_input_is_refused_by_name(policy, change, text):
    good = {"lengths": [3, 1, 2], "refill": [2, 1], "capacity": 4, "buffer_size": 2, "rows": 1}
    with pytest.raises(ValueError, match=text):
        LOADERS[policy].plan(seed=1, **good | change)


@pytest.mark.parametrize("seed", [None, -1, 1.5, True])
def test_random_spans_need_a_seed(seed):
    with pytest.raises(ValueError, match="seed"):
        random_span.plan([3], capacity=2, rows=1, buffer_size=1, refill=[1], seed=seed)
