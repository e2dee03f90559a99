# SPDX-License-Identifier: BSD-3-Clause
"""Decides whether values may be called different. docs/analysis.md ("Differences") states the rules."""

import math
from dataclasses import dataclass

import numpy as np

from lockstep_report.measure.inference import student_quantile

RUN_SPREAD = 0.05  # standard deviation of a run, as a share, that is assumed for a single run
NORMAL_QUANTILE = 1.96
ONE_RUN = "this compares one run with one run, which does not show how much runs differ: repeat both"


def excludes(interval, value):
    """Whether an interval, which has `low` and `high` or is None, excludes a value."""
    return interval is not None and interval.low is not None and (not interval.low <= value <= interval.high)


def are_apart(a, b):
    """Whether two intervals do not overlap; None if one is unknown."""
    if None in (a, b) or None in (a.low, b.low):
        return None
    return a.high < b.low or b.high < a.low


@dataclass(frozen=True)
class Difference:
    """The difference of the means of two groups of runs, with half of its 95 % interval."""

    value: float
    half: float
    is_assumed: bool  # the spread of the runs, because a group is one run

    @property
    def is_shown(self):
        return abs(self.value) > self.half


def assumed_difference(*repeats):
    """Returns half of the 95 % interval of a ratio, as a share, if runs vary by RUN_SPREAD. `repeats`: the
    number of runs of each side."""
    return NORMAL_QUANTILE * RUN_SPREAD * math.sqrt(sum(1 / count for count in repeats))


def difference(a, b):
    """Returns the `Difference` of the values of runs `b` less those of runs `a`, by Welch's test. A
    single run is assumed to vary by RUN_SPREAD."""
    a, b = (np.asarray(values, dtype=float) for values in (a, b))
    is_assumed = min(len(a), len(b)) < 2
    variances = [(RUN_SPREAD * values.mean())**2 if len(values) < 2 else values.var(ddof=1) / len(values)
                 for values in (a, b)]
    quantile, total = NORMAL_QUANTILE, sum(variances)
    if not is_assumed and total > 0:
        dof = total**2 / sum(v**2 / (len(values) - 1) for v, values in zip(variances, (a, b)))
        quantile = student_quantile(max(1, math.floor(dof)))
    return Difference(float(b.mean() - a.mean()), quantile * math.sqrt(total), is_assumed)
