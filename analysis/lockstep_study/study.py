# SPDX-License-Identifier: BSD-3-Clause
"""The study of a command line: its points, and the folder of its results."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lockstep_study.errors import StudyError
from lockstep_study.header import grid_points
from lockstep_study.points import as_table
from lockstep_study.table import check_number, read_table

GRID = "grid"


@dataclass
class Study:
    """`name`: of the table, or of the grid; `title`: how messages call it."""

    name: str
    title: str
    points: list
    directory: Path
    table: str = ""  # file, if there is one

    def text(self):
        """Returns the table that is stored with the results: the same text, or its points."""
        if self.table.endswith(".tsv"):
            return Path(self.table).read_text(encoding="utf-8", errors="replace")
        return as_table(self.points)


def read_study(options):
    """Returns the study of the options TABLE, --grid and --dir."""
    table, axes = options.table, options.grid
    if axes and table:
        raise StudyError("a table and --grid were both given; give one of them")
    if axes:
        title, name, points = "--grid", GRID, grid_points(axes)
        check_number(title, points)
    else:
        title, name, points = table, "", read_table(table)
        name = re.sub(r"\.(tsv|csv)$", "", os.path.basename(table))
    directory = Path(os.path.realpath(options.dir or f"results/{name}"))
    return Study(name, title, points, directory, table)
