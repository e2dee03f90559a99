# SPDX-License-Identifier: BSD-3-Clause
"""Compares the times of steps with values that were calculated by hand."""

import numpy as np
import pytest
from lockstep_report.measure.window import step_seconds, timed_seconds
from lockstep_report.runfile.read import read_run
from synthetic import phases, write_clocks, write_run

WORK = (0.01, 0.0, 0.03, 0.04, 0.0, 0.02)  # 0.1 s, of which 0.01 s of data wait


def written(tmp_path, seconds, starts=None, **options):
    path = write_run(tmp_path / "run.h5", seconds, 32, **options)
    if starts is not None:
        write_clocks(path, np.asarray(starts, dtype=float))
    return read_run(path)


def test_a_step_ends_with_the_start_of_the_next(tmp_path):
    """Two ranks, late in turn, which wait for each other: every step takes 0.15 s on both clocks,
    although the phases of the slower rank add up to more."""
    run = written(tmp_path, phases(3, WORK, WORK), [[0.0, 5.0], [0.15, 5.15], [0.3, 5.3]])
    assert step_seconds(run, np.arange(3)) == pytest.approx([0.15, 0.15, 0.1])
    assert timed_seconds(run, np.arange(3))[1] == pytest.approx([0.14, 0.14, 0.09])


def test_independent_ranks_take_as_long_as_the_rank_with_the_largest_sum(tmp_path):
    seconds = np.concatenate(
        [phases(1, WORK, np.multiply(2, WORK)), phases(2, WORK, np.multiply(0.9, WORK))]
    )
    run = written(tmp_path, seconds, reducer="none")
    # rank 0: 0.3 s; rank 1: 0.2 + 0.09 + 0.09 = 0.38 s; the maxima of the steps add up to 0.4 s
    assert step_seconds(run, np.arange(3)) == pytest.approx([0.2, 0.09, 0.09])


def test_time_between_epochs_and_processes_is_in_no_step(tmp_path):
    run = written(tmp_path, phases(4, WORK), [[0.0], [0.1], [9.0], [9.1]], epochs=2)
    assert step_seconds(run, np.arange(4)) == pytest.approx([0.1] * 4)
    # Steps that are not consecutive
    assert step_seconds(run, np.array([0, 3])) == pytest.approx([0.1] * 2)
