# SPDX-License-Identifier: BSD-3-Clause
"""The tables of weak and strong scaling."""

from dataclasses import replace

from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import base_of, independent_of, strong_base_of
from lockstep_report.runfile.settings import setting_names
from lockstep_report.tables.point_table import EPOCH, PLACE, point_table
from lockstep_report.tables.speedups import (
    EFFICIENCY,
    EXPOSED,
    GLOBAL_BATCH,
    IMAGE_RATE,
    KARP_FLATT,
    KARP_FLATT_KEYS,
    KARP_FLATT_NOTE,
    SPEEDUP,
    SPEEDUP_KEYS,
    SPEEDUP_NOTE,
    efficiency_against,
    serial_fraction,
    speedup_values,
)
from lockstep_report.tables.table import CSV_ONLY, Column, Note, interval_columns

WEAK_COLUMNS = (
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
    *(replace(column, csv_only=True) for column in SPEEDUP),  # printed in table 1
    EFFICIENCY,
    Column("efficiency_independent", "Efficiency against independent replicas", 2),
    EXPOSED,
    KARP_FLATT,
)
STEP_NOTE = Note(
    "the interval of the median step is rank-based, over the steps of one run", ("step_low_ms",)
)
INDEPENDENT_NOTE = Note(
    "the efficiency against the same number of independent replicas at the same batch "
    "per rank excludes the slowdown of ranks that share a host without communicating "
    "(memory bandwidth, clock rate)",
    ("efficiency_independent",),
)
EFFICIENCY_NOTE = Note(
    "efficiency: speedup / N, with the times of the same number of images", ("efficiency",)
)
ONLY_STRONG_NOTE = (
    "points of strong scaling without a 1-rank run of their batch per rank are in the table of "
    "strong scaling and in the CSV of this one"
)
STRONG_COLUMNS = (GLOBAL_BATCH, *PLACE, *EPOCH, *SPEEDUP, EFFICIENCY, EXPOSED, KARP_FLATT)


def weak_table(points):
    of_strong_scaling = points_of_strong_scaling(points)
    rows = [weak_row(p, points, of_strong_scaling) for p in points if p.step_median is not None]
    return point_table(
        points,
        "weak-scaling",
        "Weak scaling: fixed batch per rank",
        WEAK_COLUMNS,
        rows,
        [
            EFFICIENCY_NOTE,
            STEP_NOTE,
            INDEPENDENT_NOTE,
            KARP_FLATT_NOTE,
            any(row[CSV_ONLY] for row in rows) and ONLY_STRONG_NOTE,
        ],
        (*SPEEDUP_KEYS, *KARP_FLATT_KEYS),
    )


def weak_row(point, points, of_strong_scaling):
    base = base_of(point, points)
    return {
        "point": point,
        **speedup_values(base, point),
        "efficiency_independent": efficiency_against(independent_of(point, points), point),
        **serial_fraction(base, point),
        CSV_ONLY: is_only_strong(point, base, of_strong_scaling),
    }


def points_of_strong_scaling(points):
    return {point for _, point in strong_pairs(points)}


def is_only_strong(point, base, of_strong_scaling):
    """Whether a table at fixed batch per rank has a point only in its CSV: the table of strong
    scaling prints it, and it has no base case at its batch per rank."""
    return base is None and point in of_strong_scaling


def strong_table(points):
    names = setting_names(p.setting for p in points)
    pairs = sorted(
        strong_pairs(points),
        key=lambda pair: (names[pair[1].setting], pair[1].global_batch, pair[1].ranks),
    )
    rows = [
        {"point": p, **speedup_values(base, p), **serial_fraction(base, p)} for base, p in pairs
    ]
    return point_table(
        points,
        "strong-scaling",
        "Strong scaling: fixed global batch",
        STRONG_COLUMNS,
        rows,
        [EFFICIENCY_NOTE, SPEEDUP_NOTE, KARP_FLATT_NOTE],
        (*SPEEDUP_KEYS, *KARP_FLATT_KEYS),
    )


def strong_pairs(points):
    """Returns [(base case, point)] of the base cases at whose global batch several numbers of ranks
    were measured."""
    sized = [p for p in points if p.batch_per_rank and not p.is_independent]
    pairs = [(strong_base_of(p, points), p) for p in sized]
    groups = grouped((pair for pair in pairs if pair[0] is not None), lambda pair: pair[0])
    return [
        pair for group in groups.values() if len({p.ranks for _, p in group}) > 1 for pair in group
    ]
