"""Weighted least squares with confidence intervals. docs/analysis.md ("Model fits") states the
method.

The errors of times are assumed to be proportional to the times, so each observation is weighted
with 1 / fitted². The variance is estimated from the residuals, so the intervals include the
deviation of the observations from the model; with n observations and p parameters they use
Student's t with n - p degrees of freedom.
"""

import math
from dataclasses import dataclass

import numpy as np

from lockstep_report.inference import student_quantile

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


@dataclass(frozen=True)
class LinearFit:
    """The fit of y = sum of coefficients[j] * columns[j]."""

    coefficients: np.ndarray
    covariance: np.ndarray  # of the coefficients; None without degrees of freedom
    fitted: np.ndarray  # of each observation
    residuals: np.ndarray  # (observed - fitted) / fitted
    dof: int

    def combination(self, weights):
        """Returns the estimate of sum of weights[j] * coefficients[j]."""
        weights = np.asarray(weights, dtype=float)
        value = float(weights @ self.coefficients)
        if self.covariance is None:
            return Estimate(value, note="as many observations as parameters")
        half = student_quantile(self.dof) * math.sqrt(
            max(0.0, float(weights @ self.covariance @ weights)))
        return Estimate(value, value - half, value + half)

    def share(self, index):
        """Returns the estimate of coefficients[index] / sum of the coefficients, with the interval
        of Fieller's theorem: the shares s for which coefficients[index] - s * sum does not differ
        from 0. The interval is missing if these shares are not bounded."""
        total = float(self.coefficients.sum())
        value = float(self.coefficients[index]) / total
        if self.covariance is None:
            return Estimate(value, note="as many observations as parameters")
        t = student_quantile(self.dof)
        unit = np.zeros(len(self.coefficients))
        unit[index] = 1
        ones = np.ones(len(self.coefficients))
        of_part = float(unit @ self.covariance @ unit)
        common = float(unit @ self.covariance @ ones)
        of_total = float(ones @ self.covariance @ ones)
        a = total**2 - t**2 * of_total
        b = total * float(self.coefficients[index]) - t**2 * common
        c = float(self.coefficients[index])**2 - t**2 * of_part
        root = max(0.0, b**2 - a * c)  # rounding
        if a <= 0:
            return Estimate(value, note="the observations do not bound the share")
        return Estimate(value, (b - math.sqrt(root)) / a, (b + math.sqrt(root)) / a)


def fit_linear(columns, observed):
    """Fits `observed` (n positive values) as a combination of `columns` (p arrays of n values).
    Returns None if the columns are not linearly independent, n < p, or a value is not positive and
    of a size whose square is finite."""
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
    scale = observed
    for _ in range(REWEIGHTINGS):
        rows = scaled / scale[:, None]
        coefficients = np.linalg.lstsq(rows, observed / scale, rcond=None)[0]
        fitted = scaled @ coefficients
        scale = np.where(fitted > 0, fitted, observed)
    residuals = (observed - fitted) / scale
    dof = count - parameters
    covariance = None
    if dof > 0:
        inverse = np.linalg.inv(rows.T @ rows)
        covariance = inverse * float(residuals @ residuals) / dof / np.outer(lengths, lengths)
    return LinearFit(coefficients / lengths, covariance, fitted, residuals, dof)
