# SPDX-License-Identifier: BSD-3-Clause
"""The table of waiting and transfer in the all-reduces."""

import numpy as np

from lockstep_report.tables.point_table import PLACE, place, point_table
from lockstep_report.tables.table import Column, Note, bounded_columns, bounded_values


def waiting_table(points):
    rows = [place(point, points) | values_of(point.split) for point in points if point.split]
    return point_table(
        points, "waiting-transfer", "Waiting and transfer in the all-reduce",
        [*PLACE, Column("allreduce_seconds", "All-reduce (s)", 3),
         Column("waiting_seconds", "Waiting for the last rank (s)", 3),
         Column("waiting_percent", "of the all-reduce (%)", 1),
         *bounded_columns("transfer_seconds", "Transfer (s)", 3),
         Column("longest_waiting", "Longest waiting (s)", 3),
         Column("longest_waiting_rank", "of rank"),
         Column("last_rank", "Last rank"), Column("last_percent", "last in (%)", 1),
         Column("clock_error_us", "Clock error (µs)", 1), Column("uncertain_seconds", "Uncertain by it (s)", 3)],
        rows,
        ["seconds per epoch, mean over the ranks; waiting: the rank has started a bucket that "
         "another rank has not started; transfer: all ranks have started it; waiting + transfer "
         "(at most) = all-reduce",
         *range_notes(row["transfer_seconds"] for row in rows),
         "longest waiting: of the rank that waited most; last rank: the rank that started the most "
         "buckets last, and the share of the buckets that it started last",
         Note("clock error: bound on the error of a difference between the clocks of two ranks; 0 "
              "on the CPUs of one host. Waiting and transfer are uncertain by this error for each "
              "bucket of each step; the bounds of the transfer contain it", ("clock_error_us",))])


def range_notes(transfers):
    """Yields the notes about the transfers (`Bounds` or None) that have no value."""
    found = [t for t in transfers if t is not None and t.value is None]
    if any(t.low is not None for t in found):
        yield ("a range: a CPU advances an all-reduce only in calls, between which it computes. The "
               "transfer takes at least the time in calls, without waiting, and at most the time from "
               "the start on the last rank to the end; --reducer allreduce, or the sweep of lockstep "
               "allreduce, measures it without computation")
    if any(t.low is None for t in found):
        yield ("without lower bound of the transfer: the run file lacks the time in calls "
               "(/buckets/call_seconds) or the clocks of the ranks; the time in which an all-reduce "
               "was in progress contains computation and, without clocks, waiting for slower ranks")


def values_of(split):
    total = split.waiting_seconds + split.transfer_seconds
    longest, last = int(np.argmax(split.waiting)), int(np.argmax(split.last_share))
    return {
        "allreduce_seconds": total, "waiting_seconds": split.waiting_seconds,
        "waiting_percent": 100 * split.waiting_seconds / total if total else None,
        **bounded_values("transfer_seconds", split.transfer_bounds),
        "longest_waiting": float(split.waiting[longest]), "longest_waiting_rank": longest,
        "last_rank": last, "last_percent": 100 * float(split.last_share[last]),
        "clock_error_us": 1e6 * split.clock_error,
        "uncertain_seconds": split.uncertain_seconds if split.clock_error else None,
    }
