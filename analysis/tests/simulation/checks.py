# SPDX-License-Identifier: BSD-3-Clause
"""A check of a number or a statement of the report against simulated measurements with known
truth."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import point_of
from lockstep_report.models.explanation import explain
from lockstep_report.runfile.input_files import load_runs

COVERED = (0.90, 0.99)
AT_LEAST = (0.90, 1.0)  # of conservative intervals, such as those of few values
PREDICTED = (0.85, 1.0)
RARELY = (0.0, 0.05)  # false statements
ALWAYS = (0.95, 1.0)  # true statements


@dataclass(frozen=True)
class Check:
    """`simulate(random)` returns whether an interval covers the truth, or whether the report makes
    a statement; None if it gives no interval. The share must be within `bounds`."""

    group: str
    truth: str
    bounds: tuple
    simulate: object
    repeats: int = 200

    @property
    def name(self):
        return f"{self.group}: {self.truth}"

    def run(self):
        """Returns (share, number of the repeats that count)."""
        random = np.random.default_rng([7, *self.name.encode()])
        found = [
            one for one in (self.simulate(random) for _ in range(self.repeats)) if one is not None
        ]
        return (sum(map(bool, found)) / len(found) if found else 0.0), len(found)


def covers(interval, value):
    if interval is None or interval.low is None:
        return None
    return interval.low <= value <= interval.high


def in_folder(function):
    """Calls `function(folder)` with a folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp())
    try:
        return function(folder)
    finally:
        shutil.rmtree(folder)


def explained(paths):
    """Returns the runs of the files, their points and their explanation."""
    runs = load_runs(paths).runs
    points = merge_repeats([point_of(run) for run in runs])
    return SimpleNamespace(points=points, runs=runs, explanation=explain(points, runs))
