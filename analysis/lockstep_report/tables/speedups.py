# SPDX-License-Identifier: BSD-3-Clause
"""The speedup of a point against its base case as values of a row, with the columns and notes that
tables share."""

from lockstep_report.measure import metrics
from lockstep_report.measure.speedup import assumed_ends, speedup_of
from lockstep_report.tables.point_table import EPOCH_ENDS
from lockstep_report.tables.table import Column, Note, interval_columns

SPEEDUP_ENDS = ("speedup_low", "speedup_high")
SPEEDUP_KEYS = ("speedup", *SPEEDUP_ENDS, "scaled_speedup", "efficiency")
SPEEDUP = tuple(interval_columns(Column("speedup", "Speedup T(1)/T(N)", 2), *SPEEDUP_ENDS))
SPEEDUP_NOTE = Note(
    "interval of a speedup: T(1) low / T(N) high to T(1) high / T(N) low, with the "
    "rank-based intervals of the medians over runs",
    ("speedup_low",),
)
EFFICIENCY = Column(
    "efficiency", "Efficiency T(1)/(N·T(N))", 2, interval=(*SPEEDUP_ENDS, "speedup")
)
KARP_FLATT_KEYS = ("karp_flatt", "karp_flatt_low", "karp_flatt_high")
KARP_FLATT = Column("karp_flatt", "Karp-Flatt fraction", 4, interval=KARP_FLATT_KEYS[1:])
KARP_FLATT_NOTE = Note(
    "Karp-Flatt fraction: (1/S − 1/N) / (1 − 1/N) with S = T(1)/T(N); constant over N: serial part;"
    " growing with N: overhead; without an interval of the speedup, its digits are those for a"
    " standard deviation of 5 % between runs",
    ("karp_flatt",),
)
GLOBAL_BATCH = Column("global_batch", "Global batch", value=lambda p: p.global_batch or None)
IMAGE_RATE = Column("images_per_second", "Images/s", 1, interval=(*EPOCH_ENDS, "epoch_seconds"))
EXPOSED = Column("exposed", "Exposed communication (s)", 2, value=lambda p: p.exposed_seconds)


def speedup_values(base, point):
    """Returns the values of a row that compare a point with its base case; None without one."""
    found = speedup_of(base, point)
    if found is None:
        return dict.fromkeys(SPEEDUP_KEYS)
    return {
        "speedup": found.value,
        "speedup_low": found.low,
        "speedup_high": found.high,
        "scaled_speedup": found.scaled,
        "efficiency": found.efficiency,
    }


def serial_fraction(base, point):
    """Returns the Karp-Flatt fraction with its ends, from those of the speedup or from the spread
    that is assumed for runs without an interval; None without a base or communication."""
    if base is None or base is point or point.is_independent:
        return dict.fromkeys(KARP_FLATT_KEYS)
    speedup = speedup_of(base, point)
    low, high = assumed_ends(base, point, speedup)
    return {
        "karp_flatt": metrics.karp_flatt(speedup.value, point.ranks),
        "karp_flatt_low": metrics.karp_flatt(high, point.ranks),
        "karp_flatt_high": metrics.karp_flatt(low, point.ranks),
    }


def efficiency_against(base, point):
    """Returns the efficiency of a point against a base case, or against independent replicas; None
    without one."""
    found = speedup_of(base, point)
    return found and found.efficiency
