# SPDX-License-Identifier: BSD-3-Clause
"""Points whose columns are options: tables with a header, and grids of the command line."""

import itertools
import re

from lockstep_study.errors import StudyError
from lockstep_study.points import make_point, refuse_given
from lockstep_study.table_text import refuse_characters

NAME = "name"
RANKS = "ranks"
COMMAND = "command"
OPTIONS = "options"
COLUMN = re.compile(r"[a-z][a-z0-9-]*")
ABSENT = ("", "-")
FLAG = "yes"


def is_header(cells):
    """Returns whether the cells of the first row are names of columns."""
    names = [cell.partition("=")[0] for cell in cells]
    return RANKS in names and all(COLUMN.fullmatch(name) for name in names)


class Header:
    """The columns of a table: `names`, and `constants` for those with the same value in all rows.
    `has_all_cells`: whether these have a cell in each row, as in tables of spreadsheets."""

    def __init__(self, cells, has_all_cells=False):
        self.has_all_cells = has_all_cells
        parts = [cell.partition("=") for cell in cells]
        self.names = [name for name, _, _ in parts]
        self.constants = {name: value for name, equals, value in parts if equals}
        for name in self.names:
            if not name:
                raise StudyError("a column has no name")
            if not COLUMN.fullmatch(name):
                raise StudyError(f"the column '{name}' is not the name of an option")
            refuse_given(f"--{name}")
            if self.names.count(name) > 1:
                raise StudyError(f"two columns are named '{name}'")
        if RANKS not in self.names:
            raise StudyError("there is no column ranks")

    def row(self, cells):
        """Returns {column: value} of a row."""
        columns = self.names
        if not self.has_all_cells:
            columns = [name for name in self.names if name not in self.constants]
        if len(cells) > len(columns):
            raise StudyError(f"it has {len(cells)} cells for {len(columns)} columns")
        values = dict(zip(columns, cells + [""] * (len(columns) - len(cells))))
        for name, value in self.constants.items():
            if values.get(name, "") not in ("", value):
                raise StudyError(
                    f"the cell '{values[name]}' is in the column {name}={value}, whose cells are"
                    " empty"
                )
        row = {name: self.constants.get(name, values.get(name, "")) for name in self.names}
        self.point(row.get(NAME, "unnamed"), row)  # reports errors of this row
        return row

    def points(self, rows):
        """Returns the points of the rows. Without the column `name`, the values that differ between
        the rows are the name."""
        if NAME in self.names:
            return [self.point(row[NAME], row) for row in rows]
        differing = [name for name in self.names if len({row[name] for row in rows}) > 1]
        order = sorted(differing, key=lambda name: name == RANKS)  # the ranks are last
        return [self.point(name_of(row, order), row) for row in rows]

    def point(self, name, row):
        words = (row.get(COMMAND) or "train").split()
        for column in self.names:
            value = row[column]
            if column == OPTIONS and value not in ABSENT:
                words += value.split()
            elif column not in (NAME, RANKS, COMMAND, OPTIONS) and value not in ABSENT:
                if " " in value:
                    raise StudyError(f"the value of {column}, '{value}', contains a blank")
                words += [f"--{column}"] if value == FLAG else [f"--{column}", value]
        return make_point(name, row[RANKS], words)


def name_of(row, columns):
    """Returns a name for a row from its values in these columns."""
    parts = [part_of_name(column, row[column]) for column in columns]
    return "-".join(part for part in parts if part) or "point"


def part_of_name(column, value):
    if value in ABSENT:
        return ""
    value = re.sub(r"[^A-Za-z0-9._-]", "_", value)
    if column == RANKS:
        return f"n{value}"
    if column == COMMAND:
        return value
    return column if value == FLAG else f"{column}-{value}"


def grid_points(axes):
    """Returns the points of a grid: every combination of the values of `axes`, texts such as
    ranks=1,2,4. The values of the last one change first."""
    if not any(axis.startswith(f"{RANKS}=") for axis in axes):
        axes = [f"{RANKS}=1", *axes]
    for axis in axes:
        refuse_characters(axis)
        if not re.fullmatch(r"[a-z][a-z0-9-]*=[^,]+(,[^,]+)*", axis):
            raise StudyError(f"--grid '{axis}' is not an option with values, such as ranks=1,2,4")
    header = Header([axis.partition("=")[0] for axis in axes])
    values = [axis.partition("=")[2].split(",") for axis in axes]
    return header.points([header.row(list(cells)) for cells in itertools.product(*values)])
