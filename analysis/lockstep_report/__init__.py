# SPDX-License-Identifier: BSD-3-Clause
"""Tables, figures and data frames from Lockstep run files. The formulas are in docs/analysis.md.

import lockstep_report as lr

run = lr.open("run.h5")        # xarray: run["steps"]["phase_seconds"].max("rank")
steps = lr.steps("runs")       # pandas: one row per run, step and rank
runs = lr.runs("runs")         # pandas: one row per run
"""

__version__ = "0.2.0"


def open(path):  # of a run file, as in xarray; the module uses no other `open`
    """Returns the run file `path` as an `xarray.DataTree`, or as a dict of datasets
    (`data_tree.open_tree`)."""
    from lockstep_report.runfile.data_tree import open_tree

    return open_tree(path)


def steps(runs, ranks=None):
    """Returns a pandas `DataFrame` with one row per run, step and rank, sorted in this order.

    `runs`: the path of a run file or of a folder with run files, or a list of such paths; the parts
    of a run are joined. `ranks`: the ranks to read [all]. Columns: `run`, `ranks`, `step` (from 1),
    `epoch`, `is_timed` (whether the reports use the step), `rank`, `host`, `images`, `loss`,
    `learning_rate`, the seconds of each phase (`forward_seconds`, ...), `rank_seconds` (their sum),
    `step_seconds` (the time of the step as in the reports), and, if recorded, `start_seconds`,
    `sent_bytes`, `received_bytes`. Values of a step are equal in the rows of its ranks.
    """
    from lockstep_report.tables import frames

    def blocks(run):
        return frames.step_blocks(
            run, ranks=None if ranks is None else [r for r in ranks if r < run.rank_count]
        )

    return data_frame(block for run in load(runs) if run.has_steps for block in blocks(run))


def runs(runs):
    """Returns a pandas `DataFrame` with one row per run: identity, ranks, epoch time, images per
    second, and every option as a column `option_*`. `runs`: as for `steps`."""
    from lockstep_report.tables import frames

    return data_frame([frames.run_table(load(runs))])


def load(paths):
    """Returns the runs at one path or several paths, with their parts joined. Warns about files
    that cannot be read; raises `ReportError` if none can."""
    import warnings
    from os import PathLike

    from lockstep_report.runfile.input_files import load_runs, run_files

    given = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    skipped = []
    runs = load_runs(run_files(given), skipped).runs
    if skipped and not runs:
        raise skipped[0]
    for error in skipped:
        warnings.warn(str(error), stacklevel=3)
    return runs


def data_frame(parts):
    from lockstep_report.errors import require_module

    pandas = require_module("pandas", "lockstep_report.steps")
    made = [pandas.DataFrame(part) for part in parts]
    return pandas.concat(made, ignore_index=True) if made else pandas.DataFrame()
