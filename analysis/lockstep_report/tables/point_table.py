# SPDX-License-Identifier: BSD-3-Clause
"""Tables whose rows are points: their first columns, and the notes about the validity of the
points."""

from lockstep_report.measure import validity
from lockstep_report.runfile.settings import describe_setting, setting_names
from lockstep_report.tables.table import CSV_ONLY, Column, Table, interval_columns, rows_of

INDEPENDENT_NOTE = (
    '"independent replicas, no communication" (reducer none): every rank trains its own network; '
    "this is the baseline for the cost of communication"
)
ONE_JOB = (
    "rows with one run: another job may differ by more than the digits show and than its steps"
    " vary; repeat the run at least 6 times for an interval"
)
PLACE = [
    Column("setting", "Setting"),
    Column("batch_per_rank", "Batch per rank", value=lambda p: p.batch_per_rank or None),
    Column("ranks", "Ranks"),
    Column("mode", "Mode"),
]
EPOCH_ENDS = ("epoch_low", "epoch_high")
EPOCH = interval_columns(
    Column("epoch_seconds", "Epoch (s)", 2, value=lambda p: p.epoch_seconds),
    *EPOCH_ENDS,
    " (s)",
    lambda p: p.epoch_interval,
)


def point_values(columns, row):
    """Returns the values of the columns that a row lacks, from its point."""
    return rows_of([column for column in columns if column.key not in row], [row["point"]])[0]


def point_table(points, name, title, columns, rows, notes, extra=()):
    """Returns a table of points. Rows have a `point`, from which the columns compute the values
    that a row lacks. `extra`: keys of the rows that are not columns. The validity notes of the
    points are letters in a column, whose texts are below the table."""
    names, letters = setting_names(p.setting for p in points), validity.letters(points)
    columns = [
        *columns,
        Column(
            "notes", "Notes", value=lambda p: ", ".join(letters[note] for note in p.notes) or None
        ),
        Column("validity", "Validity", csv_only=True, value=lambda p: "; ".join(p.notes) or None),
    ]
    rows = [{"setting": names[row["point"].setting] or None, **row} for row in rows]
    rows = [row | point_values([*PLACE, *EPOCH, *columns], row) for row in rows]
    shown = [row["point"] for row in rows if not row.get(CSV_ONLY)]
    settings = dict.fromkeys(p.setting for p in shown)
    return Table(
        name,
        title,
        columns,
        rows,
        [
            *notes,
            any(p.is_independent for p in shown) and INDEPENDENT_NOTE,
            any(p.repeats == 1 and p.phase_seconds for p in shown) and ONE_JOB,
            *(
                f"setting: {describe_setting([p for p in shown if p.setting == setting])}"
                for setting in settings
            ),
            len(settings) > 1 and "rows are compared only within one setting",
            *(
                f"({letter}) {note}"
                for note, letter in letters.items()
                if any(note in p.notes for p in shown)
            ),
        ],
        ("point", *(column.key for column in (*PLACE, *EPOCH)), *extra),
    )
