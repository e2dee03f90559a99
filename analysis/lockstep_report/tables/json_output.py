# SPDX-License-Identifier: BSD-3-Clause
"""Values as JSON: numbers as numbers; unknown values, and quantities whose bounds do not agree, as
null. docs/analysis.md describes the output of each command."""

import json
import math
from pathlib import Path

import numpy as np

from lockstep_report.measure.metrics import Bounds


def typed(value):
    """Returns the value with the types of JSON. NaN and infinite numbers are null."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return typed(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Bounds):
        return typed(value.value)
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
        "name": table.name, "title": table.title,
        "columns": [{"key": column.key, "header": column.header} for column in table.columns],
        "rows": [{column.key: row.get(column.key) for column in table.columns}
                 for row in table.rows],
        "notes": table.footnotes,
    }


def files_values(folder, **others):
    """Returns the paths of the files that were written to an `output.Folder`, and `others`."""
    return {"files": [str(path) for path in folder.written], **others}
