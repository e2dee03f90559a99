# SPDX-License-Identifier: BSD-3-Clause
"""95 % intervals of medians, of independent values and of series of correlated ones, and
differences between values. docs/analysis.md ("Intervals", "Differences") states the method;
`core/statistics` of the program has the same for its summary.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

CONFIDENCE = 0.95
# With fewer independent values, no pair of order statistics covers the median with 95 %.
MINIMUM_VALUES = 6
RUN_SPREAD = 0.05  # standard deviation of a run, as a share, that is assumed for a single run
NORMAL_QUANTILE = 1.96
ONE_RUN = (
    "this compares one run with one run, which does not show how much runs differ: repeat both"
)


@dataclass(frozen=True)
class Interval:
    """An interval of the median of `count` values, from order statistics."""

    low: float
    high: float
    coverage: float
    count: int


def student_coverage(t, dof):
    """Returns P(|T| <= t) of Student's t with `dof` degrees of freedom (Abramowitz and Stegun,
    26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(dof))
    cosine, sine = math.cos(angle), math.sin(angle)
    total, term = 0.0, (cosine if dof % 2 else 1.0)
    for k in range(1 + dof % 2, dof, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    return 2 / math.pi * (angle + sine * total) if dof % 2 else sine * total


@lru_cache(maxsize=None)
def student_quantile(dof, confidence=CONFIDENCE):
    """Returns t with P(|T| <= t) = `confidence` for Student's t with `dof` degrees of freedom."""
    low, high = 0.0, 1.0
    while student_coverage(high, dof) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if student_coverage(middle, dof) < confidence:
            low = middle
        else:
            high = middle
    return high


def median_interval(values, confidence=CONFIDENCE):
    """Returns an interval of the median of independent values, the narrowest pair (x_k, x_{n+1-k})
    with 1 - 2*P(Binomial(n, 1/2) <= k-1) >= confidence; None for fewer than 6 values."""
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    if n < MINIMUM_VALUES:
        return None
    tail, k = 0, 0
    allowed = round((1 - confidence) * 10**6) * 2**n // 10**6  # integers, because 2**n may be huge
    choose = 1  # n over k, computed from its predecessor, because n may be in the thousands
    while 2 * (tail + choose) <= allowed:
        tail += choose
        choose = choose * (n - k) // (k + 1)
        k += 1
    if k == 0:
        return None
    return Interval(float(ordered[k - 1]), float(ordered[n - k]), 1 - 2 * tail / 2**n, n)


def autocorrelation_time(values):
    """Returns the integrated autocorrelation time tau of a series, at least 1: its median varies as
    much as that of len(values) / tau independent values.

    tau = 1 + 2 * (sum of the autocorrelations of the signs of the deviations from the median), up
    to the first sum of two neighbours that is not positive (Geyer 1992). Each of them is too small
    by about tau / n, because the median is that of the same values.
    """
    values = np.asarray(values, dtype=float)
    n = len(values)
    signs = np.sign(values - np.median(values)) if n else values
    if not signs.any():
        return 1.0
    spectrum = np.fft.rfft(signs, 2 * n)
    products = np.rint(np.fft.irfft(spectrum * np.conj(spectrum), 2 * n)[:n])
    pairs = products[0 : n - 1 : 2] + products[1:n:2]
    ended = np.flatnonzero(pairs <= 0)
    used = int(ended[0]) if len(ended) else len(pairs)
    tau = 2 * float(pairs[:used].sum()) / float(products[0]) - 1
    return tau / max(0.25, 1 - 4 * (used - 1) / n) if tau > 1 else 1.0


def series_interval(values, confidence=CONFIDENCE):
    """Returns an interval of the median of a series in the order of time, whose values may be
    correlated; None if the series is worth fewer than 6 independent values.

    The ranks of its ends are (n+1)/2 -+ t/2 * sqrt(n * tau), with Student's t because tau is
    estimated. It is the whole range if these ranks do not exist and the range of n / tau
    independent values covers the median.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    if n < MINIMUM_VALUES:
        return None
    tau = autocorrelation_time(values)
    if tau == 1:
        return median_interval(values, confidence)
    effective = n / tau
    if effective < MINIMUM_VALUES or 2 ** (1 - effective) > 1 - confidence:
        return None
    t = student_quantile(math.floor(effective) - 1, confidence)
    lowest = max(1, math.floor((n + 1) / 2 - t / 2 * math.sqrt(n * tau)))
    return Interval(float(ordered[lowest - 1]), float(ordered[n - lowest]), confidence, n)


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
    """Returns half of the 95 % interval of a ratio, as a share. `repeats`: the number of runs of
    each side."""
    return NORMAL_QUANTILE * RUN_SPREAD * math.sqrt(sum(1 / count for count in repeats))


def assumed_half_width(a, b, repeats_a, repeats_b):
    """Returns half of the 95 % interval of the difference of `a` and `b`, times or rates of
    `repeats_a` and `repeats_b` runs that are assumed to vary by RUN_SPREAD."""
    spread = RUN_SPREAD * math.sqrt(a**2 / repeats_a + b**2 / repeats_b)
    return NORMAL_QUANTILE * spread


def difference(a, b):
    """Returns the `Difference` of the values of runs `b` less those of runs `a`, by Welch's test. A
    single run is assumed to vary by RUN_SPREAD."""
    a, b = (np.asarray(values, dtype=float) for values in (a, b))
    is_assumed = min(len(a), len(b)) < 2
    variances = [
        (RUN_SPREAD * values.mean()) ** 2 if len(values) < 2 else values.var(ddof=1) / len(values)
        for values in (a, b)
    ]
    quantile, total = NORMAL_QUANTILE, sum(variances)
    if not is_assumed and total > 0:
        dof = total**2 / sum(v**2 / (len(values) - 1) for v, values in zip(variances, (a, b)))
        quantile = student_quantile(max(1, math.floor(dof)))
    return Difference(float(b.mean() - a.mean()), quantile * math.sqrt(total), is_assumed)
