# SPDX-License-Identifier: BSD-3-Clause
"""Export to CSV, and with pandas to Parquet: one file per table."""

import csv
import io
from importlib.util import find_spec

from lockstep_report.errors import USAGE, ReportError, require
from lockstep_report.escaping import csv_cell
from lockstep_report.tables import frames

ENGINES = ("pyarrow", "fastparquet")  # of pandas


def write_csv(folder, runs, selection):
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


def write_parquet(folder, runs, selection):
    pandas = require("pandas", "export to Parquet")
    if not any(map(find_spec, ENGINES)):
        raise ReportError(USAGE, "export to Parquet needs pyarrow or fastparquet, which Debian 12 does "
                                 "not have: pip install pyarrow, or export to CSV")
    for name, columns, parts in frames.all_tables(runs, selection.steps_of, selection.ranks_of):
        frame = pandas.concat([pandas.DataFrame(part) for part in parts], ignore_index=True)
        content = io.BytesIO()
        close, content.close = content.close, lambda: None  # fastparquet closes its file
        frame[columns].to_parquet(content, index=False)
        folder.write(f"{name}.parquet", content.getvalue(), folder.kinds[0])
        close()
