"""The table of the quantities that the run file stores per epoch and rank."""

from lockstep_report.runfile.quantities import QUANTITIES
from lockstep_report.tables.point_table import PLACE, place, point_table
from lockstep_report.tables.table import Column, Note


def measurement_table(points):
    rows = [place(p, points) | {q.name: p.measurements[q.name] / q.divisor
                                for q in QUANTITIES if q.name in p.measurements}
            for p in points if p.measurements]
    return point_table(
        points, "measurements", "Measurements per rank",
        [*PLACE, *(Column(q.name, q.header, q.digits) for q in QUANTITIES)], rows,
        ["maximum over the ranks, in the timed epoch",
         *(Note(f"{q.label}: {q.description}", (q.name,)) for q in QUANTITIES)])
