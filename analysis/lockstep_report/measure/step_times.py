# SPDX-License-Identifier: BSD-3-Clause
"""The times of steps on the clock of the rank that takes longest for all of them.

A step takes from its start to the start of the next one. The sum of the maxima over the ranks would
count the jitter of every rank: a rank that is late in one step makes the others wait only once.
"""

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.measure import metrics
from lockstep_report.measure.window import timed_window

WAIT = "data_wait"


def step_seconds(run, steps):
    """Returns (step): the times of the steps with the ascending indices `steps`, on the rank with the largest sum.
    The last step of an epoch or of a process takes the sum of its phases, as does a step without recorded starts."""
    return timed_seconds(run, steps)[0]


def all_step_seconds(run):
    """Returns (step): the times of all steps, each as `step_seconds` of its epoch; those of the timed window are the
    same as in the tables."""
    found, is_timed = np.zeros(len(run.step)), np.zeros(len(run.step), dtype=int)
    if run.has_steps:
        is_timed[timed_window(run).steps] = 1
    for group in np.unique(2 * run.epoch + is_timed):
        steps = np.flatnonzero(2 * run.epoch + is_timed == group)
        found[steps] = step_seconds(run, steps)
    return found


def timed_seconds(run, steps):
    """Returns the times of `steps` as `step_seconds`, the same without `data_wait` (step), and the
    sums over the steps of each phase (rank, phase)."""
    if len(steps) == 0:
        return np.zeros(0), np.zeros(0), np.zeros((run.rank_count, len(run.phases)))
    phases = run.phase_seconds[steps]
    seconds = durations(run, steps, phases.sum(axis=2))
    slowest = int(np.argmax(seconds.sum(axis=0)))
    step = seconds[:, slowest]
    return step, step - phases[:, slowest, run.phases.index(WAIT)], phases.sum(axis=0)


def epoch_rate(run, window, step):
    """Returns (seconds of a complete epoch, images per second) from the times `step` (step) of the timed steps. Raises
    `ReportError` (input) if they have times or images from which no rate follows."""
    images = run.images[window.steps]
    if images.min() <= 0 or not np.isfinite(step.sum()) or step.sum() <= 0:
        raise ReportError(INPUT, f"{run.path}: the timed steps have no finite, positive times and "
                                 "numbers of images; 'lockstep-report validate' lists the problems")
    return float(window.size.images / images.sum() * step.sum()), metrics.throughput(images, step)


def durations(run, steps, totals):
    """Returns (step, rank): the time from the start of each step to that of the next. `totals`
    (step, rank): the sums of the phases."""
    first, second = steps[:-1], steps[1:]
    follows = (second == first + 1) & (run.epoch[first] == run.epoch[second]) & ~run.starts_part[second]
    between = np.diff(run.step_start[steps], axis=0)
    is_known = follows[:, None] & np.isfinite(between) & (between > 0)
    return np.concatenate([np.where(is_known, between, totals[:-1]), totals[-1:]])
