# SPDX-License-Identifier: BSD-3-Clause
"""The timed steps of a training run, and the time of their all-reduces, split into waiting for the last rank and transfer.
docs/analysis.md ("Bounds of the transfer") states the method."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from lockstep_report.measure import metrics
from lockstep_report.measure.window import Window, timed_window
from lockstep_report.runfile.input_files import CLOCKS
from lockstep_report.runfile.read import Run

WHOLE = 1 - 1e-6  # share of the time in progress from which all-reduces consist of calls
AGREEMENT = 1.2  # largest ratio of two bounds of a time that count as one value, the upper one
UNCERTAIN = 0.2  # of a time: it is not divided if the error of the clocks is larger


@dataclass(frozen=True)
class Split:
    """Waiting and transfer of each rank, in seconds per epoch."""

    waiting: tuple  # (rank)
    transfer: tuple  # (rank), upper bound
    last_share: tuple  # (rank), share of the all-reduces that this rank started last
    clock_error: float  # bound on the error of the difference of two clocks, in seconds
    exposed_waiting: tuple = None  # (rank), part of the phase exposed_communication
    exposed_transfer: tuple = None  # (rank)
    hidden: tuple = None  # (rank), transfer during the backward pass; None if unknown
    least_transfer: tuple = None  # (rank), lower bound of the transfer; None if unknown
    uncertain: tuple = (0.0,)  # (rank), by which waiting and transfer can be wrong: error of the clocks

    @property
    def waiting_seconds(self):
        """Mean over the ranks."""
        return float(np.mean(self.waiting))

    @property
    def transfer_seconds(self):
        """Upper bound, mean over the ranks."""
        return float(np.mean(self.transfer))

    @property
    def transfer_bounds(self):
        most = min(self.transfer_seconds + self.uncertain_seconds, self.transfer_seconds + self.waiting_seconds)
        least = None if self.least_transfer is None else max(
            0.0, float(np.mean(self.least_transfer)) - self.uncertain_seconds)
        return metrics.Bounds(least, most, most if least is not None and most <= AGREEMENT * least else None)

    @property
    def uncertain_seconds(self):
        """Mean over the ranks."""
        return float(np.mean(self.uncertain))

    @property
    def divides_exposed(self):
        """Whether the clocks are good enough to divide the exposed communication."""
        return (self.exposed_waiting is not None and self.uncertain_seconds
                <= UNCERTAIN * float(np.mean(self.exposed_waiting) + np.mean(self.exposed_transfer)))

    @property
    def hidden_seconds(self):
        """Mean over the ranks; None if unknown."""
        return None if self.hidden is None else float(np.mean(self.hidden))


@dataclass(frozen=True)
class Times:
    """Times of some steps on the clock of rank 0, in seconds."""

    origin: np.ndarray  # (step, rank), start of the step
    start: np.ndarray  # (step, rank, bucket), start of the all-reduce
    end: np.ndarray  # (step, rank, bucket)
    clock_error: float  # bound on the error of the difference of two clocks


def common_starts(run, epoch, steps):
    """Returns (step, rank), the starts of `steps` of an epoch on the clock of rank 0, in seconds, and the bound on the error of
    the difference of two clocks. Returns None twice if the run lacks the starts of the epoch or the offsets of its clocks."""
    rows = np.flatnonzero(run.epoch_numbers == epoch)
    if len(rows) == 0 or any(c not in run.epochs for c in CLOCKS):
        return None, None
    offsets, errors = (np.asarray(run.epochs[name][rows[0]], dtype=float) for name in CLOCKS)
    of_epoch = np.flatnonzero(run.epoch == epoch)
    origin = metrics.common_start(run.step_start[of_epoch], offsets)
    if not (np.all(np.isfinite(origin)) and np.all(np.isfinite(errors))):
        return None, None
    return origin[np.searchsorted(of_epoch, steps)], float(np.sort(errors.max(axis=1))[-2:].sum())


def times_of(run, window):
    """Returns the times of the timed steps; None if they have no buckets or no common clock, or are not finite."""
    if not len(run.bucket_bytes):
        return None
    origin, error = common_starts(run, window.epoch, window.steps)
    start, end = run.bucket_start[window.steps], run.bucket_end[window.steps]
    if origin is None or not (np.all(np.isfinite(start)) and np.all(np.isfinite(end))):
        return None
    begin = origin[:, :, None]
    return Times(origin, begin + start, begin + end, error)


def split_of(run, window, scale):
    """Returns the split of the timed steps, times `scale`; None if the times of the ranks cannot be compared."""
    times = times_of(run, window)
    if times is None:
        return None
    parts = parts_of(times, call_seconds(run, window.steps), run.phase_seconds[window.steps], run.phases)
    totals = {name: scale * part.sum(axis=0) for name, part in parts.items()}
    last = np.bincount(times.start.argmax(axis=1).ravel(), minlength=run.rank_count)
    return Split(last_share=tuple(last / last.sum()), clock_error=times.clock_error,
                 **{name: tuple(total) if np.all(np.isfinite(total)) else None
                    for name, total in totals.items()})


def call_seconds(run, steps):
    """Returns (step, rank): the time of the rank in calls of its all-reduces; NaN if unknown."""
    if run.bucket_calls is None:
        return np.full((len(steps), run.rank_count), np.nan)
    return run.bucket_calls[steps].sum(axis=2)


def parts_of(times, calls, phase_seconds, phases):
    """Returns {field of `Split`: (step, rank), in seconds} of the all-reduces with these times. `calls`: as
    `call_seconds`; where they are unknown, the lower bound of the transfer and the hidden transfer are NaN."""
    transfer = metrics.transfer_seconds(times.start, times.end)
    busy = metrics.busy_seconds(times.start, times.end)
    begin, end = exposed_interval(phase_seconds, phases, times)
    exposed_waiting, exposed_transfer = parts_within(begin, end, times)
    early_end = np.minimum(end, begin.max(axis=1, keepdims=True))
    _, early_transfer = parts_within(begin, early_end, times)
    certain = np.clip(calls - exposed_waiting, 0.0, transfer)  # the rank waited in its calls for `exposed_waiting`
    return {
        "waiting": np.maximum(0, busy - transfer),  # negative by rounding
        "transfer": transfer,
        "exposed_waiting": exposed_waiting,
        "exposed_transfer": exposed_transfer,
        # While other ranks are in their backward pass, a rank that has ended it may wait for their next call, unless its
        # all-reduces consist of calls.
        "least_transfer": np.maximum(0.0, certain - np.where(calls >= WHOLE * busy, 0.0, early_transfer)),
        # It would be exposed if the all-reduces started after the backward pass. Computation between calls does not count.
        "hidden": np.maximum(0.0, certain - exposed_transfer),
        # Each begin of the transfer of a bucket is a time of another rank.
        "uncertain": np.minimum(busy, times.clock_error * times.start.shape[2])}


def exposed_interval(phase_seconds, phases, times):
    """Returns (step, rank) twice: begin and end of the phase `exposed_communication`."""
    index = phases.index("exposed_communication")
    begin = times.origin + phase_seconds[:, :, :index].sum(axis=2)
    return begin, begin + phase_seconds[:, :, index]


def parts_within(begin, end, times):
    """Returns (step, rank) twice: the parts of the times from `begin` to `end`, (step, rank), in
    which the rank waited for the last rank, and in which a bucket was transferred that all ranks
    had started; the rest is in no all-reduce."""
    def inside(start):
        return metrics.busy_seconds(*(np.clip(x, begin[:, :, None], end[:, :, None]) for x in (start, times.end)))

    last = times.start.max(axis=1, keepdims=True)
    transfer = inside(np.minimum(last, times.end))
    return np.maximum(0, inside(times.start) - transfer), transfer


def median_split(splits):
    """Returns the medians over repeated runs for each rank; None if one of them is unknown."""
    if None in splits:
        return None

    def median(name):
        values = [getattr(split, name) for split in splits]
        if any(value is None for value in values):
            return None
        return tuple(np.median(values, axis=0))

    names = [field.name for field in fields(Split) if field.name != "clock_error"]
    return Split(clock_error=max(split.clock_error for split in splits), **{name: median(name) for name in names})


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
