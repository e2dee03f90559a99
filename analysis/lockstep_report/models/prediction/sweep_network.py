# SPDX-License-Identifier: BSD-3-Clause
"""A network with one level whose alpha and beta are fitted to sweeps of `lockstep allreduce` or of nccl-tests."""

from dataclasses import dataclass

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.measure.choices import labelled, library_of
from lockstep_report.measure.fitting import LinearFit, fit_linear
from lockstep_report.measure.validity import warning_notes
from lockstep_report.models.alpha_beta import sweep_observations
from lockstep_report.models.prediction.collectives import ALGORITHMS, FLAT, HIERARCHICAL
from lockstep_report.models.prediction.network import Level, Network, Range
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
        lengths = np.where(lengths > 0, lengths, 1.0)  # alpha and beta differ by orders of magnitude
        deviations = random.multivariate_normal(
            np.zeros(2), covariance / np.outer(lengths, lengths), size=count, method="eigh")
        deviations /= np.sqrt(random.chisquare(dof, size=count) / dof)[:, None]
        alpha, beta = (self.fit.coefficients + deviations * lengths).T
        low = 1e-3 * self.fit.coefficients[1]  # t with few degrees of freedom has long tails
        return [(np.maximum(0, alpha), np.maximum(low, beta))]


def network_of_sweeps(runs, algorithm):
    """Returns the network of sweeps over any numbers of ranks, with the 95 % intervals of alpha and
    beta as their ranges. `algorithm`: name in the sweep; for NCCL, which does not state its own, ring or tree. Raises
    `ReportError` (input) if the sweeps do not determine both."""
    names = ", ".join(run.path.name for run in runs)
    library = library_of(runs[0])
    if any(library_of(run) != library for run in runs):
        raise ReportError(INPUT, f"{names}: sweeps with MPI and with NCCL; give those of one")
    known = [name for name in ALGORITHMS.get(library, ()) if name != HIERARCHICAL]
    if algorithm not in known:
        raise ReportError(
            INPUT, f"{names}: no model to fit for the algorithm {algorithm} of {library}, only for {', '.join(known)}; give "
                   "a network description with its levels")
    columns, seconds = [], []
    for run in runs:
        require_one_level(run)
        wanted = labelled(algorithm, library)
        for (_, label), size, value in sweep_observations(run):
            if label in (wanted, f"{wanted} ({program_of(run)})"):
                columns.append(FLAT[algorithm](run.rank_count, size))
                seconds.append(value)
    fit = fit_linear(np.transpose(columns), seconds) if columns else None
    if fit is None or fit.dof < 1 or len({c[1] for c in columns}) < MINIMUM_SIZES:
        raise ReportError(
            INPUT, f"{names}: fewer than {MINIMUM_SIZES} measured sizes of the algorithm "
                   f"{algorithm}, which do not determine alpha and beta; give a sweep with more sizes")
    alpha, beta = fit.combination((1, 0)), fit.combination((0, 1))
    if beta.low <= 0:
        raise ReportError(INPUT, f"{names}: beta of {algorithm} is not distinguishable from 0; give "
                                 "a sweep with larger messages or more repeats")
    residual = 100 * float(np.abs(fit.residuals).max())
    level = Level("links of the sweep", None, Range(max(0.0, alpha.low), max(0.0, alpha.high)),
                  Range(beta.low, beta.high), True)
    return FittedNetwork(
        f"fit to {names}", library, algorithm, (level,),
        notes=(*warning_notes(runs),
               f"alpha {1e6 * alpha.value:.4g} µs per message ({1e6 * alpha.low:.4g} to "
               f"{1e6 * alpha.high:.4g}), beta {1e9 * beta.value:.4g} ns per byte "
               f"({1e9 * beta.low:.4g} to {1e9 * beta.high:.4g}), largest residual "
               f"{residual:.1f} %",), fit=fit)


def require_one_level(run):
    """Raises `ReportError` (input) if the ranks of a sweep communicate within and between hosts."""
    if 1 < run.host_count < run.rank_count:
        raise ReportError(INPUT, f"{run.path}: several ranks on several hosts, so alpha and beta belong to no single "
                                 "level; give sweeps with one rank per host, or on one host")
