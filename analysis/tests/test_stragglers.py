# SPDX-License-Identifier: BSD-3-Clause
"""Tests the recognition of slow ranks and of wrong clocks."""

from dataclasses import replace

import numpy as np
import pytest
from lockstep_report.measure.fitting import Estimate
from lockstep_report.measure.stragglers import Straggler, excess_work, straggler_of
from lockstep_report.measure.waiting import timed_run
from lockstep_report.runfile.read import read_run
from planted import check_coverage, write_training


def found_in(path):
    return straggler_of(timed_run(read_run(path)))


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
def test_excess_is_relative_to_the_median_of_the_others(ranks):
    work = np.random.default_rng(1).random((7, ranks))
    expected = [[row[r] - np.median(np.delete(row, r)) for r in range(ranks)] for row in work]
    assert excess_work(work) == pytest.approx(np.array(expected))


def test_planted_straggler_is_recovered(tmp_path):
    """Rank 2 works 3 ms longer than 50 ms; the other ranks have a noise of 1 %."""
    random = np.random.default_rng(2)
    repeats, named, hits = 60, 0, 0
    for _ in range(repeats):
        slow = found_in(
            write_training(
                tmp_path / "run.h5", random, ranks=4, steps=60, sigma=0.01, slow_rank=2, slow=0.003
            )
        )
        named += (slow.rank, slow.host, slow.is_significant) == (2, "node2", True)
        hits += slow.excess.contains(0.003)
    assert named == repeats
    check_coverage(hits, repeats, exact=False)


def test_equal_ranks_have_no_straggler(tmp_path):
    """The level of the test is 5 % for all ranks together."""
    random = np.random.default_rng(3)
    repeats = 40
    wrong = sum(
        found_in(write_training(tmp_path / "run.h5", random, steps=60)).is_significant
        for _ in range(repeats)
    )
    check_coverage(repeats - wrong, repeats, exact=False)


def test_planted_clock_offset_is_recovered(tmp_path):
    """The clock of rank 1 is 4 ms ahead, which the recorded offsets do not contain."""
    random = np.random.default_rng(4)
    repeats, named, hits = 60, 0, 0
    for _ in range(repeats):
        found = found_in(
            write_training(
                tmp_path / "run.h5",
                random,
                ranks=3,
                steps=60,
                clock_rank=1,
                clock=0.004,
                jitter=1e-4,
                alpha=1e-4,
                sizes=(4e5, 2e5),
            )
        )
        named += found.clock_rank == 1 and found.is_clock_wrong
        hits += found.clock.contains(0.004)
    assert named == repeats
    check_coverage(hits, repeats, exact=False)


def test_correct_clocks_are_not_reported(tmp_path):
    found = found_in(write_training(tmp_path / "run.h5", np.random.default_rng(5)))
    assert not found.is_clock_wrong


def test_few_steps_have_no_interval(tmp_path):
    found = found_in(
        write_training(
            tmp_path / "run.h5", np.random.default_rng(6), steps=5, slow_rank=0, slow=1.0
        )
    )
    assert found.rank == 0
    assert not found.is_significant
    assert not found.excess.has_interval


def test_one_rank_has_no_straggler(tmp_path):
    path = write_training(tmp_path / "run.h5", np.random.default_rng(7), ranks=1)
    assert timed_run(read_run(path)) is None


def test_ranks_of_one_host_read_the_same_clock():
    """Between the operations of a backward pass, ranks notice the end of an all-reduce late."""
    apart = Straggler(
        "", 2, 1, "", Estimate(0.0), 1.0, False, None, 1, Estimate(0.004, 0.003, 0.005), 1e-5, 1e-3
    )
    assert apart.is_clock_wrong
    assert not replace(apart, clock_error=0.0).is_clock_wrong


def test_correlated_noise_of_equal_ranks_is_no_straggler(tmp_path):
    """A rank that is slow in one step is often slow in the next: 60 steps are worth about 20."""
    random = np.random.default_rng(8)
    repeats = 40
    wrong = sum(
        found_in(
            write_training(tmp_path / "run.h5", random, ranks=16, steps=60, correlation=0.6)
        ).is_significant
        for _ in range(repeats)
    )
    check_coverage(repeats - wrong, repeats, exact=False)
