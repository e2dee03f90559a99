# SPDX-License-Identifier: BSD-3-Clause
"""The timed steps of a training run, read once for all explanations."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lockstep_report.measure.waiting import split_of, times_of
from lockstep_report.measure.window import Window, timed_window
from lockstep_report.runfile.read import Run

MOST_STEPS = 10_000  # enough for all medians and means; bounds the time


@dataclass(frozen=True)
class TimedRun:
    """A synchronous training run on several ranks."""

    run: Run
    window: Window
    phase_seconds: np.ndarray  # (step, rank, phase), timed steps

    @cached_property
    def times(self):
        """The `Times`; None if the clocks of the ranks cannot be compared."""
        return times_of(self.run, self.window)

    @cached_property
    def split(self):
        """The `Split`, sums over the timed steps; None if there are no `times`."""
        return split_of(self.run, self.window, 1.0)

    @property
    def phases(self):
        return self.run.phases


def timed_run(run):
    """Returns the timed steps of a run, at most the first MOST_STEPS; None if it has no steps, one
    rank or independent replicas, or if a time is not finite."""
    if not run.has_steps or run.rank_count < 2 or run.option("reducer") == "none":
        return None
    window = timed_window(run)
    window = replace(window, steps=window.steps[:MOST_STEPS])
    phases = run.phase_seconds[window.steps]
    if not np.all(np.isfinite(phases)) or phases.sum() <= 0:
        return None
    return TimedRun(run, window, phases)
