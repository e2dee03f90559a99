# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of medians, of independent and of correlated values."""

import numpy as np
import pytest
from lockstep_report.measure.inference import autocorrelation_time, median_interval, series_interval


def test_no_interval_from_fewer_than_six():
    assert median_interval([1, 2, 3, 4, 5]) is None


def test_interval_of_six_is_smallest_to_largest():
    # P(all six on one side of the median) = 2 * (1/2)^6 = 1/32; the next inner pair covers 78 %
    interval = median_interval([6, 1, 5, 2, 4, 3])
    assert (interval.low, interval.high) == (1, 6)
    assert interval.coverage == 1 - 2 / 64


def test_interval_of_ten_leaves_out_one_at_each_end():
    # second value: 2*(1 + 10)/1024 = 0.0215 <= 0.05; third: 2*(1 + 10 + 45)/1024 = 0.109 > 0.05
    interval = median_interval(range(1, 11))
    assert (interval.low, interval.high) == (2, 9)
    assert interval.coverage == pytest.approx(1 - 22 / 1024)


def test_interval_of_many_follows_the_normal_rule():
    # n = 10000: ranks n/2 -/+ 1.96*sqrt(n)/2 = 5000 -/+ 98
    interval = median_interval(np.arange(1, 10001))
    assert abs(interval.low - 4902) <= 1 and abs(interval.high - 5099) <= 1


def test_interval_covers_the_median_as_often_as_it_says():
    random = np.random.default_rng(7)
    draws = random.exponential(size=(4000, 9))  # not normally distributed; median ln 2
    hits = [i.low <= np.log(2) <= i.high for i in map(median_interval, draws)]
    # for n = 9: 1 - 2*(1 + 9)/512 = 0.961; three standard errors of 4000 draws are 0.009
    assert np.mean(hits) == pytest.approx(1 - 20 / 512, abs=0.009)


@pytest.mark.parametrize(
    "values, tau",
    [
        # signs -, +, -, +: the products at lag 1 are negative, so no correlation is counted
        ([1, 4, 2, 3], 1.0),
        # signs - - - + + +: products 6, 3, 0 | -3: tau = 2 * (6 + 3) / 6 - 1 = 2 from the first
        # pair; the next, 0 - 3, ends the sum
        ([1, 2, 3, 4, 5, 6], 2.0),
        ([7, 7, 7], 1.0),
        ([5], 1.0),
        ([], 1.0),
    ],
)
def test_autocorrelation_time_by_hand(values, tau):
    assert autocorrelation_time(values) == pytest.approx(tau)


def test_autocorrelation_time_of_an_autoregressive_series():
    # The signs of a Gaussian AR(1) series have the autocorrelation 2/pi * asin(rho^k).
    rho, random = 0.6, np.random.default_rng(3)
    values = np.zeros(100_000)
    for i, noise in enumerate(random.standard_normal(len(values))):
        values[i] = rho * values[i - 1] + noise
    exact = 1 + 2 * sum(2 / np.pi * np.arcsin(rho**k) for k in range(1, 60))
    assert autocorrelation_time(values) == pytest.approx(exact, rel=0.1)


def test_a_series_has_a_wider_interval_than_independent_values():
    values = np.repeat(np.random.default_rng(5).standard_normal(60), 5)  # worth 60 values
    series, independent = series_interval(values), median_interval(values)
    assert 40 <= len(values) / autocorrelation_time(values) <= 80
    assert series.high - series.low > 1.5 * (independent.high - independent.low)


def test_a_series_that_is_worth_fewer_than_six_values_has_no_interval():
    assert series_interval(np.repeat([1.0, 2.0, 1.5, 2.5], 50)) is None
    assert series_interval([1, 2, 3, 4, 5]) is None
