"""Splits the time of the all-reduces into waiting for the last rank and transfer."""

from dataclasses import dataclass

import numpy as np

from lockstep_report import metrics
from lockstep_report.stored import blocks
from lockstep_report.tables import Column, Note, Table

CLOCKS = ("clock_offset_seconds", "clock_error_seconds")  # columns of /epochs


@dataclass(frozen=True)
class Split:
    """Waiting and transfer of each rank, in seconds per epoch."""

    waiting: tuple  # (rank)
    transfer: tuple  # (rank)
    last_share: tuple  # (rank), share of the all-reduces that this rank started last
    clock_error: float  # bound on the error of the difference of two clocks, in seconds
    exposed_waiting: tuple = None  # (rank), part of the phase exposed_communication
    exposed_transfer: tuple = None  # (rank)

    @property
    def waiting_seconds(self):
        """Mean over the ranks."""
        return float(np.mean(self.waiting))

    @property
    def transfer_seconds(self):
        """Mean over the ranks."""
        return float(np.mean(self.transfer))


@dataclass(frozen=True)
class Times:
    """Times of some steps on the clock of rank 0, in seconds."""

    origin: np.ndarray  # (step, rank), start of the step
    start: np.ndarray  # (step, rank, bucket), start of the all-reduce
    end: np.ndarray  # (step, rank, bucket)
    clock_error: float  # bound on the error of the difference of two clocks


@dataclass(frozen=True)
class CommonClock:
    """The starts of the steps of an epoch on the clock of rank 0."""

    steps: np.ndarray  # (step), ascending
    origin: np.ndarray  # (step, rank), in seconds
    error: float  # bound on the error of the difference of two clocks, in seconds

    def times(self, steps, bucket_start, bucket_end):
        """Returns the times of `steps`, whose all-reduces have these times relative to the starts
        of the steps; None if a time is not finite."""
        if not (np.all(np.isfinite(bucket_start)) and np.all(np.isfinite(bucket_end))):
            return None
        origin = self.origin[np.searchsorted(self.steps, steps)]
        begin = origin[:, :, None]
        return Times(origin, begin + bucket_start, begin + bucket_end, self.error)


def common_clock(run, window):
    """Returns the clock of the timed epoch; None if the run has no buckets, or no clock."""
    return epoch_clock(run, window.epoch) if len(run.bucket_bytes) else None


def epoch_clock(run, epoch):
    """Returns the clock of an epoch; None if the run lacks the starts of its steps or the offsets
    of the clocks in this epoch."""
    rows = np.flatnonzero(run.epoch_numbers == epoch)
    if len(rows) == 0 or any(c not in run.epochs for c in CLOCKS):
        return None
    offsets, errors = (np.asarray(run.epochs[name][rows[0]], dtype=float) for name in CLOCKS)
    of_epoch = np.flatnonzero(run.epoch == epoch)
    origin = metrics.common_start(run.step_start[of_epoch], offsets)
    if not (np.all(np.isfinite(origin)) and np.all(np.isfinite(errors))):
        return None
    return CommonClock(of_epoch, origin, float(np.sort(errors.max(axis=1))[-2:].sum()))


def times_of(run, window):
    """Returns the times of the timed steps; None if they have no common clock or are not finite."""
    clock = common_clock(run, window)
    if clock is None:
        return None
    return clock.times(window.steps, run.bucket_start[window.steps], run.bucket_end[window.steps])


def split_of(run, window, scale):
    """Returns the split of the timed steps, multiplied by `scale`; None if the times of the ranks
    cannot be compared."""
    clock = common_clock(run, window)
    if clock is None:
        return None
    waiting, transfer, exposed_waiting, exposed_transfer, last = np.zeros((5, run.rank_count))
    for steps, start, end, seconds in blocks(window.steps, run.bucket_start, run.bucket_end,
                                             run.phase_seconds):
        times = clock.times(steps, start, end)
        if times is None:
            return None
        of_step = metrics.transfer_seconds(times.start, times.end)
        busy = metrics.busy_seconds(times.start, times.end)
        waiting += np.maximum(0, busy - of_step).sum(axis=0)  # negative by rounding
        transfer += of_step.sum(axis=0)
        for total, part in zip((exposed_waiting, exposed_transfer),
                               exposed_parts(seconds, run.phases, times)):
            total += part.sum(axis=0)
        last += np.bincount(times.start.argmax(axis=1).ravel(), minlength=len(last))
    return Split(tuple(scale * waiting), tuple(scale * transfer), tuple(last / last.sum()),
                 clock.error, tuple(scale * exposed_waiting), tuple(scale * exposed_transfer))


def exposed_parts(phase_seconds, phases, times):
    """Returns (step, rank) twice: the parts of the phase `exposed_communication` in which the rank
    waited for the last rank, and in which a bucket was transferred that all ranks had started. The
    phase is an interval that follows the phases before it; the rest of it is in no all-reduce."""
    index = phases.index("exposed_communication")
    begin = times.origin + phase_seconds[:, :, :index].sum(axis=2)
    end = begin + phase_seconds[:, :, index]

    def inside(start):
        return metrics.busy_seconds(*(np.clip(x, begin[:, :, None], end[:, :, None])
                                      for x in (start, times.end)))

    last = times.start.max(axis=1, keepdims=True)
    transfer = inside(np.minimum(last, times.end))
    return np.maximum(0, inside(times.start) - transfer), transfer


def median_split(splits):
    """Returns the medians over repeated runs for each rank; None if one of them is unknown."""
    if None in splits:
        return None

    def median(name):
        return tuple(np.median([getattr(split, name) for split in splits], axis=0))

    return Split(median("waiting"), median("transfer"), median("last_share"),
                 max(split.clock_error for split in splits),
                 *(None if any(getattr(split, name) is None for split in splits) else median(name)
                   for name in ("exposed_waiting", "exposed_transfer")))


def waiting_table(points, row_of, place):
    """Returns the table of waiting and transfer. `row_of(point)`: the values of the columns
    `place`, with which each row begins."""
    rows = [row_of(point) | values_of(point.split) for point in points if point.split]
    return Table(
        "waiting-transfer", "Waiting and transfer in the all-reduce",
        [*place, Column("allreduce_seconds", "All-reduce (s)", 3),
         Column("waiting_seconds", "Waiting for the last rank (s)", 3),
         Column("waiting_percent", "of the all-reduce (%)", 1),
         Column("transfer_seconds", "Transfer (s)", 3),
         Column("longest_waiting", "Longest waiting (s)", 3),
         Column("longest_waiting_rank", "of rank"),
         Column("last_rank", "Last rank"), Column("last_percent", "last in (%)", 1),
         Column("clock_error_us", "Clock error (µs)", 1)],
        rows,
        ["seconds per epoch, mean over the ranks; waiting: the rank has started a bucket that "
         "another rank has not started; transfer: all ranks have started it; waiting + transfer = "
         "all-reduce",
         "longest waiting: of the rank that waited most; last rank: the rank that started the most "
         "buckets last, and the share of the buckets that it started last",
         Note("clock error: bound on the error of a difference between the clocks of two ranks; 0 "
              "on the CPUs of one host", ("clock_error_us",))])


def values_of(split):
    total = split.waiting_seconds + split.transfer_seconds
    longest, last = int(np.argmax(split.waiting)), int(np.argmax(split.last_share))
    return {
        "allreduce_seconds": total, "waiting_seconds": split.waiting_seconds,
        "waiting_percent": 100 * split.waiting_seconds / total if total else None,
        "transfer_seconds": split.transfer_seconds,
        "longest_waiting": float(split.waiting[longest]), "longest_waiting_rank": longest,
        "last_rank": last, "last_percent": 100 * float(split.last_share[last]),
        "clock_error_us": 1e6 * split.clock_error,
    }
