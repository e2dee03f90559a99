"""The table of the quantities that the run file stores per epoch and rank."""

from lockstep_report.runfile.quantities import QUANTITIES
from lockstep_report.tables.table import Column, Note, Table


def measurement_table(points, row_of, place):
    """Returns the table of measurements per rank. `row_of(point)`: the values of the columns
    `place`, with which each row begins."""
    rows = [{**row_of(point),
             **{q.name: point.measurements[q.name] / q.divisor
                for q in QUANTITIES if q.name in point.measurements}}
            for point in points if point.measurements]
    return Table(
        "measurements", "Measurements per rank",
        [*place, *(Column(q.name, q.header, q.digits) for q in QUANTITIES)], rows,
        ["maximum over the ranks, in the timed epoch",
         *(Note(f"{q.label}: {q.description}", (q.name,)) for q in QUANTITIES)])
