# SPDX-License-Identifier: BSD-3-Clause
"""The formulas of the report, as pure functions; docs/analysis.md lists them. All units are
seconds, bytes and bytes per second; N is the number of ranks."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bounds:
    """A quantity between `low` and `high`, None if unknown. `value`: the quantity, None if the
    bounds do not agree."""

    low: float
    high: float
    value: float = None

    def times(self, factor):
        return Bounds(
            *(None if x is None else factor * x for x in (self.low, self.high, self.value))
        )


def rank_seconds(phase_seconds, phases, without=()):
    """Returns (step, rank): the sum over all phases except those in `without`."""
    return phase_seconds @ np.array([float(name not in without) for name in phases])


def throughput(images, seconds):
    """Returns images/s: the sum of images over the sum of seconds, never a mean of rates."""
    return float(np.sum(images)) / float(np.sum(seconds))


def speedup(t_1, t_n):
    """Returns T(1)/T(N)."""
    return t_1 / t_n


def ratio_interval(numerator, denominator):
    """Returns (low, high): an interval of a ratio of two quantities with the intervals `numerator`
    and `denominator`; (None, None) if one is None. It covers at least as much as both together."""
    if numerator is None or denominator is None or denominator.low <= 0:
        return None, None
    return numerator.low / denominator.high, numerator.high / denominator.low


def karp_flatt(speedup_n, n):
    """Returns the experimentally determined serial fraction (1/S - 1/N) / (1 - 1/N) of the speedup
    S on N ranks; None for one rank or without a speedup above 0."""
    if n < 2 or not speedup_n or speedup_n <= 0:
        return None
    return (1 / speedup_n - 1 / n) / (1 - 1 / n)


def derived_split(t_1, t_n, n):
    """Returns the derived split: (compute, communication) = (T(1)/N, T(N) - T(1)/N)."""
    return t_1 / n, t_n - t_1 / n


def ring_bytes(size, n):
    """Returns the bytes each rank sends in a ring all-reduce of `size` bytes: 2(N-1)/N * size."""
    return 2 * (n - 1) / n * size


def bus_bandwidth(size, seconds, n):
    """Returns 2(N-1)/N * size / seconds; None if N < 2 or `seconds` is None or not above 0."""
    if n < 2 or seconds is None or not 0 < seconds < math.inf:
        return None
    return ring_bytes(size, n) / seconds


def utilisation(bytes_per_second, link_gbit):
    """Returns the used share of the link rate `link_gbit` (1e9 bit/s); None if one is unknown."""
    if bytes_per_second is None or link_gbit is None:
        return None
    return bytes_per_second * 8 / (link_gbit * 1e9)


def busy_seconds(start, end):
    """Returns (step, rank): the time in which at least one bucket was being reduced, the union of
    [start, end]."""
    if start.shape[-1] == 0:
        return np.zeros(start.shape[:-1])
    if np.any(start[..., 1:] < start[..., :-1]):
        order = np.argsort(start, axis=-1)
        start = np.take_along_axis(start, order, axis=-1)
        end = np.take_along_axis(end, order, axis=-1)
    reached = np.maximum.accumulate(end, axis=-1)
    before = np.concatenate([start[..., :1], reached[..., :-1]], axis=-1)
    return np.maximum(0.0, end - np.maximum(start, before)).sum(axis=-1)


def common_start(step_start, offsets, first=None, last=None):
    """Returns (step, rank): the starts of steps of an epoch on the clock of rank 0.
    `step_start` (step, rank) is on the clock of each rank; `offsets` (rank, 2) is the clock of each
    rank minus that of rank 0, before the step of the epoch that starts at `first` (rank) [the first
    one of `step_start`] and after the one that starts at `last` (rank) [the last one]."""
    first = step_start[0] if first is None else first
    last = step_start[-1] if last is None else last
    length = np.where(last > first, last - first, 1.0)
    share = (step_start - first) / length
    return step_start - (offsets[:, 0] + share * (offsets[:, 1] - offsets[:, 0]))


def steps_per_epoch(samples, batch_per_rank, ranks):
    """Returns ceil(D / (b*N)): the incomplete last batch counts as a step."""
    return -(-samples // (batch_per_rank * ranks))
