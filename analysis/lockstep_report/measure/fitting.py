# SPDX-License-Identifier: BSD-3-Clause
"""Weighted least squares with confidence intervals. docs/analysis.md ("Model fits") states the
method.

The errors of times are assumed to be proportional to the times. Observations of one group were
measured under the same conditions, such as in one job, and share a deviation that their spread does
not show.
"""

import math
from dataclasses import dataclass

import numpy as np

from lockstep_report.measure.inference import student_quantile

LARGEST = 1e100  # of an observation
REWEIGHTINGS = 8  # the weights change by less than 1e-6 after three


@dataclass(frozen=True)
class Estimate:
    """A parameter with its 95 % confidence interval. `low` and `high` are None if there is no
    interval; `note` then gives the reason."""

    value: float
    low: float = None
    high: float = None
    note: str = ""

    @property
    def has_interval(self):
        return self.low is not None

    def times(self, factor):
        """Returns the estimate of `factor` (positive) times the parameter."""
        low, high = (None if x is None else factor * x for x in (self.low, self.high))
        return Estimate(factor * self.value, low, high, self.note)

    def contains(self, value):
        return self.has_interval and self.low <= value <= self.high


def largest_residual(residuals):
    """Returns the largest relative residual, as a share."""
    return float(np.abs(residuals).max())


def sign_note(estimate, subject="", below="below 0: the model does not describe the times"):
    """Returns why a parameter that cannot be negative is not known to be above 0; "" if it is."""
    if not estimate.has_interval:
        return f"no interval: {estimate.note}"
    if estimate.contains(0):
        return f"{subject}not distinguishable from 0"
    return f"{subject}{below}" if estimate.high < 0 else ""


@dataclass(frozen=True)
class LinearFit:
    """The fit of y = sum of coefficients[j] * columns[j]."""

    coefficients: np.ndarray
    spreads: tuple  # (covariance of the coefficients, degrees of freedom) of each kind of errors
    fitted: np.ndarray  # of each observation
    residuals: np.ndarray  # (observed - fitted) / fitted
    note: str = "as many observations as parameters"  # why there is no interval, without `spreads`

    @property
    def dof(self):
        """The degrees of freedom of the residuals; 0 without interval."""
        return self.spreads[0][1] if self.spreads else 0

    def combination(self, weights):
        """Returns the estimate of sum of weights[j] * coefficients[j]."""
        weights = np.asarray(weights, dtype=float)
        value = float(weights @ self.coefficients)
        if not self.spreads:
            return Estimate(value, note=self.note)
        half = max(
            student_quantile(dof) * math.sqrt(max(0.0, float(weights @ covariance @ weights)))
            for covariance, dof in self.spreads
        )
        return Estimate(value, value - half, value + half)

    def share(self, index):
        """Returns the estimate of coefficients[index] / sum of the coefficients, with the interval
        of Fieller's theorem: the shares s for which coefficients[index] - s * sum does not differ
        from 0. The interval is missing if these shares are not bounded."""
        total, part = float(self.coefficients.sum()), float(self.coefficients[index])
        value, ends = part / total, []
        if not self.spreads:
            return Estimate(value, note=self.note)
        for covariance, dof in self.spreads:
            t = student_quantile(dof)
            a = total**2 - t**2 * float(covariance.sum())
            b = total * part - t**2 * float(covariance[index].sum())
            c = part**2 - t**2 * float(covariance[index, index])
            if not a > 0:
                return Estimate(value, note="the observations do not bound the share")
            root = math.sqrt(max(0.0, b**2 - a * c))  # negative by rounding
            ends += [(b - root) / a, (b + root) / a]
        return Estimate(value, min(ends), max(ends))


def fit_linear(columns, observed, groups=None):
    """Fits `observed` (n positive values) as a combination of `columns` (p arrays of n values).
    `groups`: of each observation what it has in common with others that were measured together
    [each is alone]; equal groups need equal columns, and their means are fitted. Returns None if
    the columns are not linearly independent, n < p, or a value is not positive and of a size whose
    square is finite."""
    matrix = np.column_stack([np.asarray(column, dtype=float) for column in columns])
    observed = np.asarray(observed, dtype=float)
    count, parameters = matrix.shape
    if not np.all((observed > 1 / LARGEST) & (observed < LARGEST)):
        return None
    # The columns are scaled to equal length, so that the rank does not depend on their units.
    lengths = np.linalg.norm(matrix / observed[:, None], axis=0)
    if count < parameters or np.any(lengths == 0):
        return None
    scaled = matrix / lengths
    if np.linalg.matrix_rank(scaled / observed[:, None], tol=1e-9) < parameters:
        return None
    _, first, group = np.unique(
        np.arange(count) if groups is None else groups, return_index=True, return_inverse=True
    )
    sizes = np.bincount(group)
    means, places = np.bincount(group, observed) / sizes, scaled[first]
    coefficients, rows, scale = reweighted(places, means)
    dof, spreads = len(means) - parameters, []
    if dof > 0:
        variances = [variance_between((means - places @ coefficients) / scale, dof)]
        if count > len(means):  # repeats
            variances.append(variance_within((observed - means[group]) / scale[group], sizes))
        units, inverse = np.outer(lengths, lengths), np.linalg.pinv(rows)
        spreads = [((inverse * values) @ inverse.T / units, of) for values, of in variances]
    fitted = scaled @ coefficients
    return LinearFit(
        coefficients / lengths,
        tuple(spreads),
        fitted,
        (observed - fitted) / np.where(fitted > 0, fitted, observed),
    )


def reweighted(places, means):
    """Returns (coefficients, weighted rows, scale) of the fit of `means` by the columns of
    `places`, whose weights are 1 / fitted²."""
    scale = means
    for _ in range(REWEIGHTINGS):
        rows = places / scale[:, None]
        coefficients = np.linalg.lstsq(rows, means / scale, rcond=None)[0]
        scale = np.where(places @ coefficients > 0, places @ coefficients, means)
    return coefficients, rows, scale


def variance_between(deviations, dof):
    """Returns (variance of each mean, degrees of freedom) from the deviations of the means."""
    return np.full(len(deviations), float(deviations @ deviations) / dof), dof


def variance_within(deviations, sizes):
    """Returns (variance of each mean, degrees of freedom) from the deviations of the repeats.
    `sizes`: number of repeats of each mean."""
    dof = len(deviations) - len(sizes)
    within = float((deviations**2).sum()) / dof
    return within / sizes, dof


def mean_fit(fits, columns, observed):
    """Returns the mean of the fits of several jobs, of which `columns` and `observed` have all
    observations. The difference between the jobs is one of its kinds of errors, and the errors
    within the jobs are the other.
    """
    if len(fits) == 1:
        return fits[0]
    all_coefficients = np.array([fit.coefficients for fit in fits])
    coefficients, count = all_coefficients.mean(axis=0), len(fits)
    # The units differ by many orders of magnitude.
    scale = np.abs(coefficients).clip(min=1 / LARGEST)
    between = np.cov((all_coefficients / scale).T) / count * np.outer(scale, scale)
    spreads = [(between, count - 1)]
    if all(fit.spreads for fit in fits):
        spreads.append(
            (
                sum(fit.spreads[0][0] for fit in fits) / count**2,
                sum(fit.spreads[0][1] for fit in fits),
            )
        )
    fitted = np.column_stack(columns) @ coefficients
    return LinearFit(coefficients, tuple(spreads), fitted, (observed - fitted) / fitted)
