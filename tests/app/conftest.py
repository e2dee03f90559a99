# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of several files."""

import math
import time

import pytest

pytest.register_assert_rewrite("command_line", "interrupted_runs")


@pytest.fixture(scope="module")
def limit():
    """A watchdog limit that a run without errors does not reach: twice its total duration in
    seconds, at least 3."""
    from command_line import start_ranks, train  # after register_assert_rewrite

    begin = time.monotonic()
    assert start_ranks((2, train())).returncode == 0
    return max(3, math.ceil(2 * (time.monotonic() - begin)))
