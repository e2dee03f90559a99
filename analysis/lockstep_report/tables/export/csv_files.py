# SPDX-License-Identifier: BSD-3-Clause
"""Export to CSV: one file per table."""

import csv
import io

from lockstep_report.escaping import csv_cell
from lockstep_report.tables import frames


def write(folder, runs, selection):
    for name, columns, parts in frames.all_tables(runs, selection.steps_of, selection.ranks_of):
        folder.write(f"{name}.csv", csv_parts(columns, parts), folder.kinds[0])


def csv_parts(columns, parts):
    """Yields the CSV of a table in parts, as bytes. Columns that a part lacks are empty."""
    yield rows_text([columns])
    for table in parts:
        rows = len(next(iter(table.values())))
        yield rows_text(zip(*(cells(table[name]) if name in table else [""] * rows
                              for name in columns)))


def rows_text(rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def cells(values):
    """Returns the values of a column: exact numbers, nothing for NaN, 0 and 1 for truth values, and
    texts that spreadsheets do not evaluate."""
    if values.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in values.tolist()]
    if values.dtype.kind in "OSU":
        return [csv_cell(str(value)) for value in values]
    return (values.astype(int) if values.dtype.kind == "b" else values).tolist()
