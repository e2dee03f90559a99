# SPDX-License-Identifier: BSD-3-Clause
"""Reads the points of a study from a table, which has one of two forms.

- Without a header, each row has three columns: name, ranks, and a command with its options.
- With a header, each column is `name`, `ranks`, `command`, `options` or an option of lockstep. A
  column NAME=VALUE has the same value in all rows, and no cells, or empty ones if tabs or commas
  separate the columns. A cell `-` or an empty one omits the option, `yes` gives it without a value.
  Without `name`, the values that differ are the name.

Columns are separated by tabs or blanks; in a file NAME.csv, by commas or semicolons. Empty rows
and those that start with # are ignored, and so is what spreadsheets add: a byte-order mark, line
endings of Windows, quotation marks around a cell, tabs at the end.
"""

import csv
import re
from dataclasses import dataclass

from lockstep_study.errors import StudyError
from lockstep_study.header import Header, is_header
from lockstep_study.points import MOST_POINTS, make_point
from lockstep_study.table_text import read_text, refuse_characters

NO_TABLE = "the table is missing, e.g. jobs/studies/weak.tsv, or --grid; see --help"
COLUMNS = (
    "the columns, separated by tabs or blanks, are name, ranks, and a command such as: train"
    " --batch-per-rank 32; or the first row names the columns: ranks, batch-per-rank, ..."
)
HEADER = "the first row names the columns: ranks, options such as batch-per-rank, epochs=2"


@dataclass(frozen=True)
class Row:
    """A row of a table. `line`: its number, from 1. `cells` are None until the form is known."""

    line: int
    text: str
    cells: list


def read_table(path):
    """Returns the points of the table with this name. Raises StudyError if a row is invalid."""
    if not path:
        raise StudyError(NO_TABLE)
    text = read_text(path)
    rows = csv_rows(text) if path.lower().endswith(".csv") else tab_rows(text)
    if not rows:
        raise StudyError(f"{path} has no points")
    if is_header(words_of(rows[0])):
        points = points_under_header(path, rows)
    else:
        points = [point_of(path, row, three_columns) for row in rows[: MOST_POINTS + 1]]
    check_number(path, points)
    return points


def check_number(path, points):
    """Raises StudyError if there are no points, too many of them, or two with one name."""
    if not points:
        raise StudyError(f"{path} has no points")
    if len(points) > MOST_POINTS:
        raise StudyError(f"{path} has more than {MOST_POINTS} points")
    names = set()
    for point in points:
        if point.name in names:
            raise StudyError(
                f"{path}: two points are named '{point.name}', so their results would have the same"
                " file names; rename one of them"
            )
        names.add(point.name)


def tab_rows(text):
    """Returns the rows of a table whose columns are separated by tabs or blanks."""
    lines = re.sub(r"\r\n?", "\n", text).split("\n")
    rows = []
    for number, line in enumerate(lines, 1):
        line = re.sub(r'(^|\t)"([^"\t]*)"', r"\1\2", line).strip(" ").rstrip(" \t")
        if line and not line.lstrip(" \t").startswith("#"):
            rows.append(Row(number, line, None))
    return rows


def csv_rows(text):
    """Returns the rows of a table whose columns are separated by commas or semicolons."""
    lines = re.sub(r"\r\n?", "\n", text).split("\n")
    first = next((line for line in lines if line.strip() and line.lstrip('" ')[:1] != "#"), "")
    delimiter = ";" if first.count(";") > first.count(",") else ","
    rows = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
        while cells and not cells[-1]:
            cells.pop()
        if cells and not cells[0].startswith("#"):
            rows.append(Row(number, " ".join(cells), cells))
    return rows


def words_of(row):
    return row.cells or row.text.split()


def three_columns(row):
    """Returns the point of a row without a header."""
    cells = row.cells or re.split(r"[ \t]+", row.text.strip(" \t"), maxsplit=2)
    refuse_characters(" ".join(cells))
    name, ranks, command = (*cells, "", "")[:3]
    if len(cells) > 3:
        raise StudyError(f"it has {len(cells)} columns instead of three")
    return make_point(name, ranks, command.split())


def points_under_header(path, rows):
    """Returns the points of a table with a header."""
    head, *body = rows
    separator = r"[ \t]+"
    if "\t" in head.text:
        separator = r"\t"
    has_all_cells = head.cells is not None or separator == r"\t"
    header = point_of(path, head, lambda row: Header(split(row, separator), has_all_cells), HEADER)
    rows_of_cells = [
        point_of(path, row, lambda row: header.row(split(row, separator)), HEADER)
        for row in body[: MOST_POINTS + 1]
    ]
    try:
        return header.points(rows_of_cells)
    except StudyError as error:
        raise StudyError(f"{path}: {error}; give the points names in a column name") from None


def split(row, separator):
    """Returns the cells of a row of a table with a header."""
    refuse_characters(row.text.replace("\t", " "))
    return row.cells or [cell.strip() for cell in re.split(separator, row.text)]


def point_of(path, row, read, advice=COLUMNS):
    """Returns `read(row)`; its errors name the row."""
    try:
        return read(row)
    except StudyError as error:
        raise StudyError(f"{path}, line {row.line}: {error}; {advice}") from None
