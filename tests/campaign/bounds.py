# SPDX-License-Identifier: BSD-3-Clause
"""Confidence bounds of the rate of failures in a number of independent runs."""

import math


def probability_of_at_most(failures, runs, rate):
    """Returns the probability of at most `failures` failures in `runs` runs that fail with
    probability `rate`."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return 1.0 if failures >= runs else 0.0
    logarithms = [
        math.lgamma(runs + 1)
        - math.lgamma(k + 1)
        - math.lgamma(runs - k + 1)
        + k * math.log(rate)
        + (runs - k) * math.log1p(-rate)
        for k in range(failures + 1)
    ]
    return min(1.0, math.fsum(map(math.exp, logarithms)))


def upper_bound(failures, runs, confidence=0.95):
    """Returns the one-sided upper bound of Clopper and Pearson for the rate of failures: the
    largest rate at which so few failures still have the probability 1 - `confidence`. Without runs
    it is 1."""
    if not 0 <= failures <= runs:
        raise ValueError(f"{failures} failures in {runs} runs")
    if failures == runs:
        return 1.0
    low, high = failures / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if probability_of_at_most(failures, runs, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def percentile(values, percent):
    """Returns the smallest value that is not exceeded by `percent` of the values (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
