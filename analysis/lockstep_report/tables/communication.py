# SPDX-License-Identifier: BSD-3-Clause
"""Table 2: compute and communication time, measured and derived."""

from dataclasses import replace

from lockstep_report.measure import metrics
from lockstep_report.measure.comparison import (
    base_of,
)
from lockstep_report.measure.points import IMBALANCE
from lockstep_report.tables.point_table import EPOCH, EPOCH_ENDS, PLACE, point_table
from lockstep_report.tables.speedups import EXPOSED
from lockstep_report.tables.table import (
    Column,
    Note,
)

UNKNOWN_NOTE = (
    "hidden communication is unknown in rows whose run file lacks the time in calls "
    "(/buckets/call_seconds) or the clocks of the ranks"
)


def derived(point, points):
    """Returns the derived (compute, communication); (None, None) without a base case."""
    base = base_of(point, points)
    is_known = base is not None and point.ranks > 1
    return (
        metrics.derived_split(base.epoch_seconds, point.epoch_seconds, point.ranks)
        if is_known
        else (None, None)
    )


def split_table(points):
    rows = [
        {"point": p, **dict(zip(("derived_compute", "derived_communication"), derived(p, points)))}
        for p in points
    ]
    is_measured = any(p.phase_seconds is not None for p in points)
    return point_table(
        points,
        "table-2-compute-communication",
        "Table 2: compute and communication per epoch",
        [
            *PLACE,
            EPOCH[0],
            Column(
                "derived_communication",
                "Derived communication T(N) − T(1)/N (s)",
                2,
                interval=EPOCH_ENDS,
            ),
            replace(EXPOSED, header="Measured exposed communication (s)"),
            Column("compute", "Measured compute (s)", 2, value=lambda p: p.compute_seconds),
            Column(
                "hidden", "Measured hidden communication (s)", 2, value=lambda p: p.hidden_seconds
            ),
            Column(
                "allreduce", "All-reduce in progress (s)", 2, value=lambda p: p.allreduce_seconds
            ),
            Column(
                "data_wait",
                "Data wait (s)",
                2,
                value=lambda p: (p.phase_seconds or {}).get("data_wait"),
            ),
            Column(
                "imbalance",
                "Imbalance (s)",
                2,
                value=lambda p: (p.phase_seconds or {}).get(IMBALANCE),
            ),
            Column("derived_compute", "Derived compute T(1)/N (s)", 2, interval=EPOCH_ENDS),
        ],
        rows,
        [
            is_measured
            and "measured: means over the ranks; compute = upload + forward + backward + update",
            Note(
                "hidden: transfer during the backward pass, which would be exposed if the"
                " all-reduces started after it; computation between the calls of an all-reduce does"
                " not count. On CPUs it is the time in these calls, which lengthens the backward"
                " pass; transfer by other ranks or the kernel in between is not measured",
                ("hidden",),
            ),
            Note(
                "all-reduce: at least one bucket was in progress; contains waiting and, on CPUs, "
                "computation between the calls of an all-reduce (table 3)",
                ("allreduce",),
            ),
            any(p.allreduce_seconds and p.hidden_seconds is None for p in points) and UNKNOWN_NOTE,
            is_measured
            and "compute + exposed + data wait + imbalance (the epoch less the mean of the phases) = epoch (of a single run; medians over runs need not add up)",
            Note(
                "derived: compute = T(1)/N, communication = T(N) − T(1)/N; everything that "
                "does not shrink with N is counted as communication there",
                ("derived_compute", "derived_communication"),
            ),
            any((row["derived_communication"] or 0) < 0 for row in rows)
            and "a negative derived communication means that N ranks were more than N times as fast as one",
        ],
    )
