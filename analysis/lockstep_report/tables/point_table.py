# SPDX-License-Identifier: BSD-3-Clause
"""Tables whose rows are points: their first columns, and the notes about the validity of the points."""

from lockstep_report.measure import validity
from lockstep_report.runfile.settings import describe_setting, setting_names
from lockstep_report.tables.table import Column, Table, interval_columns

INDEPENDENT_NOTE = ('"independent replicas, no communication" (reducer none): every rank trains its own network; '
                    "this is the baseline for the cost of communication")
ONE_JOB = ("rows with one run: another job may differ by more than the digits show and than its steps vary; "
           "repeat the run at least 6 times for an interval")
PLACE = [Column("setting", "Setting"), Column("batch_per_rank", "Batch per rank"), Column("ranks", "Ranks"),
         Column("mode", "Mode")]
EPOCH_ENDS = ("epoch_low", "epoch_high")
EPOCH = interval_columns(Column("epoch_seconds", "Epoch (s)", 2), *EPOCH_ENDS, " (s)")


def place(point, points):
    """Returns the values of the columns PLACE of a row, its point, and its epoch time."""
    interval = point.epoch_interval
    return {"setting": setting_names(p.setting for p in points)[point.setting] or None,
            "batch_per_rank": point.batch_per_rank or None, "ranks": point.ranks,
            "mode": point.mode, "point": point, "epoch_seconds": point.epoch_seconds,
            "epoch_low": interval and interval.low, "epoch_high": interval and interval.high}


def point_table(points, name, title, columns, rows, notes):
    """Returns a table with the validity notes of the points: letters in a column, and their texts below the table."""
    table = Table(name, title, columns, rows, notes)
    shown = [row["point"] for row in table.rows]
    letters = validity.letters(points)
    for row, point in zip(table.rows, shown):
        row["notes"] = ", ".join(letters[note] for note in point.notes) or None
        row["validity"] = "; ".join(point.notes) or None
    table.columns += [Column("notes", "Notes"), Column("validity", "Validity", csv_only=True)]
    if any(p.is_independent for p in shown):
        table.notes.append(INDEPENDENT_NOTE)
    if any(p.repeats == 1 and p.phase_seconds for p in shown):
        table.notes.append(ONE_JOB)
    for setting in dict.fromkeys(p.setting for p in shown):
        text = describe_setting([p for p in shown if p.setting == setting])
        table.notes.append(f"setting: {text}")
    if len({p.setting for p in shown}) > 1:
        table.notes.append("rows are compared only within one setting")
    table.notes += [f"({letters[note]}) {note}" for note in letters
                    if any(note in p.notes for p in shown)]
    return table
