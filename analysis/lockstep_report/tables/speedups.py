# SPDX-License-Identifier: BSD-3-Clause
"""The speedup of a point against its base case, with the columns and notes that tables share."""

from lockstep_report.measure import metrics
from lockstep_report.tables.point_table import EPOCH_ENDS
from lockstep_report.tables.table import (
    Column,
    Note,
)

SPEEDUP_ENDS = ("speedup_low", "speedup_high")
SPEEDUP_NOTE = Note(
    "interval of a speedup: T(1) from / T(N) to, and T(1) to / T(N) from, with the "
    "rank-based intervals of the medians over runs",
    ("speedup_low",),
)
GLOBAL_BATCH = Column("global_batch", "Global batch", value=lambda p: p.global_batch or None)
IMAGE_RATE = Column("images_per_second", "Images/s", 1, interval=(*EPOCH_ENDS, "epoch_seconds"))
EXPOSED = Column("exposed", "Exposed communication (s)", 2, value=lambda p: p.exposed_seconds)


def speedups(base, point):
    """Returns the values of a row that compare a point with its base case; nothing without one."""
    if base is None:
        return {}
    low, high = (
        (None, None)
        if base is point
        else metrics.ratio_interval(base.epoch_interval, point.epoch_interval)
    )
    return {
        "speedup": metrics.speedup(base.epoch_seconds, point.epoch_seconds),
        "speedup_low": low,
        "speedup_high": high,
        "scaled_speedup": metrics.scaled_speedup(
            base.epoch_seconds, point.epoch_seconds, point.ranks
        ),
    }
