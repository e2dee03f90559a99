"""Weak efficiency of a point, for both the tables and the figures."""

from lockstep_report.measure import metrics


def mean_step(point):
    """Returns the mean step time in seconds; None if the number of steps is unknown."""
    return point.epoch_seconds / point.steps if point.steps else None


def weak_efficiency(base, point):
    """Returns t(1)/t(N), the ratio of the mean step times of `base` and `point` at the same batch per rank.

    `base` has one rank, or as many independent replicas as `point` has ranks. If the number of steps is unknown (a
    CSV without batch sizes), an epoch on N ranks is assumed to have N times fewer steps, which gives
    T(1)/(N·T(N)).
    """
    steps = mean_step(base), mean_step(point)
    if None in steps:
        share = point.ranks / base.ranks
        return metrics.strong_efficiency(base.epoch_seconds, point.epoch_seconds, share)
    return metrics.weak_efficiency(*steps)
