# SPDX-License-Identifier: BSD-3-Clause
"""A table structure that can be written as Markdown, CSV, LaTeX and JSON. In JSON, numbers are
numbers; unknown values, and quantities whose bounds do not agree, are null;
docs/report-reference.md
describes the output of each command.
"""

import csv
import io
import json
import math
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path

import numpy as np

from lockstep_report.escaping import csv_cell, markdown_escape
from lockstep_report.measure.digits import number_text, supported_digits
from lockstep_report.measure.fitting import Estimate
from lockstep_report.measure.metrics import Bounds
from lockstep_report.tables.kinds import TableKind
from lockstep_report.tables.latex import latex

MISSING = "–"
CSV_ONLY = "csv_only"  # key of a row; True: the row is not printed


@dataclass(frozen=True)
class Column:
    """A column. `key`: name in CSV, with the unit; `header`: name elsewhere; `digits`: number of
    digits after the decimal point."""

    key: str
    header: str
    digits: int = None  # None: not rounded
    csv_only: bool = False  # not printed: too long for a cell, or seldom of interest
    # Keys of the ends of the interval that limits the digits, and of the value that it is about, if
    # that is another one, to which the value is proportional.
    interval: tuple = ()
    mark: str = None  # key of the letters of notes that are printed behind the value
    # Function of the item of a row [its attribute of the name `key`], see `rows_of`.
    value: object = None
    # The key of the upper end of an interval whose lower end is this column, and the header of the
    # one printed column with both.
    upper: str = ""
    range_header: str = ""

    @property
    def printed_header(self):
        return self.range_header or self.header


@dataclass(frozen=True)
class Note:
    """A footnote about some columns. It is printed only if one of them has a value."""

    text: str
    columns: tuple  # keys of the columns


@dataclass
class Table:
    """A table. `name` is the file name without suffix. Rows are dicts by column key; None is a
    missing value, and `Bounds` are printed as one number if they have a value, otherwise as a
    range. Rows with a true `CSV_ONLY` are not printed. A note is a string or a `Note`; others
    (None, False) are omitted. `extra`: keys of rows that are not columns, such as `point`, the item
    of the row. Raises `ValueError` for other unknown keys of a row, an interval or a note."""

    name: str
    title: str
    columns: list
    rows: list
    notes: list = field(default_factory=list)
    extra: tuple = ()
    kind: TableKind = None  # that of its entry in the registry

    def __post_init__(self):
        self.notes = list(filter(None, self.notes))
        self._require_known_keys()
        for row in self.rows:
            for key, value in list(row.items()):
                if isinstance(value, Bounds):
                    row |= {f"{key}_low": value.low, f"{key}_high": value.high}

    def _require_known_keys(self):
        known = {CSV_ONLY, *self.extra, *(column.key for column in self.columns)}
        used = {
            *(key for row in self.rows for key in row),
            *(key for column in self.columns for key in column.interval),
            *(column.mark for column in self.columns if column.mark),
            *(key for note in self.notes if isinstance(note, Note) for key in note.columns),
        }
        if not used <= known:
            unknown = ", ".join(sorted(used - known))
            raise ValueError(f"table {self.name}: no column has the key {unknown}")

    @property
    def printed_rows(self):
        return [row for row in self.rows if not row.get(CSV_ONLY)]

    def without_empty_columns(self):
        """Returns the columns to print: those that have a value in at least one printed row."""
        rows = self.printed_rows
        return [
            c
            for c in self.columns
            if not c.csv_only and any(row.get(c.key) is not None for row in rows)
        ]

    def texts(self):
        """Returns the printed texts (row, column): first the headers."""
        columns = self.without_empty_columns()
        of_key = {c.key: c for c in self.columns}
        headers = [c.printed_header for c in columns]
        return [headers, *zip(*(self._column_texts(c, of_key) for c in columns))]

    def _column_texts(self, column, of_key):
        """Returns the printed texts of a column; ranges if it is the lower end of an interval."""
        rows = self.printed_rows
        texts = cell_texts(column, rows)
        if not column.upper:
            return texts
        return map(range_text, texts, cell_texts(of_key[column.upper], rows))

    def alignment(self, text, number):
        """Returns one of both arguments for each printed column: whether it has texts."""
        rows = self.printed_rows
        return [
            text if any(isinstance(row.get(c.key), str) for row in rows) else number
            for c in self.without_empty_columns()
        ]

    @property
    def footnotes(self):
        """Texts of the notes, without those about columns that are not printed."""
        shown = {column.key for column in self.without_empty_columns()}
        return [
            getattr(note, "text", note)
            for note in self.notes
            if not isinstance(note, Note) or shown & set(note.columns)
        ]


def rows_of(columns, items):
    """Returns one row per item, with the values of the columns. Raises `AttributeError` if a column
    without a function has a key that is not an attribute of the item."""
    return [
        {
            column.key: column.value(item) if column.value else getattr(item, column.key)
            for column in columns
        }
        for item in items
    ]


def item_table(name, title, columns, items, notes=()):
    """Returns a table with one row per item, all of whose values the columns compute."""
    return Table(name, title, columns, rows_of(columns, items), notes)


def interval_columns(column, low, high, unit="", interval=None, scale=1):
    """Returns a column and those of the ends of its 95 % interval, whose width limits the digits of
    all three. Printed tables have one column with both ends. `interval`: function of the item of a
    row that returns the interval, or the estimate with the value of `column`, or None. Its numbers
    are multiplied by `scale`."""

    def part(name):
        return interval and (lambda item: scaled(getattr(interval(item), name, None), scale))

    ends = (low, high)
    return [
        replace(column, interval=ends, value=column.value or part("value")),
        Column(
            low,
            f"95 % from{unit}",
            column.digits,
            interval=ends,
            value=part("low"),
            upper=high,
            range_header=f"95 % interval{unit}",
        ),
        Column(high, f"to{unit}", column.digits, csv_only=True, interval=ends, value=part("high")),
    ]


def scaled(value, factor=1, divisor=1):
    return None if value is None else factor * value / divisor


def percent(share):
    return scaled(share, 100)


def bounded_columns(key, header, digits, value=None):
    """Returns the column of a `Bounds`, and the columns of its two bounds in the CSV, whose values
    `Table` adds."""
    return [
        Column(key, header, digits, value=value),
        *(
            Column(f"{key}_{end}", f"{header}, {text}", digits, csv_only=True, value=unset)
            for end, text in (("low", "at least"), ("high", "at most"))
        ),
    ]


def unset(_):
    """Returns None: the value of a column that is set later."""
    return None


def bounds_text(bounds, text):
    """Returns a quantity as `text(number)`, or as a range if its bounds do not agree."""
    if bounds.value is not None:
        return text(bounds.value)
    if bounds.low is None:
        return f"at most {text(bounds.high)}"
    if bounds.high is None:
        return f"at least {text(bounds.low)}"
    return f"{text(bounds.low)} to {text(bounds.high)}"


def cell_texts(column, rows):
    """Returns the formatted values of a column, with thousands separators if an integer has five
    digits or more."""
    values = [row.get(column.key) for row in rows]
    separator = "," if any(isinstance(v, Integral) and abs(v) >= 10000 for v in values) else ""
    return [
        MISSING
        if v is None
        else cell_text(v, digits_of(column, row), separator) + mark(column, row)
        for v, row in zip(values, rows)
    ]


def mark(column, row):
    """Returns the letters of the notes that restrict a cell, in parentheses; "" without one."""
    letters = row.get(column.mark) if column.mark else None
    return f" ({letters})" if letters else ""


def range_text(low, high):
    """Returns "1.73 to 1.97"; `MISSING` if both ends are."""
    return MISSING if low == high == MISSING else f"{low} to {high}"


def digits_of(column, row):
    """Returns the number of digits of a cell: at most those of the column, and at most two digits
    of the width of the interval; negative if digits before the point are rounded."""
    if not column.interval:
        return column.digits
    low, high, *of = (row.get(key) for key in column.interval)
    if low is None or high is None:
        return column.digits
    width = high - low
    if of:
        width *= abs(row[column.key] / of[0]) if of[0] else 0
    return supported_digits(width, column.digits)


def cell_text(value, digits, separator):
    if isinstance(value, Bounds):
        return bounds_text(value, lambda number: cell_text(number, digits, separator))
    if isinstance(value, str) or (digits is None and not isinstance(value, Integral)):
        return str(value)
    if digits is None:
        return f"{value:{separator}}"
    return number_text(value, digits)


def markdown(table):
    """Returns the title, the printed rows, if any, and the notes."""
    lines = [f"### {markdown_escape(table.title)}"]
    if table.printed_rows:
        header, *rows = (
            "| " + " | ".join(map(markdown_escape, texts)) + " |" for texts in table.texts()
        )
        align = "|".join(table.alignment("---", "---:"))
        lines += ["", header, f"|{align}|", *rows]
    if table.footnotes:
        lines += ["", *(f"- {markdown_escape(note)}" for note in table.footnotes)]
    return "\n".join(lines) + "\n"


def csv_text(table):
    """Returns the table as CSV with all columns; floats have up to nine significant digits."""
    keys = [column.key for column in table.columns]
    return csv_of([keys, *([raw(row.get(key)) for key in keys] for row in table.rows)])


def csv_of(rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def raw(value):
    if isinstance(value, Bounds):
        value = value.value
    if value is None:
        return ""
    if isinstance(value, str):
        return csv_cell(value)
    return f"{value:.9g}" if isinstance(value, float) else str(value)


RENDERERS = {"md": markdown, "csv": csv_text, "tex": latex}


def typed(value):
    """Returns the value with the types of JSON. NaN and infinite numbers are null."""
    if isinstance(value, (np.ndarray, np.generic)):
        return typed(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Bounds):
        return typed(value.value)
    if isinstance(value, Estimate):
        value = {
            "value": value.value,
            "interval": [value.low, value.high] if value.has_interval else None,
            "note": value.note or None,
        }
    if isinstance(value, dict):
        return {str(key): typed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [typed(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def json_text(value, indent=2):
    """Returns the value as JSON; without line breaks if `indent` is None."""
    return json.dumps(typed(value), indent=indent, allow_nan=False)


def table_values(table):
    """Returns a table: its rows by column key, without rounding; missing values are null."""
    return {
        "name": table.name,
        "title": table.title,
        "columns": [{"key": column.key, "header": column.header} for column in table.columns],
        "rows": [
            {column.key: row.get(column.key) for column in table.columns} for row in table.rows
        ],
        "notes": table.footnotes,
    }


def files_values(folder, **others):
    """Returns the paths of the files that were written to an `output.Folder`, and `others`."""
    return {"files": [str(path) for path in folder.written], **others}
