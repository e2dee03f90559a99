# SPDX-License-Identifier: BSD-3-Clause
"""The tables of weak and strong scaling."""

from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.measure.comparison import (
    base_of,
    independent_of,
    strong_base_of,
    weak_efficiency,
)
from lockstep_report.measure.inference import assumed_difference
from lockstep_report.runfile.settings import setting_names
from lockstep_report.tables.point_table import EPOCH, PLACE, point_table
from lockstep_report.tables.speedups import (
    EXPOSED,
    GLOBAL_BATCH,
    IMAGE_RATE,
    SPEEDUP_ENDS,
    SPEEDUP_NOTE,
    speedups,
)
from lockstep_report.tables.table import (
    Column,
    Note,
    interval_columns,
)

KARP_FLATT = Column(
    "karp_flatt", "Karp-Flatt fraction", 4, interval=("karp_flatt_low", "karp_flatt_high")
)
KARP_FLATT_NOTE = Note(
    "Karp-Flatt fraction: (1/S − 1/N) / (1 − 1/N) with S = T(1)/T(N); constant over N: serial part;"
    " growing with N: overhead; without an interval of the speedup, its digits are those for a"
    " standard deviation of 5 % between runs",
    ("karp_flatt",),
)


def serial_fraction(base, point):
    """Returns the Karp-Flatt fraction with its ends, from those of the speedup or from the spread
    that is assumed for runs without an interval; nothing without a base or communication."""
    if base is None or base is point or point.is_independent:
        return {}
    speedup, low, high, _ = speedups(base, point).values()
    if low is None:
        share = assumed_difference(base.repeats, point.repeats)
        low, high = speedup * (1 - share), speedup * (1 + share)
    return {
        name: metrics.karp_flatt(value, point.ranks)
        for name, value in (
            ("karp_flatt", speedup),
            ("karp_flatt_low", high),
            ("karp_flatt_high", low),
        )
    }


def weak_table(points):
    rows = []
    for p in (p for p in points if p.step_median is not None):
        base = base_of(p, points)
        rows.append(
            {"point": p, "efficiency": weak_efficiency(base, p), **serial_fraction(base, p)}
        )
    return point_table(
        points,
        "weak-scaling",
        "Weak scaling: fixed batch per rank",
        [
            *PLACE,
            *EPOCH,
            Column("steps", "Steps per epoch"),
            *interval_columns(
                Column("step_ms", "Median step (ms)", 2, value=lambda p: 1e3 * p.step_median),
                "step_low_ms",
                "step_high_ms",
                " (ms)",
                lambda p: p.step_interval,
                1e3,
            ),
            IMAGE_RATE,
            Column("efficiency", "Weak efficiency t(1)/t(N)", 2),
            Column(
                "efficiency_independent",
                "Efficiency against independent replicas",
                2,
                value=lambda p: weak_efficiency(independent_of(p, points), p),
            ),
            EXPOSED,
            KARP_FLATT,
        ],
        rows,
        [
            (
                "t is the mean step (seconds summed over steps) on the rank that takes longest for"
                " all timed steps"
            ),
            Note(
                "the interval of the median step is rank-based, over the steps of one run",
                ("step_low_ms",),
            ),
            Note(
                "the efficiency against the same number of independent replicas at the same batch "
                "per rank excludes the slowdown of ranks that share a host without communicating "
                "(memory bandwidth, clock rate)",
                ("efficiency_independent",),
            ),
            KARP_FLATT_NOTE,
        ],
    )


def strong_table(points):
    pairs = [(base, p) for p in points if (base := strong_base_of(p, points)) is not None]
    groups = grouped(pairs, lambda pair: id(pair[0])).values()
    pairs = [pair for group in groups if len({p.ranks for _, p in group}) > 1 for pair in group]
    names = setting_names(p.setting for p in points)
    rows = [
        {
            "point": p,
            **speedups(base, p),
            **serial_fraction(base, p),
            "efficiency": metrics.strong_efficiency(base.epoch_seconds, p.epoch_seconds, p.ranks),
        }
        for base, p in sorted(
            pairs, key=lambda pair: (names[pair[1].setting], pair[1].global_batch, pair[1].ranks)
        )
    ]
    return point_table(
        points,
        "strong-scaling",
        "Strong scaling: fixed global batch",
        [
            GLOBAL_BATCH,
            *PLACE,
            *EPOCH,
            *interval_columns(Column("speedup", "Speedup T(1)/T(N)", 2), *SPEEDUP_ENDS),
            Column("efficiency", "Efficiency", 2, interval=(*SPEEDUP_ENDS, "speedup")),
            EXPOSED,
            KARP_FLATT,
        ],
        rows,
        [SPEEDUP_NOTE, KARP_FLATT_NOTE],
    )
