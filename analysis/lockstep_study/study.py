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
    """`name`: of the table, or of the grid; `title`: how messages call it; `text`: the table that
    is stored with the results, which is that of the user if it is a .tsv."""

    name: str
    title: str
    points: list
    directory: Path
    text: str


def read_study(options):
    """Returns the study of the options TABLE, --grid and --dir."""
    table, axes = options.table, options.grid
    if axes and table:
        raise StudyError("a table and --grid were both given; give one of them")
    if axes:
        name, title, points = GRID, "--grid", grid_points(axes)
        check_number(title, points)
    else:
        name = re.sub(r"\.(tsv|csv)$", "", os.path.basename(table))
        title, points = table, read_table(table)
    text = as_table(points)
    if table.endswith(".tsv"):
        text = Path(table).read_text(encoding="utf-8", errors="replace")
    directory = Path(os.path.realpath(options.dir or f"results/{name}"))
    return Study(name, title, points, directory, text)
