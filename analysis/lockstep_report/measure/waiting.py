# SPDX-License-Identifier: BSD-3-Clause
"""The timed steps of a training run, and the time of their all-reduces, split into waiting for the
last rank and transfer. docs/analysis.md ("Bounds of the transfer") states the method."""

from dataclasses import dataclass, fields, replace

import numpy as np

from lockstep_report.measure import metrics
from lockstep_report.measure.window import Window, timed_window
from lockstep_report.runfile.input_files import CLOCKS
from lockstep_report.runfile.read import Run
from lockstep_report.runfile.stored import BlockSum, Rows, blocks, chosen_rows, computed_rows

WHOLE = 1 - 1e-6  # share of the time in progress from which all-reduces consist of calls
AGREEMENT = 1.2  # largest ratio of two bounds of a time that count as one value, the upper one
UNCERTAIN = 0.2  # of a time: it is not divided if the error of the clocks is larger
MOST_STEPS = 10_000  # enough for all medians and means; bounds the time
UNKNOWN = (np.nan,)


@dataclass(frozen=True)
class Split:
    """Waiting and transfer of each rank (rank), in seconds per epoch."""

    waiting: np.ndarray
    transfer: np.ndarray  # upper bound
    last_share: np.ndarray  # share of the all-reduces that this rank started last
    clock_error: float  # bound on the error of the difference of two clocks, in seconds
    exposed_waiting: np.ndarray = UNKNOWN  # part of the phase exposed_communication
    exposed_transfer: np.ndarray = UNKNOWN
    hidden: np.ndarray = UNKNOWN  # transfer during the backward pass
    least_transfer: np.ndarray = UNKNOWN  # lower bound of the transfer
    uncertain: np.ndarray = (
        0.0,
    )  # by which waiting and transfer can be wrong: error of the clocks

    def mean(self, name):
        """Returns the mean of a field over the ranks; None if it is unknown."""
        value = float(np.mean(getattr(self, name)))
        return value if np.isfinite(value) else None

    @property
    def waiting_seconds(self):
        return self.mean("waiting")

    @property
    def all_reduce_seconds(self):
        return self.waiting_seconds + self.mean("transfer")

    @property
    def transfer_bounds(self):
        uncertain, least = self.mean("uncertain"), self.mean("least_transfer")
        most = self.mean("transfer") + min(uncertain, self.waiting_seconds)
        if least is None:
            return metrics.Bounds(None, most)
        least = max(0.0, least - uncertain)
        return metrics.Bounds(least, most, most if most <= AGREEMENT * least else None)

    @property
    def divides_exposed(self):
        """Whether the clocks are good enough to divide the exposed communication."""
        exposed = self.mean("exposed_waiting"), self.mean("exposed_transfer")
        return None not in exposed and self.mean("uncertain") <= UNCERTAIN * sum(exposed)


@dataclass(frozen=True)
class Times:
    """Times of some steps on the clock of rank 0, in seconds. `start` and `end` are `Rows` if the
    times of the run are."""

    origin: np.ndarray  # (step, rank), start of the step
    start: np.ndarray  # (step, rank, bucket), start of the all-reduce
    end: np.ndarray  # (step, rank, bucket)
    clock_error: float  # bound on the error of the difference of two clocks

    def blocks(self, *others):
        """Yields (times, block of each of `others`) of consecutive steps; `others`: arrays of the
        same steps."""
        steps = np.arange(len(self.start))
        for part, *found in blocks(steps, self.start, self.end, *others):
            start, end, *of_others = found
            yield Times(self.origin[part], start, end, self.clock_error), *of_others


def common_starts(run, epoch, steps):
    """Returns (step, rank), the starts of `steps` of an epoch on the clock of rank 0, in seconds,
    and the bound on the error of the difference of two clocks. Returns None twice if the run lacks
    the starts of the epoch or the offsets of its clocks.
    """
    rows = np.flatnonzero(run.epoch_numbers == epoch)
    if len(rows) == 0 or any(c not in run.epochs for c in CLOCKS):
        return None, None
    offsets, errors = (np.asarray(run.epochs[name][rows[0]], dtype=float) for name in CLOCKS)
    of_epoch = np.flatnonzero(run.epoch == epoch)
    begin, end = run.step_start[of_epoch[0]], run.step_start[of_epoch[-1]]
    origin = np.empty((len(steps), run.rank_count))
    filled = 0
    for part, starts in blocks(of_epoch, run.step_start):
        common = metrics.common_start(starts, offsets, begin, end)
        if not np.all(np.isfinite(common)):
            return None, None
        own = common[np.isin(part, steps, assume_unique=True)]
        origin[filled : filled + len(own)] = own
        filled += len(own)
    if not np.all(np.isfinite(errors)):
        return None, None
    return origin, float(np.sort(errors.max(axis=1))[-2:].sum())


def times_of(run, window):
    """Returns the times of the timed steps; None if they have no buckets or no common clock, or are
    not finite."""
    if not len(run.bucket_bytes):
        return None
    steps = window.steps
    origin, error = common_starts(run, window.epoch, steps)
    if origin is None or not all_reduce_busy_seconds(run, steps)[1]:
        return None
    return Times(
        origin,
        on_common_clock(run.bucket_start, steps, origin),
        on_common_clock(run.bucket_end, steps, origin),
        error,
    )


def all_reduce_busy_seconds(run, steps):
    """Returns (rank), the time in which at least one bucket was being reduced, the sum over
    `steps`; and whether the times of all buckets are finite."""
    key = ("busy_seconds", steps.tobytes())
    if key not in run.known:
        busy, is_finite = BlockSum(), True
        for _, start, end in blocks(steps, run.bucket_start, run.bucket_end):
            busy.add(metrics.busy_seconds(start, end))
            is_finite = is_finite and bool(np.all(np.isfinite(start) & np.isfinite(end)))
        run.known[key] = busy.total, is_finite
    return run.known[key]


def on_common_clock(array, steps, origin):
    """Returns the rows `steps` of `array` (step, rank, bucket) plus `origin` (step, rank); stored
    if the array is."""

    def times(rows, source):
        return origin[rows][:, :, None] + source[steps[rows]]

    if isinstance(array, Rows):
        return computed_rows(times, (len(steps), *array.shape[1:]), array)
    return times(slice(None), array)


def split_of(run, steps, times, scale):
    """Returns the split of `steps`, whose times are `times`, times `scale`; None without `times`.
    Without the time in calls of the all-reduces, the lower bound of the transfer and the hidden
    transfer are unknown.
    """
    if times is None:
        return None
    key = ("split_of", steps.tobytes())
    if key not in run.known:
        run.known[key] = sums_of_parts(run, steps, times)
    sums, last = run.known[key]
    return Split(
        last_share=last / last.sum(),
        clock_error=times.clock_error,
        **{name: scale * total for name, total in sums.items()},
    )


def sums_of_parts(run, steps, times):
    """Returns {field of `Split`: sum over `steps` (rank)}, and how often each rank started an
    all-reduce last (rank)."""
    sums, last = {}, np.zeros(run.rank_count, dtype=int)
    arrays = [run.phase_seconds, *(() if run.bucket_calls is None else (run.bucket_calls,))]
    for part, phases, *calls in times.blocks(*(chosen_rows(array, steps) for array in arrays)):
        in_calls = calls[0].sum(axis=2) if calls else np.full(phases.shape[:2], np.nan)
        for name, values in parts_of(part, phases, run.phases, in_calls).items():
            sums.setdefault(name, BlockSum()).add(values)
        last += np.bincount(part.start.argmax(axis=1).ravel(), minlength=run.rank_count)
    return {name: sum_of.total for name, sum_of in sums.items()}, last


def parts_of(times, phase_seconds, phases, calls):
    """Returns {field of `Split`: (step, rank)}, seconds of each step. `calls` (step, rank): time in
    calls of the all-reduces; NaN if it is unknown."""
    waiting, transfer = parts_within(times)
    busy = metrics.busy_seconds(times.start, times.end)
    begin, end = exposed_interval(phase_seconds, phases, times)
    exposed_waiting, exposed_transfer = parts_within(times, begin, end)
    _, early_transfer = parts_within(
        times, begin, np.minimum(end, begin.max(axis=1, keepdims=True))
    )
    # The rank waited in its calls for `exposed_waiting`.
    certain = np.clip(calls - exposed_waiting, 0.0, transfer)
    return {
        "waiting": waiting,
        "transfer": transfer,
        "exposed_waiting": exposed_waiting,
        "exposed_transfer": exposed_transfer,
        # While other ranks are in their backward pass, a rank that has ended it may wait for their
        # next call, unless its all-reduces consist of calls.
        "least_transfer": np.maximum(
            0.0, certain - np.where(calls >= WHOLE * busy, 0.0, early_transfer)
        ),
        # It would be exposed if the all-reduces started after the backward pass. Computation
        # between calls does not count.
        "hidden": np.maximum(0.0, certain - exposed_transfer),
        # Each begin of the transfer of a bucket is a time of another rank.
        "uncertain": np.minimum(busy, times.clock_error * times.start.shape[2]),
    }


def exposed_interval(phase_seconds, phases, times):
    """Returns (step, rank) twice: begin and end of the phase `exposed_communication`."""
    index = phases.index("exposed_communication")
    begin, exposed = times.origin.copy(), np.empty(times.origin.shape)
    for rows, values in blocks(np.arange(len(phase_seconds)), phase_seconds):
        begin[rows] += values[:, :, :index].sum(axis=2)
        exposed[rows] = values[:, :, index]
    return begin, begin + exposed


def parts_within(times, begin=-np.inf, end=np.inf):
    """Returns (step, rank) twice: the parts of the times from `begin` to `end`, (step, rank) [all],
    in which the rank waited for the last rank, and in which a bucket was transferred that all ranks
    had started; the rest is in no all-reduce."""
    limits = np.expand_dims(begin, -1), np.expand_dims(end, -1)

    def inside(start):
        return metrics.busy_seconds(*(np.clip(x, *limits) for x in (start, times.end)))

    last = times.start.max(axis=1, keepdims=True)
    transfer = inside(np.minimum(last, times.end))
    return np.maximum(0, inside(times.start) - transfer), transfer  # negative by rounding


def median_split(splits):
    """Returns the medians over repeated runs for each rank; None if one of them is unknown."""
    if None in splits:
        return None
    medians = {
        field.name: np.median([getattr(split, field.name) for split in splits], axis=0)
        for field in fields(Split)
    }
    return Split(**medians | {"clock_error": max(split.clock_error for split in splits)})


@dataclass(frozen=True)
class TimedRun:
    """A synchronous training run on several ranks. `phase_seconds` are `Rows` if those of the run
    are."""

    run: Run
    window: Window
    phase_seconds: np.ndarray  # (step, rank, phase), timed steps
    times: Times  # None if the clocks of the ranks cannot be compared
    split: Split  # sums over the timed steps; None if there are no `times`


def timed_run(run):
    """Returns the timed steps of a run, at most the first MOST_STEPS; None if it has no steps, one
    rank or independent replicas, or if a time is not finite."""
    if not run.has_steps or run.rank_count < 2 or run.option("reducer") == "none":
        return None
    window = timed_window(run)
    window = replace(window, steps=window.steps[:MOST_STEPS])
    total = 0.0
    for _, phases in blocks(window.steps, run.phase_seconds):
        if not np.all(np.isfinite(phases)):
            return None
        total += phases.sum()
    if total <= 0:
        return None
    times = times_of(run, window)
    phases = chosen_rows(run.phase_seconds, window.steps)
    return TimedRun(run, window, phases, times, split_of(run, window.steps, times, 1.0))


def timed_rank_seconds(timed, without=()):
    """Returns (step, rank): the time of the timed steps in all phases except those in `without`."""
    phases, rows = timed.phase_seconds, np.arange(len(timed.phase_seconds))
    return np.concatenate(
        [
            metrics.rank_seconds(values, timed.run.phases, without)
            for _, values in blocks(rows, phases)
        ]
    )
