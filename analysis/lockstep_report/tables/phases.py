"""The table of the phases of an epoch."""

from lockstep_report.measure.points import IMBALANCE
from lockstep_report.runfile import schema
from lockstep_report.tables.table import Column, Table

PHASES = (*schema.PHASES, IMBALANCE)
NAMES = {"data_wait": "Data wait", "exposed_communication": "Exposed communication"}


def phase_name(phase):
    return NAMES.get(phase, phase.capitalize())


def phase_table(points, row_of, place):
    """Returns the table. `row_of(point)`: the values of the columns `place`, with which each row
    begins."""
    rows = [{**row_of(p), **p.phase_seconds, "epoch_seconds": p.epoch_seconds}
            for p in points if p.phase_seconds]
    return Table(
        "phases", "Phases of an epoch",
        [*place, *(Column(phase, f"{phase_name(phase)} (s)", 2) for phase in PHASES),
         Column("epoch_seconds", "Epoch (s)", 2, interval=("epoch_low", "epoch_high"))],
        rows,
        ["seconds per epoch, means over the ranks; imbalance: the epoch on the slowest rank "
         "less the means; the sum is the epoch (of a single run; medians over runs need not add up)"])
