# SPDX-License-Identifier: BSD-3-Clause
"""The table of the phases of an epoch."""

from lockstep_report.measure.points import IMBALANCE
from lockstep_report.runfile import schema
from lockstep_report.tables.point_table import EPOCH_ENDS, PLACE, point_table
from lockstep_report.tables.table import Column

PHASES = (*schema.PHASES, IMBALANCE)
NAMES = {"data_wait": "Data wait", "exposed_communication": "Exposed communication"}


def phase_name(phase):
    return NAMES.get(phase, phase.capitalize())


def phase_table(points):
    return point_table(
        points,
        "phases",
        "Phases of an epoch",
        [
            *PLACE,
            *(Column(phase, f"{phase_name(phase)} (s)", 2) for phase in PHASES),
            Column("epoch_seconds", "Epoch (s)", 2, interval=EPOCH_ENDS),
        ],
        [{"point": p, **p.phase_seconds} for p in points if p.phase_seconds],
        [
            "seconds per epoch, means over the ranks; imbalance: the epoch on the slowest rank less"
            " the means; the sum is the epoch (of a single run; medians over runs need not add up)"
        ],
    )
