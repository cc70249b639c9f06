"""Sums of losses are exact, random picks are fair and reproducible, and intervals are those of the definition."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.resampling import bits_per_byte, interval, multiplicities, shuffled, units

NATS = st.lists(st.floats(0, 4e4), min_size=1, max_size=30)


def test_a_thousand_bytes_at_ln_2_nats_each_cost_one_bit_a_byte():
    assert float(bits_per_byte(units(1000 * math.log(2)), 1000)) == pytest.approx(1.0, abs=1e-12)


@given(NATS)
def test_units_are_within_half_a_unit_and_their_sum_does_not_depend_on_order(nats):
    counted = units(nats)
    errors = [abs(Fraction(int(unit), 2**30) - Fraction(nat)) for unit, nat in zip(counted, nats)]
    assert max(errors) <= Fraction(1, 2**31)
    assert counted.sum() == counted[::-1].sum() == sum(map(int, counted))


@given(st.integers(0, 2**32), st.integers(0, 50))
def test_shuffling_keeps_every_number_once_and_a_seed_repeats_it(seed, size):
    order = shuffled([seed, 1], size)
    assert sorted(order.tolist()) == list(range(size))
    assert np.array_equal(order, shuffled([seed, 1], size))


def test_each_replicate_draws_as_many_as_there_are_and_all_are_drawn_alike():
    drawn = multiplicities(5, 4000, 7)
    assert drawn.shape == (4000, 7) and (drawn.sum(axis=1) == 7).all()
    assert np.allclose(drawn.mean(axis=0), 1, atol=0.06) and drawn.max() > 3
    assert drawn.var(axis=0) == pytest.approx(np.full(7, 6 / 7), abs=0.08)  # a binomial's


def test_resampling_repeats_for_a_seed_and_differs_between_strata():
    assert np.array_equal(multiplicities([3, 0], 20, 9), multiplicities([3, 0], 20, 9))
    assert not np.array_equal(multiplicities([3, 0], 20, 9), multiplicities([3, 1], 20, 9))


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.sampled_from([1, 2, 8]))
def test_an_interval_is_the_linear_percentile_of_its_level(values, contrasts):
    tail = 0.025 / contrasts
    assert interval(np.array(values), contrasts) == pytest.approx(np.quantile(values, [tail, 1 - tail]), abs=1e-12)


def test_bonferroni_over_eight_leaves_out_five_of_eight_hundred():
    low, high = interval(np.arange(801.0), 8)
    assert (low, high) == (2.5, 797.5)
