"""The timed steps of a training run, read once for all explanations."""

from dataclasses import dataclass

import numpy as np

from lockstep_report.read import Run
from lockstep_report.waiting import Times, times_of
from lockstep_report.window import Window, timed_window


@dataclass(frozen=True)
class TimedRun:
    """A synchronous training run on several ranks."""

    run: Run
    window: Window
    phase_seconds: np.ndarray  # (step, rank, phase), timed steps
    times: Times  # None if the clocks of the ranks cannot be compared

    @property
    def phases(self):
        return self.run.phases


def timed_run(run):
    """Returns the timed steps of a run; None if it has no steps, one rank or independent
    replicas."""
    if not run.has_steps or run.rank_count < 2 or run.option("reducer") == "none":
        return None
    window = timed_window(run)
    return TimedRun(run, window, run.phase_seconds[window.steps], times_of(run, window))
