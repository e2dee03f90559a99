# SPDX-License-Identifier: BSD-3-Clause
"""Tests least squares with intervals."""

import numpy as np
import pytest
from lockstep_report.measure.fitting import fit_linear
from lockstep_report.measure.inference import student_coverage, student_quantile
from planted import check_coverage, noise


# Tables of Student's t, 95 % two-sided.
@pytest.mark.parametrize(
    "dof, quantile",
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (10, 2.228),
        (30, 2.042),
        (120, 1.980),
    ],
)
def test_quantiles_are_those_of_the_tables(dof, quantile):
    assert student_quantile(dof) == pytest.approx(quantile, abs=5e-4)


def test_coverage_of_one_degree_of_freedom_is_that_of_the_cauchy_distribution():
    assert student_coverage(1.0, 1) == pytest.approx(0.5)


def test_fit_of_exact_values_has_no_residuals():
    x = np.array([1.0, 2.0, 4.0])
    fit = fit_linear((np.ones(3), x), 3 + 2 * x)
    assert fit.coefficients == pytest.approx([3, 2])
    assert fit.residuals == pytest.approx(np.zeros(3), abs=1e-12)
    estimate = fit.combination((1, 10))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((23, 23, 23))


def test_interval_of_a_constant_is_that_of_a_mean():
    """y = 9, 10, 11 with equal weights: mean 10, standard error 1/sqrt(3), t(2) = 4.303. The
    weights are those of the fitted values, which are equal."""
    fit = fit_linear((np.ones(3),), [9.0, 10.0, 11.0])
    estimate = fit.combination((1,))
    assert estimate.value == pytest.approx(10)
    assert estimate.high - 10 == pytest.approx(4.3027 / np.sqrt(3), rel=1e-4)


def test_no_interval_without_degrees_of_freedom():
    fit = fit_linear((np.ones(2), [1.0, 2.0]), [5.0, 7.0])
    assert fit.combination((0, 1)).value == pytest.approx(2)
    assert not fit.combination((0, 1)).has_interval
    assert not fit.share(0).has_interval


@pytest.mark.parametrize(
    "columns", [(np.ones(3), np.full(3, 7.0)), (np.ones(3), np.zeros(3)), (np.ones(1), [2.0])]
)
def test_undetermined_fits_are_refused(columns):
    assert fit_linear(columns, np.ones(len(columns[0]))) is None


def test_units_do_not_decide_whether_columns_are_independent():
    sizes = np.array([1e9, 2e9, 4e9])
    assert fit_linear((np.ones(3), sizes), 1e-6 + 1e-12 * sizes).coefficients == pytest.approx(
        [1e-6, 1e-12]
    )


def test_share_is_the_ratio_to_the_sum():
    x = np.array([1.0, 0.5, 0.25])
    assert fit_linear((np.ones(3), x), 1 + 3 * x).share(0).value == pytest.approx(0.25)


def test_share_without_bounds_has_no_interval():
    """The sum is 1.0 ± more than 1.0, so any share is possible."""
    estimate = fit_linear((np.ones(3), [1.0, 0.99, 0.98]), [1.0, 3.0, 1.2]).share(0)
    assert not estimate.has_interval
    assert "do not bound" in estimate.note


def test_intervals_have_the_stated_coverage():
    """Of coefficients, of a combination and of a share, with relative errors of 3 %."""
    random = np.random.default_rng(1)
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    hits = np.zeros(4, dtype=int)
    for _ in range(400):
        fit = fit_linear((np.ones(5), x), (2 + 0.5 * x) * noise(random, 0.03, 5))
        hits += [
            fit.combination((1, 0)).contains(2),
            fit.combination((0, 1)).contains(0.5),
            fit.combination((1, 4)).contains(4),
            fit.share(0).contains(0.8),
        ]
    for count in hits:
        check_coverage(count, 400)
