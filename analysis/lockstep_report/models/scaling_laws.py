# SPDX-License-Identifier: BSD-3-Clause
"""Fits of Amdahl's and Gustafson's laws to the epoch or step times of several rank counts."""

from dataclasses import dataclass, replace

import numpy as np

from lockstep_report.measure.comparison import base_of, differences, scaling_series, strong_base_of
from lockstep_report.measure.fitting import Estimate, LinearFit, fit_linear

AMDAHL, GUSTAFSON = "Amdahl", "Gustafson"
LARGE_RESIDUAL = 0.2  # a fit with a larger relative residual does not describe the times
TWO_COUNTS = "no fit: times on two rank counts agree with every law; runs on a third rank count would test it"
SUPERLINEAR = "below 0: the runs scale better than the ideal, so check that they had equal conditions"


@dataclass(frozen=True)
class ScalingFit:
    """The fit of one law to the points of one batch and series; `fit` and `serial` are None for two rank counts."""

    law: str
    points: tuple  # the merged points, in ascending order of ranks
    ranks: np.ndarray  # of each observation; repeated runs are separate observations
    seconds: np.ndarray  # observed: epoch (Amdahl) or step (Gustafson)
    notes: tuple
    fit: LinearFit = None
    serial: Estimate = None  # serial fraction s

    def predicted(self, ranks):
        """Returns the times that the law gives for the numbers of ranks `ranks`."""
        values = self.fit.coefficients[0] + self.fit.coefficients[1] / np.asarray(ranks, float)
        return values if self.law == AMDAHL else 1 / values

    def speedup(self, ranks):
        """Returns T(1)/T(N) (Amdahl) or N·t(1)/t(N) (Gustafson) that the law gives."""
        ranks = np.asarray(ranks, float)
        serial = self.serial.value
        if self.law == AMDAHL:
            return 1 / (serial + (1 - serial) / ranks)
        return ranks - serial * (ranks - 1)

    def observed_speedup(self):
        """Returns the speedups of the observations, relative to the fitted time of one rank."""
        ratio = self.predicted([1])[0] / self.seconds
        return ratio if self.law == AMDAHL else self.ranks * ratio

    @property
    def residuals(self):
        """(observed - fitted) / fitted of the times."""
        return self.seconds / self.predicted(self.ranks) - 1

    @property
    def describes_times(self):
        """Whether no residual exceeds LARGE_RESIDUAL."""
        return bool(np.abs(self.residuals).max() <= LARGE_RESIDUAL)

    @property
    def limit(self):
        """The speedup 1/s that Amdahl's law does not exceed; None if s is unknown, not positive or may be 0."""
        if self.law != AMDAHL or self.serial is None or self.serial.value <= 0 or self.serial.contains(0):
            return None
        return 1 / self.serial.value


def amdahl(ranks, seconds):
    """Fits T(N) = T(1) (s + (1-s)/N), which is linear in 1 and 1/N. Returns (fit, estimate of s);
    None if s is not determined."""
    return two_terms(ranks, seconds, 0)


def gustafson(ranks, seconds):
    """Fits N·t(1)/t(N) = N - s (N-1): the rate 1/t(N) = ((1-s) + s/N) / t(1) is linear in 1 and
    1/N. Returns (fit, estimate of s); None if s is not determined."""
    return two_terms(ranks, 1 / np.asarray(seconds, dtype=float), 1)


def two_terms(ranks, values, index):
    ranks = np.asarray(ranks, dtype=float)
    fit = fit_linear((np.ones(len(ranks)), 1 / ranks), values, groups=ranks)
    if fit is None or fit.coefficients.sum() <= 0:
        return None
    return fit, fit.share(index)


def scaling_fits(points):
    """Returns the fits of all groups of points with several rank counts, one of them 1."""
    sized = [p for p in points if p.batch_per_rank]
    return [fit for law, usable, lookup, batch_of, seconds_of in (
        (AMDAHL, sized, strong_base_of, lambda p: p.global_batch, lambda p, epoch: epoch),
        (GUSTAFSON, points, base_of, lambda p: p.batch_per_rank, step_seconds))
        for base, group in scaling_series(usable, lookup, batch_of)
        for fit in fit_group(law, [base, *group], seconds_of)]


def step_seconds(point, epoch):
    """Returns the mean step time; if the number of steps is unknown, a multiple of it (N times
    fewer steps on N ranks)."""
    return epoch / point.steps if point.steps else epoch * point.ranks


def fit_group(law, group, seconds_of):
    """Returns a list of one `ScalingFit`; an empty list if the parameter is not determined."""
    group = [p for p in group if all(0 < epoch < np.inf for epoch in p.epoch_repeats)]
    ranks = np.array([p.ranks for p in group for _ in p.epoch_repeats])
    seconds = np.array([seconds_of(p, epoch) for p in group for epoch in p.epoch_repeats])
    if len(set(ranks)) == 2:
        return [ScalingFit(law, tuple(group), ranks, seconds, (TWO_COUNTS,))]
    found = (amdahl if law == AMDAHL else gustafson)(ranks, seconds) if len(ranks) else None
    if found is None:
        return []
    fit, serial = found
    notes = [f"the points differ in {text}" for text in differences(*group)]
    if not serial.has_interval:
        notes.append(f"no interval: {serial.note}")
    elif serial.contains(0):
        notes.append("not distinguishable from 0")
    elif serial.high < 0:
        notes.append(SUPERLINEAR)
    made = ScalingFit(law, tuple(group), ranks, seconds, (), fit, serial)
    if not made.describes_times:
        largest = 100 * float(np.abs(made.residuals).max())
        notes.append(f"the law does not describe the times: largest residual {largest:.0f} %")
    return [replace(made, notes=tuple(notes))]
