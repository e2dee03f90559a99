# SPDX-License-Identifier: BSD-3-Clause
"""Compares the formulas with values that were calculated by hand."""

import numpy as np
import pytest
from lockstep_report.measure import metrics
from lockstep_report.measure.inference import Interval


def test_throughput_is_no_mean_of_rates():
    # 100 images in 1 s and 100 in 3 s: 200/4 = 50; the mean of the rates would be 66.7
    assert metrics.throughput([100, 100], [1.0, 3.0]) == 50


def test_speedup():
    assert metrics.speedup(40, 25) == 1.6


def test_derived_split_counts_the_rest_as_communication():
    assert metrics.derived_split(40, 25, 2) == (20, 5)
    assert metrics.derived_split(40, 8, 4) == (10, -2)  # 5 times as fast as one rank, with 4 ranks


def test_bus_bandwidth_and_share_of_a_link():
    # 4 ranks, 1e9 bytes in 3 s: 2*3/4*1e9/3 = 0.5e9 bytes/s = 4 Gbit/s = 40 % of 10 Gbit/s
    rate = metrics.bus_bandwidth(1_000_000_000, 3.0, 4)
    assert rate == 0.5e9
    assert metrics.utilisation(rate, 10) == pytest.approx(0.4)
    assert metrics.utilisation(rate, None) is None


@pytest.mark.parametrize("seconds, ranks", [(1.0, 1), (0.0, 2), (-1.0, 2), (None, 2)])
def test_no_bandwidth_without_communication(seconds, ranks):
    assert metrics.bus_bandwidth(1000, seconds, ranks) is None


def test_busy_time_counts_overlap_once():
    # the union of [0,2], [1,3] and [5,6] lasts 4; intervals inside [0,10] do not add to it
    start = np.array([[[5.0, 0.0, 1.0]], [[0.0, 1.0, 2.0]]])
    end = np.array([[[6.0, 2.0, 3.0]], [[10.0, 2.0, 3.0]]])
    assert metrics.busy_seconds(start, end).tolist() == [[4.0], [10.0]]


def test_busy_time_without_buckets_is_zero():
    assert metrics.busy_seconds(np.zeros((3, 2, 0)), np.zeros((3, 2, 0))).tolist() == [[0, 0]] * 3


def test_steps_per_epoch_keep_the_last_batch():
    assert metrics.steps_per_epoch(50_000, 32, 1) == 1563
    assert metrics.steps_per_epoch(50_000, 32, 2) == 782


def test_karp_flatt_fraction():
    # S = 2 on 4 ranks: (1/2 - 1/4) / (1 - 1/4) = 1/3
    assert metrics.karp_flatt(2.0, 4) == pytest.approx(1 / 3)
    assert metrics.karp_flatt(4.0, 4) == 0
    assert metrics.karp_flatt(1.0, 1) is None
    assert metrics.karp_flatt(0.0, 4) is None


def test_interval_of_a_ratio():
    one, two = Interval(9.0, 12.0, 0.97, 6), Interval(3.0, 4.0, 0.97, 6)
    assert metrics.ratio_interval(one, two) == (9 / 4, 12 / 3)
    assert metrics.ratio_interval(None, two) == (None, None)
