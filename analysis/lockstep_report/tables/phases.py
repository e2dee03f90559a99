# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the phases of an epoch, and of the quantities that the run file stores per epoch and rank."""

from lockstep_report.measure.points import IMBALANCE
from lockstep_report.runfile import schema
from lockstep_report.runfile.quantities import QUANTITIES
from lockstep_report.tables.point_table import EPOCH_ENDS, PLACE, place, point_table
from lockstep_report.tables.table import Column, Note

PHASES = (*schema.PHASES, IMBALANCE)
NAMES = {"data_wait": "Data wait", "exposed_communication": "Exposed communication"}


def phase_name(phase):
    return NAMES.get(phase, phase.capitalize())


def phase_table(points):
    rows = [place(p, points) | p.phase_seconds for p in points if p.phase_seconds]
    return point_table(
        points, "phases", "Phases of an epoch",
        [*PLACE, *(Column(phase, f"{phase_name(phase)} (s)", 2) for phase in PHASES),
         Column("epoch_seconds", "Epoch (s)", 2, interval=EPOCH_ENDS)],
        rows,
        ["seconds per epoch, means over the ranks; imbalance: the epoch on the slowest rank "
         "less the means; the sum is the epoch (of a single run; medians over runs need not add up)"])


def measurement_table(points):
    rows = [place(p, points) | {q.name: p.measurements[q.name] / q.divisor
                                for q in QUANTITIES if q.name in p.measurements}
            for p in points if p.measurements]
    return point_table(
        points, "measurements", "Measurements per rank",
        [*PLACE, *(Column(q.name, q.header, q.digits) for q in QUANTITIES)], rows,
        ["maximum over the ranks, in the timed epoch",
         *(Note(f"{q.label}: {q.description}", (q.name,)) for q in QUANTITIES)])
