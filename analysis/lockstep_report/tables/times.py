# SPDX-License-Identifier: BSD-3-Clause
"""Table 1: time and speedup per epoch at a fixed batch per rank."""

from dataclasses import replace

from lockstep_report.measure.comparison import base_of
from lockstep_report.tables.point_table import EPOCH, EPOCH_ENDS, PLACE, point_table
from lockstep_report.tables.scaling import (
    ONLY_STRONG_NOTE,
    is_only_strong,
    points_of_strong_scaling,
)
from lockstep_report.tables.speedups import (
    GLOBAL_BATCH,
    IMAGE_RATE,
    SPEEDUP,
    SPEEDUP_ENDS,
    SPEEDUP_KEYS,
    SPEEDUP_NOTE,
    speedup_values,
)
from lockstep_report.tables.table import CSV_ONLY, Column, Note

# What answers the question comes first, so that a phone shows the speedup.
FIRST_COLUMNS = (
    *PLACE,
    EPOCH[0],
    *SPEEDUP,
    Column("scaled_speedup", "N·T(1)/T(N)", 2, interval=(*SPEEDUP_ENDS, "speedup")),
    IMAGE_RATE,
    replace(EPOCH[1], range_header="95 % interval of the epoch (s)"),
    EPOCH[2],
)
IMAGES = Column("images", "Images per epoch")
LAST_COLUMNS = (
    replace(GLOBAL_BATCH, csv_only=True),
    Column(
        "training_seconds",
        "Training, without data wait (s)",
        2,
        csv_only=True,
        interval=EPOCH_ENDS,
    ),
    Column("joules_per_image", "J per image", 4),
    Column("runs", "Runs", value=lambda p: p.repeats),
)
TWO_SPEEDUPS_NOTE = Note(
    "epoch speedup at fixed batch per rank: T(1)/T(N) compares the time of the same "
    "epoch; N·T(1)/T(N) also counts that N ranks take N times the batch in each step",
    ("speedup", "scaled_speedup"),
)


def time_columns(points):
    """Returns the columns; the number of images is printed only if it differs."""
    has_equal_images = len({p.images for p in points}) == 1
    return [*FIRST_COLUMNS, replace(IMAGES, csv_only=has_equal_images), *LAST_COLUMNS]


def time_table(points):
    of_strong_scaling = points_of_strong_scaling(points)
    rows = [time_row(p, base_of(p, points), of_strong_scaling) for p in points]
    omits_rows = any(row[CSV_ONLY] for row in rows)
    return point_table(
        points,
        "table-1-time-speedup",
        "Table 1: time and speedup per epoch at fixed batch per rank",
        time_columns(points),
        rows,
        [
            TWO_SPEEDUPS_NOTE,
            SPEEDUP_NOTE,
            without_base_note(rows),
            omits_rows and ONLY_STRONG_NOTE,
        ],
        SPEEDUP_KEYS,
    )


def time_row(point, base, of_strong_scaling):
    return {
        "point": point,
        **speedup_values(base, point),
        CSV_ONLY: is_only_strong(point, base, of_strong_scaling),
    }


def without_base_note(rows):
    """Returns a note that lists the batches without a base case; None if all rows have one."""
    lacking = sorted(
        {
            row["point"].batch_per_rank
            for row in rows
            if row["speedup"] is None and not row[CSV_ONLY]
        }
    )
    if not lacking:
        return None
    batches = ", ".join(str(batch or "unknown") for batch in lacking)
    return f"batch {batches}: no 1-rank run with the same setting and batch per rank, so no speedup"
