"""Formulas, as pure functions. Each is stated with its source in docs/analysis.md.

Seconds, bytes and bytes per second throughout; N is the number of ranks.
"""

import math
from dataclasses import dataclass

import numpy as np

MINIMUM_REPEATS = 6  # below it no pair of order statistics covers the median with 95 %
WARM_UP_FRACTION = 0.1


@dataclass(frozen=True)
class Window:
    """The steps that are reported, and the rule that chose them, in words."""

    steps: np.ndarray  # indices
    epoch: int
    rule: str


@dataclass(frozen=True)
class Interval:
    """Rank-based interval of a median."""

    low: float
    high: float
    coverage: float
    count: int


def report_window(epoch):
    """The steps to report, from the epoch (from 1) of each step.

    With two epochs or more the second one; with one, its steps after the first 10 % (at least 1).
    A second epoch that is shorter than the first (a run that was stopped) does not count.
    """
    numbers, counts = np.unique(epoch, return_counts=True)
    if len(numbers) == 0:
        raise ValueError("no steps")
    if len(numbers) >= 2 and counts[1] >= counts[0]:
        chosen = int(numbers[1])
        ordinal = "2" if chosen == 2 else f"{chosen} (the second in the file)"
        return Window(np.flatnonzero(epoch == chosen), chosen, f"epoch {ordinal}, all steps")
    first = np.flatnonzero(epoch == numbers[0])
    skipped = min(max(1, math.ceil(WARM_UP_FRACTION * len(first))), len(first) - 1)
    rule = (
        f"epoch {int(numbers[0])} without its first {skipped} of {len(first)} steps "
        f"(no complete second epoch)"
    )
    return Window(first[skipped:], int(numbers[0]), rule)


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


def epoch_reading(epochs, name, epoch):
    """(rank): what the devices' sensors said of `epoch` (from 1); None where one did not."""
    values = np.asarray(epochs.get(name, ()), dtype=float)
    if values.ndim != 2 or len(values) < epoch or not np.all(np.isfinite(values[epoch - 1])):
        return None
    return values[epoch - 1]


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
    while 2 * (tail + math.comb(n, k)) <= allowed:
        tail += math.comb(n, k)
        below = tail
        k += 1
    if k == 0:
        return None
    coverage = 1 - 2 * below / 2**n
    return Interval(float(ordered[k - 1]), float(ordered[n - k]), coverage, n)


def steps_per_epoch(samples, batch_per_rank, ranks):
    """ceil(D / (b*N)), the last batch kept."""
    return -(-samples // (batch_per_rank * ranks))
