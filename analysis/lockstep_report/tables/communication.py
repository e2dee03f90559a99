# SPDX-License-Identifier: BSD-3-Clause
"""Table 2: compute and communication time, measured and derived."""

from lockstep_report.measure import metrics
from lockstep_report.measure.comparison import base_of
from lockstep_report.measure.points import IMBALANCE
from lockstep_report.measure.speedup import base_seconds
from lockstep_report.tables.point_table import EPOCH, EPOCH_ENDS, PLACE, point_table
from lockstep_report.tables.speedups import EXPOSED
from lockstep_report.tables.table import Column, Note


def exposed_percent(point):
    """Returns the exposed communication in per cent of the epoch; None if it is unknown."""
    exposed = point.exposed_seconds
    return None if exposed is None else 100 * exposed / point.epoch_seconds


COLUMNS = (
    *PLACE,
    EPOCH[0],
    Column("compute", "Compute (s)", 2, value=lambda p: p.compute_seconds),
    EXPOSED,
    Column("exposed_percent", "Exposed (% of the epoch)", 1, value=exposed_percent),
    Column("hidden", "Hidden communication (s)", 2, value=lambda p: p.hidden_seconds),
    Column("data_wait", "Data wait (s)", 2, value=lambda p: phase_seconds(p, "data_wait")),
    Column("imbalance", "Imbalance (s)", 2, value=lambda p: phase_seconds(p, IMBALANCE)),
    Column(
        "derived_communication", "Derived communication T(N) − T(1)/N (s)", 2, interval=EPOCH_ENDS
    ),
    Column("derived_compute", "Derived compute T(1)/N (s)", 2, interval=EPOCH_ENDS),
    Column(
        "allreduce",
        "All-reduce in progress (s)",
        2,
        csv_only=True,
        value=lambda p: p.allreduce_seconds,
    ),
)
MEASURED_NOTE = (
    "measured, unless derived: means over the ranks; compute = upload + forward + backward + update"
)
HIDDEN_NOTE = Note(
    "hidden: transfer during the backward pass, which would be exposed if the all-reduces started "
    "after it; computation between the calls of an all-reduce does not count. On CPUs it is the "
    "time in these calls, which lengthens the backward pass; transfer by other ranks or the kernel "
    "in between is not measured",
    ("hidden",),
)
IN_PROGRESS_NOTE = Note(
    "all-reduce: at least one bucket was in progress; contains waiting and, on CPUs, "
    "computation between the calls of an all-reduce (table 3)",
    ("allreduce",),
)
UNKNOWN_NOTE = (
    "hidden communication is unknown in rows whose run file lacks the time in calls "
    "(/buckets/call_seconds) or the clocks of the ranks"
)
SUM_NOTE = (
    "compute + exposed + data wait + imbalance (the epoch less the mean of the phases) = epoch "
    "(of a single run; medians over runs need not add up)"
)
DERIVED_NOTE = Note(
    "derived: compute = T(1)/N, communication = T(N) − T(1)/N; everything that "
    "does not shrink with N is counted as communication there",
    ("derived_compute", "derived_communication"),
)
NEGATIVE_NOTE = (
    "a negative derived communication means that N ranks were more than N times as fast as one"
)
NOT_DERIVED = {"derived_compute": None, "derived_communication": None}


def phase_seconds(point, phase):
    return (point.phase_seconds or {}).get(phase)


def derived_values(point, points):
    """Returns the derived compute and communication of a row, for the same number of images;
    nothing without a base case."""
    base = base_of(point, points)
    if base is None or point.ranks == 1:
        return {}
    compute, communication = metrics.derived_split(
        base_seconds(base, point), point.epoch_seconds, point.ranks
    )
    return {"derived_compute": compute, "derived_communication": communication}


def split_table(points):
    rows = [{"point": p, **NOT_DERIVED, **derived_values(p, points)} for p in points]
    is_measured = any(p.phase_seconds is not None for p in points)
    is_unknown = any(p.allreduce_seconds and p.hidden_seconds is None for p in points)
    is_negative = any((row["derived_communication"] or 0) < 0 for row in rows)
    return point_table(
        points,
        "table-2-compute-communication",
        "Table 2: compute and communication per epoch",
        COLUMNS,
        rows,
        [
            is_measured and MEASURED_NOTE,
            HIDDEN_NOTE,
            IN_PROGRESS_NOTE,
            is_unknown and UNKNOWN_NOTE,
            is_measured and SUM_NOTE,
            DERIVED_NOTE,
            is_negative and NEGATIVE_NOTE,
        ],
    )
