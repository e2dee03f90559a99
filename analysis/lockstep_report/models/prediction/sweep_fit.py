# SPDX-License-Identifier: BSD-3-Clause
"""Fits networks to sweeps of `lockstep allreduce`, nccl-tests, OSU and IMB."""

from dataclasses import dataclass

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.measure.choices import labelled, library_of
from lockstep_report.measure.fitting import LinearFit, fit_linear, largest_residual
from lockstep_report.measure.metrics import Bounds
from lockstep_report.measure.validity import warning_notes
from lockstep_report.models.fits import sweep_observations
from lockstep_report.models.prediction.collectives import FLAT, HIERARCHICAL, MODELLED
from lockstep_report.models.prediction.network import Level, Network
from lockstep_report.runfile.experiment import program_of

MINIMUM_SIZES = 3


@dataclass(frozen=True)
class FittedNetwork(Network):
    """A network whose alpha and beta are drawn from the joint distribution of their estimates
    (multivariate t), because they are strongly correlated. A negative alpha counts as 0."""

    fit: LinearFit = None

    def draw(self, random, count):
        covariance, dof = self.fit.spreads[0]
        lengths = np.sqrt(np.diag(covariance))
        # Alpha and beta differ by orders of magnitude.
        lengths = np.where(lengths > 0, lengths, 1.0)
        deviations = random.multivariate_normal(
            np.zeros(2), covariance / np.outer(lengths, lengths), size=count, method="eigh"
        )
        deviations /= np.sqrt(random.chisquare(dof, size=count) / dof)[:, None]
        alpha, beta = (self.fit.coefficients + deviations * lengths).T
        low = 1e-3 * self.fit.coefficients[1]  # t with few degrees of freedom has long tails
        return [(np.maximum(0, alpha), np.maximum(low, beta))]


def network_of_sweeps(runs, algorithm):
    """Returns the network of sweeps over any numbers of ranks, with the 95 % intervals of alpha and
    beta as their ranges. `algorithm`: name in the sweep, or that of the formula for a program that
    does not state its own. Raises `ReportError` (input) if the sweeps do not determine both."""
    names, library = file_names(runs), library_of(runs[0])
    check_sweeps(runs, algorithm)
    fit = fit_of(runs, algorithm)
    if fit is None:
        raise ReportError(
            INPUT,
            f"{names}: fewer than {MINIMUM_SIZES} measured sizes of the algorithm "
            f"{algorithm}, which do not determine alpha and beta; give a sweep with more sizes",
        )
    alpha, beta = fit.combination((1, 0)), fit.combination((0, 1))
    if beta.low <= 0:
        raise ReportError(
            INPUT,
            f"{names}: beta of {algorithm} is not distinguishable from 0; give "
            "a sweep with larger messages or more repeats",
        )
    level = Level(
        "links of the sweep",
        None,
        Bounds(max(0.0, alpha.low), max(0.0, alpha.high)),
        Bounds(beta.low, beta.high),
        True,
    )
    return FittedNetwork(
        f"fit to {names}",
        library,
        algorithm,
        (level,),
        notes=(*warning_notes(runs), fit_note(alpha, beta, fit)),
        is_of_one_host=all(run.host_count == 1 for run in runs),
        fit=fit,
    )


def file_names(runs):
    return ", ".join(run.path.name for run in runs)


def check_sweeps(runs, algorithm):
    """Raises `ReportError` (input) if the sweeps do not describe one level of links of a library,
    or the algorithm has no formula."""
    library = library_of(runs[0])
    if any(library_of(run) != library for run in runs):
        raise ReportError(
            INPUT, f"{file_names(runs)}: sweeps with MPI and with NCCL; give those of one"
        )
    known = flat_algorithms(library)
    if algorithm not in known:
        raise ReportError(
            INPUT,
            f"{file_names(runs)}: no model to fit for the algorithm {algorithm} of {library}, only"
            f" for {', '.join(known)}; give a network description with its levels",
        )
    for run in runs:
        if 1 < run.host_count < run.rank_count:
            raise ReportError(
                INPUT,
                f"{run.path}: several ranks on several hosts, so alpha and beta belong to no single"
                " level; give sweeps with one rank per host, or on one host",
            )


def flat_algorithms(library):
    """Returns the algorithms of a library that can be fitted to a sweep."""
    return [name for name in MODELLED.get(library, ()) if name != HIERARCHICAL]


def fit_of(runs, algorithm):
    """Returns the fit of alpha and beta to the medians of all sizes; None if they do not determine
    both."""
    factors, seconds = [], []
    for run in runs:
        labels = sweep_labels(run, algorithm)
        for (_, label), size, value in sweep_observations(run):
            if label in labels:
                factors.append(FLAT[algorithm](run.rank_count, size))
                seconds.append(value)
    if len({sent for _, sent in factors}) < MINIMUM_SIZES:
        return None
    fit = fit_linear(np.transpose(factors), seconds)
    return fit if fit is not None and fit.dof >= 1 else None


def sweep_labels(run, algorithm):
    """Returns the labels under which a sweep can have the algorithm: those of Lockstep, of another
    program, and of a program that does not state its algorithm."""
    library, program = library_of(run), program_of(run)
    wanted = labelled(algorithm, library)
    return (wanted, f"{wanted} ({program})", f"{labelled('unknown', library)} ({program})")


def fit_note(alpha, beta, fit):
    return (
        f"alpha {1e6 * alpha.value:.4g} µs per message ({1e6 * alpha.low:.4g} to"
        f" {1e6 * alpha.high:.4g}), beta {1e9 * beta.value:.4g} ns per byte"
        f" ({1e9 * beta.low:.4g} to {1e9 * beta.high:.4g}), largest residual"
        f" {100 * largest_residual(fit.residuals):.1f} %"
    )
