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

    @property
    def waiting_seconds(self):
        """Mean over the ranks."""
        return float(np.mean(self.waiting))

    @property
    def transfer_seconds(self):
        """Mean over the ranks."""
        return float(np.mean(self.transfer))


def split_of(run, window, scale):
    """Returns the split of the timed steps, multiplied by `scale`; None if the run lacks the starts
    of its steps or the offsets of the clocks in the timed epoch."""
    rows = np.flatnonzero(run.epoch_numbers == window.epoch)
    if len(rows) == 0 or len(run.bucket_bytes) == 0 or any(c not in run.epochs for c in CLOCKS):
        return None
    offsets, errors = (np.asarray(run.epochs[name][rows[0]], dtype=float) for name in CLOCKS)
    of_epoch = np.flatnonzero(run.epoch == window.epoch)
    origin = metrics.common_start(run.step_start[of_epoch], offsets)
    if not (np.all(np.isfinite(origin)) and np.all(np.isfinite(errors))):
        return None
    waiting, transfer, last = np.zeros((3, run.rank_count))
    for steps, start, end in blocks(window.steps, run.bucket_start, run.bucket_end):
        begin = origin[np.searchsorted(of_epoch, steps), :, None]
        of_step = metrics.transfer_seconds(begin + start, begin + end)
        busy = metrics.busy_seconds(begin + start, begin + end)
        waiting += np.maximum(0, busy - of_step).sum(axis=0)  # negative by rounding
        transfer += of_step.sum(axis=0)
        last += np.bincount((begin + start).argmax(axis=1).ravel(), minlength=len(last))
    return Split(tuple(scale * waiting), tuple(scale * transfer),
                 tuple(last / last.sum()), float(np.sort(errors.max(axis=1))[-2:].sum()))


def median_split(splits):
    """Returns the medians over repeated runs for each rank; None if one of them is unknown."""
    if None in splits:
        return None

    def median(name):
        return tuple(np.median([getattr(split, name) for split in splits], axis=0))

    return Split(median("waiting"), median("transfer"), median("last_share"),
                 max(split.clock_error for split in splits))


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
