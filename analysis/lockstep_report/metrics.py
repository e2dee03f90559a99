"""Formulas, as pure functions. Each is stated with its source in docs/analysis.md.

Seconds, bytes and bytes per second throughout; N is the number of ranks.
"""

import math
from dataclasses import dataclass

import numpy as np

MINIMUM_REPEATS = 6  # below it no pair of order statistics covers the median with 95 %


@dataclass(frozen=True)
class Interval:
    """Rank-based interval of a median."""

    low: float
    high: float
    coverage: float
    count: int


def rank_seconds(phase_seconds, phases, without=()):
    """(step, rank): the sum of the phases but those in `without`."""
    kept = [i for i, name in enumerate(phases) if name not in without]
    return phase_seconds[:, :, kept].sum(axis=2)


def step_seconds(phase_seconds, phases, without=()):
    """(step): a step's time is the maximum over the ranks."""
    return rank_seconds(phase_seconds, phases, without).max(axis=1)


def training_seconds(phase_seconds, phases):
    """(step): the training time, without waiting for data."""
    return step_seconds(phase_seconds, phases, without=("data_wait",))


def throughput(images, seconds):
    """Images per second: images summed over seconds summed, never a mean of rates."""
    return float(np.sum(images)) / float(np.sum(seconds))


def speedup(t_1, t_n):
    """T(1)/T(N)."""
    return t_1 / t_n


def scaled_speedup(t_1, t_n, n):
    """N*T(1)/T(N)."""
    return n * t_1 / t_n


def strong_efficiency(t_1, t_n, n):
    """T(1)/(N*T(N)) at fixed global problem."""
    return t_1 / (n * t_n)


def weak_efficiency(step_1, step_n):
    """t_step(1)/t_step(N) at fixed batch per rank."""
    return step_1 / step_n


def derived_split(t_1, t_n, n):
    """The assignment's split: (compute, communication) = (T(1)/N, T(N) - T(1)/N)."""
    return t_1 / n, t_n - t_1 / n


def ring_bytes(size, n):
    """What each rank sends in a ring all-reduce of `size` bytes: 2(N-1)/N * size."""
    return 2 * (n - 1) / n * size


def bus_bandwidth(size, seconds, n):
    """2(N-1)/N * bytes / time; None where nothing was sent or no time was taken."""
    if n < 2 or seconds is None or seconds <= 0:
        return None
    return ring_bytes(size, n) / seconds


def utilisation(bytes_per_second, link_gbit):
    """The share of a link of `link_gbit` (1e9 bit/s)."""
    if bytes_per_second is None or link_gbit is None:
        return None
    return bytes_per_second * 8 / (link_gbit * 1e9)


def epoch_reading(epochs, name, numbers, epoch):
    """(rank): the sensor readings of `epoch`; None if one is missing. `numbers`: of the rows."""
    values = np.asarray(epochs.get(name, ()), dtype=float)
    rows = np.flatnonzero(np.asarray(numbers) == epoch)
    if values.ndim != 2 or len(rows) == 0 or not np.all(np.isfinite(values[rows[0]])):
        return None
    return values[rows[0]]


def busy_seconds(start, end):
    """(step, rank): time in which at least one bucket was under way (union of the intervals)."""
    if start.shape[-1] == 0:
        return np.zeros(start.shape[:-1])
    order = np.argsort(start, axis=-1)
    start = np.take_along_axis(start, order, axis=-1)
    end = np.take_along_axis(end, order, axis=-1)
    reached = np.maximum.accumulate(end, axis=-1)
    before = np.concatenate([start[..., :1], reached[..., :-1]], axis=-1)
    return np.maximum(0.0, end - np.maximum(start, before)).sum(axis=-1)


def hidden_seconds(allreduce, exposed):
    """All-reduce time that the backward pass covered: all-reduce - exposed, not below 0."""
    return max(0.0, allreduce - exposed)


def median_interval(values, confidence=0.95):
    """Interval of the median from order statistics; None below 6 values.

    The narrowest pair (x_k, x_{n+1-k}) with 1 - 2*P(Binomial(n, 1/2) <= k-1) >= confidence.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    if n < MINIMUM_REPEATS:
        return None
    tail, k, below = 0, 0, 0
    allowed = round((1 - confidence) * 10**6) * 2**n // 10**6  # whole numbers: 2**n may be huge
    choose = 1  # n over k; computed from its predecessor, because n may be thousands of steps
    while 2 * (tail + choose) <= allowed:
        tail += choose
        below = tail
        choose = choose * (n - k) // (k + 1)
        k += 1
    if k == 0:
        return None
    coverage = 1 - 2 * below / 2**n
    return Interval(float(ordered[k - 1]), float(ordered[n - k]), coverage, n)


def steps_per_epoch(samples, batch_per_rank, ranks):
    """ceil(D / (b*N)), the last batch kept."""
    return -(-samples // (batch_per_rank * ranks))
