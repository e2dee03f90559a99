# SPDX-License-Identifier: BSD-3-Clause
"""Export to Parquet with pandas: one file per table."""

import io
from importlib.util import find_spec

from lockstep_report.errors import USAGE, ReportError, require
from lockstep_report.tables import frames

ENGINES = ("pyarrow", "fastparquet")  # of pandas


def write(folder, runs, selection):
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
