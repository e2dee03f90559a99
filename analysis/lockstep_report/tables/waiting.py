# SPDX-License-Identifier: BSD-3-Clause
"""The table of waiting and transfer in the all-reduces."""

import numpy as np

from lockstep_report.tables.point_table import PLACE, point_table
from lockstep_report.tables.table import Column, Note, bounded_columns

COLUMNS = (
    *PLACE,
    Column("allreduce_seconds", "All-reduce (s)", 3, value=lambda p: p.split.all_reduce_seconds),
    Column(
        "waiting_seconds",
        "Waiting for the last rank (s)",
        3,
        value=lambda p: p.split.waiting_seconds,
    ),
    Column(
        "waiting_percent",
        "Waiting, of the all-reduce (%)",
        1,
        value=lambda p: waiting_percent(p.split),
    ),
    *bounded_columns("transfer_seconds", "Transfer (s)", 3, lambda p: p.split.transfer_bounds),
    Column(
        "longest_waiting",
        "Longest waiting (s)",
        3,
        value=lambda p: float(max(p.split.waiting)),
    ),
    Column(
        "longest_waiting_rank",
        "Rank that waits longest",
        value=lambda p: int(np.argmax(p.split.waiting)),
    ),
    Column(
        "last_rank", "Rank that starts last", value=lambda p: int(np.argmax(p.split.last_share))
    ),
    Column(
        "last_percent", "Starts last (%)", 1, value=lambda p: 100 * float(max(p.split.last_share))
    ),
    Column("clock_error_us", "Clock error (µs)", 1, value=lambda p: 1e6 * p.split.clock_error),
    Column(
        "uncertain_seconds",
        "Uncertain by the clock error (s)",
        3,
        value=lambda p: p.split.mean("uncertain") if p.split.clock_error else None,
    ),
)
DEFINITION_NOTE = (
    "seconds per epoch, mean over the ranks; waiting: the rank has started a bucket that another "
    "rank has not started; transfer: all ranks have started it; waiting + transfer (at most) = "
    "all-reduce"
)
RANKS_NOTE = (
    "longest waiting: of the rank that waited most; last rank: the rank that started the most "
    "buckets last, and the share of the buckets that it started last"
)
CLOCK_NOTE = Note(
    "clock error: bound on the error of a difference between the clocks of two ranks; 0 "
    "on the CPUs of one host. Waiting and transfer are uncertain by this error for each "
    "bucket of each step; the bounds of the transfer contain it",
    ("clock_error_us",),
)


def waiting_percent(split):
    total = split.all_reduce_seconds
    return 100 * split.waiting_seconds / total if total else None


def waiting_table(points):
    shown = [p for p in points if p.split]
    return point_table(
        points,
        "waiting-transfer",
        "Waiting and transfer in the all-reduce",
        COLUMNS,
        [{"point": p} for p in shown],
        [
            DEFINITION_NOTE,
            *range_notes(p.split.transfer_bounds for p in shown),
            RANKS_NOTE,
            CLOCK_NOTE,
        ],
    )


def range_notes(transfers):
    """Yields the notes about the transfers (`Bounds`) that have no value."""
    found = [t for t in transfers if t.value is None]
    if any(t.low is not None for t in found):
        yield (
            "a range: a CPU advances an all-reduce only in calls, between which it computes. The"
            " transfer takes at least the time in calls, without waiting, and at most the time from"
            " the start on the last rank to the end; --reducer allreduce, or the sweep of lockstep"
            " allreduce, measures it without computation"
        )
    if any(t.low is None for t in found):
        yield (
            "without lower bound of the transfer: the run file lacks the time in calls "
            "(/buckets/call_seconds) or the clocks of the ranks; the time in which an all-reduce "
            "was in progress contains computation and, without clocks, waiting for slower ranks"
        )
