# SPDX-License-Identifier: BSD-3-Clause
"""The table of the quantities that the run file stores per epoch and rank."""

from lockstep_report.runfile.schema import QUANTITIES
from lockstep_report.tables.point_table import PLACE, point_table
from lockstep_report.tables.table import Column, Note, scaled


def quantity_column(quantity):
    def value(point):
        return scaled(point.measurements.get(quantity.name), divisor=quantity.divisor)

    return Column(quantity.name, quantity.header, quantity.digits, value=value)


COLUMNS = (*PLACE, *map(quantity_column, QUANTITIES))
NOTES = (
    "maximum over the ranks, in the timed epoch",
    *(Note(f"{q.label}: {q.description}", (q.name,)) for q in QUANTITIES),
)


def measurement_table(points):
    return point_table(
        points,
        "measurements",
        "Measurements per rank",
        COLUMNS,
        [{"point": p} for p in points if p.measurements],
        NOTES,
    )
