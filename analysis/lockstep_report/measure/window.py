# SPDX-License-Identifier: BSD-3-Clause
"""The timed window, the steps from which the reported times of a run are computed, and their times.
docs/analysis.md states the rule.

A step takes from its start to the start of the next one, on the clock of the rank that takes
longest for all steps. The sum of the maxima over the ranks would count the jitter of every rank: a
rank that is late in one step makes the others wait only once.
"""

import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.measure import metrics
from lockstep_report.runfile.stored import BlockSum, block_slices, opened

WARM_UP_FRACTION = 0.1


@dataclass(frozen=True)
class Window:
    """The timed steps, and the size of the complete epoch, over all ranks, to which their times are
    scaled."""

    steps: np.ndarray  # indices into the steps of the run
    epoch: int  # epoch of the timed steps, from 1
    epoch_steps: int
    epoch_images: int
    rule: str  # how the steps were selected, as text
    is_extrapolated: bool  # the run has no complete epoch


class ChosenSteps(NamedTuple):
    """The timed steps, before the size of the epoch is known."""

    steps: np.ndarray  # indices into the steps of the run
    epoch: int
    rule: str  # how the steps were selected, as text
    is_complete: bool  # whether the epoch has all its steps


def timed_window(run):
    """Returns the timed window of a run, which must have steps."""
    if "timed_window" not in run.known:
        size, images = run.integer("steps_per_epoch"), run.integer("images_per_epoch")
        chosen = choose_steps(run.epoch, run.step, run.starts_part, size)
        run.known["timed_window"] = Window(
            chosen.steps, chosen.epoch, size, images, chosen.rule, not chosen.is_complete
        )
    return run.known["timed_window"]


def choose_steps(epoch, step, starts_part, steps_per_epoch):
    """Returns the `ChosenSteps`. `epoch`: epoch of each step; `step`: its number in the run;
    `starts_part`: whether it is the first step of a process."""
    complete = complete_epochs(epoch, steps_per_epoch)
    warm = warm_epochs(epoch, starts_part, steps_per_epoch)
    if warm:
        steps = np.flatnonzero(epoch == warm[0])
        return ChosenSteps(steps, warm[0], f"epoch {warm[0]}, all {len(steps)} steps", True)
    if complete:
        steps, number = np.flatnonzero(epoch == complete[0]), complete[0]
    else:
        steps = longest_sequence(epoch, step, starts_part)
        number = int(epoch[steps[0]])
    kept, processes = without_start_up(steps, starts_part)
    if complete:
        which = start_up_text(len(steps) - len(kept), steps_per_epoch, processes)
        rule = f"epoch {number} without its {which} (start-up; no complete epoch follows)"
    else:
        rule = (
            f"scaled from {len(kept)} of {steps_per_epoch} steps of epoch {number} "
            "(no complete epoch was recorded)"
        )
    return ChosenSteps(kept, number, rule, bool(complete))


def start_up_text(count, steps_per_epoch, processes):
    """Returns a text about the steps that are left out."""
    if processes == 1:
        return f"first {count} of {steps_per_epoch} steps"
    return f"first steps of {processes} processes, {count} of {steps_per_epoch} steps"


def complete_epochs(epoch, steps_per_epoch):
    """Returns the ascending numbers of the epochs that have all their steps. `epoch`: epoch of each
    step."""
    numbers, counts = np.unique(epoch, return_counts=True)
    return numbers[counts == steps_per_epoch].tolist()


def warm_epochs(epoch, starts_part, steps_per_epoch):
    """Returns the `complete_epochs` in which no process started."""
    started = set(epoch[starts_part].tolist())
    return [number for number in complete_epochs(epoch, steps_per_epoch) if number not in started]


def without_start_up(steps, starts_part):
    """Returns the indices `steps` without the first steps of each process, and the number of
    processes. The process that made the first of these steps loses its `warm_up_steps`, at least
    one; so do the processes that started among them."""
    starts = 1 + np.flatnonzero(starts_part[steps[1:]])
    first, *later = np.split(steps, starts)
    skipped = max(1, warm_up_steps(len(first)))
    skipped = min(skipped, len(first) - 1)  # at least one step remains
    kept = [first[skipped:], *(own[warm_up_steps(len(own)) :] for own in later)]
    return np.concatenate(kept), len(kept)


def warm_up_steps(count):
    """Returns ceil(10 %) of a number of steps: those that a process needs to become fast."""
    return math.ceil(WARM_UP_FRACTION * count)


def longest_sequence(epoch, step, starts_part):
    """Returns the indices of the first longest sequence of consecutive steps of one epoch in one
    process."""
    breaks = (np.diff(epoch) != 0) | (np.diff(step) != 1) | starts_part[1:]
    return max(np.split(np.arange(len(epoch)), np.flatnonzero(breaks) + 1), key=len)


def batch_per_rank(run):
    """Returns the batch per rank from the options; if they lack it, from the step with the most
    images. The stages of a pipeline share the batch of their replica, so the batch per rank times
    the number of ranks is the global batch.
    """
    given = run.number("batch-per-rank")
    if given:
        stages = run.stage_count
        return given // stages if given % stages == 0 else round(given / stages, 2)
    whole = run.number("global-batch")
    if whole:
        return whole // run.rank_count
    return int(round(run.images.max() / run.rank_count))


def step_seconds(run, steps):
    """Returns (step): the times of the steps with the ascending indices `steps`, on the rank with
    the largest sum. The last step of an epoch or of a process takes the sum of its phases, as does
    a step without recorded starts.
    """
    return timed_seconds(run, steps)[0]


def all_step_seconds(run):
    """Returns (step): the times of all steps, each as `step_seconds` of the timed window or of its
    epoch."""
    found, is_timed = np.zeros(len(run.step)), np.zeros(len(run.step), dtype=int)
    if run.has_steps:
        is_timed[timed_window(run).steps] = 1
    groups = 2 * run.epoch + is_timed
    with open_times(run) as source:
        for group in np.unique(groups):
            steps = np.flatnonzero(groups == group)
            found[steps] = step_seconds(source, steps)
    return found


@contextmanager
def open_times(run):
    """Gives the run with the file of the times of its steps open, which is faster for several
    groups of steps."""
    with opened(run.phase_seconds) as phases, opened(run.step_start) as starts:
        yield replace(run, phase_seconds=phases, step_start=starts)


def timed_seconds(run, steps):
    """Returns the times of `steps` as `step_seconds`, the same without `data_wait` (step), and the
    sums over the steps of each phase (rank, phase)."""
    if len(steps) == 0:
        return np.zeros(0), np.zeros(0), np.zeros((run.rank_count, len(run.phases)))
    key = ("timed_seconds", steps.tobytes())
    if key not in run.known:
        run.known[key] = read_timed_seconds(run, steps)
    return run.known[key]


def read_timed_seconds(run, steps):
    """Returns `timed_seconds`. Several blocks are read twice: the rank with the largest sum is
    known only after the last one, and the times of all ranks may not fit in memory."""
    kept, sums, phase_sums = [], BlockSum(), BlockSum()
    parts = block_slices(len(steps), run.phase_seconds)
    for phases, seconds in duration_blocks(run, steps, parts):
        sums.add(seconds)
        phase_sums.add(phases)
        kept = [(phases, seconds)] if len(parts) == 1 else []
    slowest = int(np.argmax(sums.total))
    wait = run.phases.index("data_wait")
    if kept:
        of_rank = [(seconds[:, slowest], phases[:, slowest, wait]) for phases, seconds in kept]
    else:
        own = slice(slowest, slowest + 1)
        of_rank = [
            (seconds[:, 0], phases[:, 0, wait].copy())  # a view would keep the block
            for phases, seconds in duration_blocks(run, steps, parts, own)
        ]
    step, waits = map(np.concatenate, zip(*of_rank))
    return step, step - waits, phase_sums.total


def duration_blocks(run, steps, parts, ranks=slice(None)):
    """Yields (phases (step, rank, phase), time from each step to the next (step, rank)) of the
    slices `parts` of `steps` and of `ranks`."""
    with opened(run.phase_seconds) as phases, opened(run.step_start) as starts:
        for part in parts:
            own, with_next = steps[part], steps[part.start : part.stop + 1]
            values, begins = phases[own][:, ranks], starts[with_next][:, ranks]
            yield values, durations(run, with_next, begins, values.sum(axis=2))


def epoch_rate(run, window, step):
    """Returns (seconds of a complete epoch, images per second) from the times `step` (step) of the
    timed steps. Raises `ReportError` (input) if they have times or images from which no rate
    follows."""
    images = run.images[window.steps]
    if images.min() <= 0 or not np.isfinite(step.sum()) or step.sum() <= 0:
        raise ReportError(
            INPUT,
            f"{run.path}: the timed steps have no finite, positive times and "
            "numbers of images; 'lockstep-report validate' lists the problems",
        )
    return float(window.epoch_images / images.sum() * step.sum()), metrics.throughput(images, step)


def durations(run, steps, starts, totals):
    """Returns (step, rank): the time from each step to the next. `starts` (step, rank): the starts
    of `steps`; `totals` (step, rank): the sums of the phases of `steps`, or of all but the last
    one."""
    first, second = steps[:-1], steps[1:]
    follows = (
        (second == first + 1) & (run.epoch[first] == run.epoch[second]) & ~run.starts_part[second]
    )
    between = np.diff(starts, axis=0)
    is_known = follows[:, None] & np.isfinite(between) & (between > 0)
    known = np.where(is_known, between, totals[: len(between)])
    return np.concatenate([known, totals[len(between) :]])
