# SPDX-License-Identifier: BSD-3-Clause
"""The table of the quantities that the run file stores per epoch and rank."""

from lockstep_report.runfile.schema import QUANTITIES
from lockstep_report.tables.point_table import PLACE, point_table
from lockstep_report.tables.table import Column, Note, scaled


def measurement_table(points):
    return point_table(
        points,
        "measurements",
        "Measurements per rank",
        [
            *PLACE,
            *(
                Column(
                    q.name,
                    q.header,
                    q.digits,
                    value=lambda p, q=q: scaled(p.measurements.get(q.name), divisor=q.divisor),
                )
                for q in QUANTITIES
            ),
        ],
        [{"point": p} for p in points if p.measurements],
        [
            "maximum over the ranks, in the timed epoch",
            *(Note(f"{q.label}: {q.description}", (q.name,)) for q in QUANTITIES),
        ],
    )
