# SPDX-License-Identifier: BSD-3-Clause
"""Tests the schedule of a step, by hand."""

import numpy as np
import pytest
from lockstep_report.models.prediction.predict import schedule

SIZES = np.array([3.0, 1.0])


def made(ready, backward_end, update, all_reduces, **options):
    return schedule(
        np.array([ready], float),
        np.array([float(backward_end)]),
        np.array([float(update)]),
        np.array([all_reduces], float),
        SIZES,
        **options,
    )


def test_hidden_all_reduces():
    """Bucket 0 from 2 to 5, bucket 1 from 8 to 9; the backward pass ends at 8."""
    step = made([2, 8], 8, 1, [3, 1], updates_by_bucket=False)
    assert step[0] == 10


def test_all_reduces_follow_each_other():
    """Bucket 0 from 2 to 9 delays bucket 1 to 9 to 10."""
    assert made([2, 8], 8, 1, [7, 1], updates_by_bucket=False)[0] == 11


def test_updates_by_bucket():
    """Backward pass until 8, bucket 0 is reduced at 9: update 9 to 9.75 (3 of 4 bytes); bucket 1
    from 9 to 12: update 12 to 12.25."""
    assert made([2, 8], 8, 1, [7, 3])[0] == pytest.approx(12.25)


def test_without_overlap_the_all_reduces_start_after_the_backward_pass():
    assert made([2, 8], 8, 1, [3, 1], has_overlap=False, updates_by_bucket=False)[0] == 13


def test_half_rate_during_the_backward_pass():
    """Bucket 0 starts at 2; 3 s of the 5 s are done at 8, so it ends at 10; bucket 1 at 11."""
    assert made([2, 8], 8, 0, [5, 1], overlap=0.5, updates_by_bucket=False)[0] == 11


def test_half_rate_and_an_early_end():
    """Bucket 0 takes 4 s from 2 to 6 at half the rate; bucket 1 has 1 s left at 8."""
    assert made([2, 4], 8, 0, [2, 2], overlap=0.5, updates_by_bucket=False)[0] == 9


def test_no_progress_during_the_backward_pass_is_no_overlap():
    step = made([2, 8], 8, 1, [3, 1], overlap=0.0, updates_by_bucket=False)
    assert step[0] == 13
