# SPDX-License-Identifier: BSD-3-Clause
"""Fits of Amdahl's and Gustafson's laws to the epoch or step times of several rank counts, and of
the time of an all-reduce to alpha + beta · bytes, from sweeps and from the buckets of training
runs."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure.choices import (
    ALGORITHMS,
    ALL_REDUCES,
    algorithm_of,
    place_of,
    swept_algorithm,
)
from lockstep_report.measure.comparison import base_of, differences, scaling_series, strong_base_of
from lockstep_report.measure.fitting import (
    Estimate,
    LinearFit,
    fit_linear,
    largest_residual,
    mean_fit,
    sign_note,
)
from lockstep_report.runfile.experiment import (
    PROGRAM,
    distinguishing,
    program_of,
    text_of,
    variant_of,
)
from lockstep_report.runfile.settings import setting_of

AMDAHL, GUSTAFSON = "Amdahl", "Gustafson"
SWEEP, BUCKETS = "sweep", "buckets"
# Options that select what is fitted.
SIZES = (
    "min-bytes",
    "max-bytes",
    "step-factor",
    "repeats",
    "bucket-mib",
)
LARGE_RESIDUAL = 0.2  # a fit with a larger relative residual does not describe the times or sizes
TWO_COUNTS = (
    "no fit: times on two rank counts agree with every law; runs on a third rank count would"
    " test it"
)
SUPERLINEAR = (
    "below 0: the runs scale better than the ideal, so check that they had equal conditions"
)


@dataclass(frozen=True)
class ScalingFit:
    """The fit of one law to the points of one batch and series; `fit` and `serial` are None for two
    rank counts."""

    law: str
    points: tuple  # the merged points, in ascending order of ranks
    ranks: np.ndarray  # of each observation; repeated runs are separate observations
    seconds: np.ndarray  # observed: epoch (Amdahl) or step (Gustafson)
    fit: LinearFit = None
    serial: Estimate = None  # serial fraction s

    def predicted(self, ranks):
        values = self.fit.coefficients[0] + self.fit.coefficients[1] / np.asarray(ranks, float)
        return values if self.law == AMDAHL else 1 / values

    def speedup(self, ranks, seconds=None):
        """Returns T(1)/T(N) (Amdahl) or N·t(1)/t(N) (Gustafson). T(1) is that of the law, T(N) is
        `seconds` [that of the law]."""
        ratio = self.predicted(1) / (self.predicted(ranks) if seconds is None else seconds)
        return ratio if self.law == AMDAHL else ranks * ratio

    @property
    def residuals(self):
        """(observed - fitted) / fitted of the times."""
        return self.seconds / self.predicted(self.ranks) - 1

    @property
    def describes_times(self):
        return largest_residual(self.residuals) <= LARGE_RESIDUAL

    @property
    def notes(self):
        if self.fit is None:
            return [TWO_COUNTS]
        return list(
            filter(
                None,
                [
                    *(f"the points differ in {text}" for text in differences(*self.points)),
                    sign_note(self.serial, below=SUPERLINEAR),
                    residual_note("the law does not describe the times", self.residuals),
                ],
            )
        )

    @property
    def limit(self):
        """The speedup 1/s that Amdahl's law does not exceed; None if s is unknown, not positive or
        may be 0."""
        if (
            self.law != AMDAHL
            or self.serial is None
            or self.serial.value <= 0
            or self.serial.contains(0)
        ):
            return None
        return 1 / self.serial.value


def fit_law(law, ranks, seconds):
    """Fits Amdahl's T(N) = T(1) (s + (1-s)/N), or Gustafson's N·t(1)/t(N) = N - s (N-1), whose rate
    1/t(N) is ((1-s) + s/N) / t(1): both are linear in 1 and 1/N. Returns (fit, estimate of s); None
    if s is not determined.
    """
    ranks, seconds = np.asarray(ranks, dtype=float), np.asarray(seconds, dtype=float)
    fit = fit_linear(
        (np.ones(len(ranks)), 1 / ranks), seconds if law == AMDAHL else 1 / seconds, groups=ranks
    )
    if fit is None or fit.coefficients.sum() <= 0:
        return None
    return fit, fit.share(0 if law == AMDAHL else 1)


def scaling_fits(points):
    """Returns the fits of all groups of points with several rank counts, one of them 1."""
    sized = [p for p in points if p.batch_per_rank]
    series = [
        *(
            (AMDAHL, *one)
            for one in scaling_series(sized, strong_base_of, lambda p: p.global_batch)
        ),
        *((GUSTAFSON, *one) for one in scaling_series(points, base_of, lambda p: p.batch_per_rank)),
    ]
    return list(filter(None, (scaling_fit(law, [base, *group]) for law, base, group in series)))


def scaling_fit(law, group):
    """Returns the `ScalingFit` of a group of points; None if the parameter is not determined."""
    group = [p for p in group if all(0 < epoch < np.inf for epoch in p.epoch_repeats)]
    ranks = np.array([p.ranks for p in group for _ in p.epoch_repeats])
    seconds = np.array([fitted_seconds(law, p, s) for p in group for s in p.epoch_repeats])
    if len(set(ranks)) == 2:
        return ScalingFit(law, tuple(group), ranks, seconds)
    found = fit_law(law, ranks, seconds) if len(ranks) else None
    return found and ScalingFit(law, tuple(group), ranks, seconds, *found)


def fitted_seconds(law, point, epoch_seconds):
    """Returns the time that a law is about: of an epoch (Amdahl) or of a step (Gustafson). Without
    the number of steps it is a multiple of the step time, because N ranks make N times fewer."""
    if law == AMDAHL:
        return epoch_seconds
    return epoch_seconds / point.steps if point.steps else epoch_seconds * point.ranks


@dataclass(frozen=True)
class AlphaBeta:
    """The all-reduces of one algorithm on one number of ranks. `alpha` (s) and `beta` (s/byte) are
    those of the whole all-reduce; None if the sizes do not determine them."""

    algorithm: str  # with the library: "ring (MPI)"
    origin: str  # SWEEP or BUCKETS
    ranks: int
    hosts: int
    sources: tuple  # labels of the files
    sizes: np.ndarray  # bytes of each observation
    seconds: np.ndarray
    alpha: Estimate = None
    beta: Estimate = None
    fit: LinearFit = None
    notes: tuple = ()

    def predicted(self, sizes):
        return self.fit.coefficients[0] + self.fit.coefficients[1] * np.asarray(sizes, float)

    def time_of(self, size):
        return self.fit.combination((1, size))


class AlphaBetaFit(NamedTuple):
    """alpha, beta and their fit; all None if the sizes do not determine them."""

    alpha: Estimate
    beta: Estimate
    fit: LinearFit
    notes: tuple


def alpha_beta(sizes, seconds, jobs=None):
    """Returns the `AlphaBetaFit` seconds = alpha + beta · sizes: the mean of one fit for each of
    `jobs`, the name of the job of each observation [one job]. It needs three different sizes."""
    sizes, seconds = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    if len(set(sizes.tolist())) < 3:
        return without_fit("fewer than three sizes: alpha and beta cannot be separated")
    columns = (np.ones(len(sizes)), sizes)
    fit = fit_of_jobs(columns, seconds, np.zeros(len(sizes)) if jobs is None else np.asarray(jobs))
    if fit is None:
        return without_fit("the sizes do not determine alpha and beta")
    alpha, beta = fit.combination((1, 0)), fit.combination((0, 1))
    # Without intervals, both have the same note.
    notes = dict.fromkeys(
        [
            sign_note(alpha, "alpha is "),
            sign_note(beta, "beta is "),
            residual_note("one line does not describe all sizes", fit.residuals),
        ]
    )
    return AlphaBetaFit(alpha, beta, fit, tuple(filter(None, notes)))


def without_fit(note):
    return AlphaBetaFit(None, None, None, (note,))


def residual_note(text, residuals):
    """Returns a note with `text` if a residual is large; "" otherwise."""
    largest = largest_residual(residuals)
    return f"{text}: largest residual {100 * largest:.0f} %" if largest > LARGE_RESIDUAL else ""


def fit_of_jobs(columns, observed, jobs):
    """Returns the mean of the fits of the jobs; one fit of all, without interval, if a job alone
    determines none; or None."""
    fits = [
        fit_linear([column[jobs == job] for column in columns], observed[jobs == job])
        for job in dict.fromkeys(jobs.tolist())
    ]
    if None not in fits:
        return mean_fit(fits, columns, observed)
    fit = fit_linear(columns, observed)
    return fit and replace(
        fit,
        spreads=(),
        note="a job alone does not determine both, so the difference between the jobs is unknown",
    )


class Observed(NamedTuple):
    """What the observations of one fit have in common, besides the options that affect the
    time."""

    origin: str
    algorithm: str
    ranks: int
    hosts: int
    setting: tuple
    link_gbit: float
    gradient_dtype: str

    @property
    def place(self):
        """What fits have in common whose notes name the options in which they differ."""
        return self[:4]


class Observation(NamedTuple):
    source: str
    size: int
    seconds: float


def alpha_beta_fits(runs, timed):
    """Returns the fits of all sweeps of `runs` and of the buckets of the training runs `timed`, one
    per algorithm, number of ranks and hosts, setting, link, data type of the gradients and options
    that affect the time; the notes have the options in which the fits of an algorithm differ."""
    groups = {}
    found = [(run, sweep_observations(run)) for run in runs]
    found += [(t.run, bucket_observations(t)) for t in timed]
    for run, observations in found:
        conditions = conditions_of(run)
        for key, size, seconds in observations:
            observation = Observation(run.label, size, seconds)
            groups.setdefault((observed(run, *key), conditions), []).append(observation)
    alike = grouped(groups, lambda pair: pair[0].place, lambda pair: pair[1])
    made = [
        fit_of_observations(key, conditions, alike[key.place], rows)
        for (key, conditions), rows in groups.items()
    ]
    return sorted(made, key=order_of_fit)


def observed(run, origin, algorithm):
    return Observed(
        origin,
        algorithm,
        run.rank_count,
        run.host_count,
        setting_of(run),
        run.link_gbit,
        run.option("gradient-dtype"),
    )


def conditions_of(run):
    """Returns the options of a run that affect the time of its all-reduces."""
    options = frozenset(pair for pair in variant_of(run) if pair[0] not in SIZES)
    stated = {(name, run.option(name)) for name in ("reducer", "batch-per-rank", "global-batch")}
    return options | stated | {(PROGRAM, program_of(run))}


def fit_of_observations(key, conditions, alike, rows):
    """Returns the `AlphaBeta` of the observations `rows`. `alike`: the conditions of all fits of
    the same algorithm, ranks and hosts."""
    sources, sizes, seconds = zip(*rows)
    sizes, seconds = np.array(sizes, dtype=float), np.array(seconds)
    found = alpha_beta(sizes, seconds, sources)
    differing = distinguishing([(other, key.ranks) for other in alike])
    notes = [text_of(conditions, differing), *found.notes]
    has_interval = found.alpha is not None and found.alpha.has_interval
    if has_interval and len(set(sources)) == 1:
        notes.append("one job: the interval does not contain the difference between jobs")
    return AlphaBeta(
        algorithm=key.algorithm,
        origin=key.origin,
        ranks=key.ranks,
        hosts=key.hosts,
        sources=tuple(dict.fromkeys(sources)),
        sizes=sizes,
        seconds=seconds,
        alpha=found.alpha,
        beta=found.beta,
        fit=found.fit,
        notes=tuple(filter(None, notes)),
    )


def order_of_fit(found):
    """Returns the place of a fit in tables: sweeps first, then ranks and algorithms."""
    place = place_of(found.algorithm, ALGORITHMS)
    return (found.origin != SWEEP, found.ranks, (place, found.algorithm))


def sweep_observations(run):
    """Yields ((origin, algorithm), bytes, seconds): the median over the repeats of each size."""
    for i, size in enumerate(run.allreduce.get("bytes", ())):
        seconds = float(np.median(run.allreduce["seconds"][i]))
        if size > 0 and 0 < seconds < np.inf and run.rank_count > 1:
            yield (SWEEP, swept_algorithm(run, i)), int(size), seconds


def bucket_observations(timed):
    """Yields ((origin, algorithm), bytes, seconds): the median over the steps of each bucket;
    nothing for a run whose all-reduces may contain computation, because the bounds of its transfer
    do not agree."""
    if (
        timed.times is None
        or timed.run.option("reducer") not in ALL_REDUCES
        or timed.split.transfer_bounds.value is None
    ):
        return
    seconds = np.median(bucket_seconds(timed.times), axis=0)
    for size, value in zip(timed.run.bucket_bytes, seconds):
        if size > 0 and value > 0:
            yield (BUCKETS, algorithm_of(timed.run)), int(size), float(value)


def bucket_seconds(times):
    """Returns (step, bucket): the time from the later of the start on the last rank and the end of
    all earlier buckets to the end on the last rank. It is the time of the all-reduce alone if the
    network transfers one bucket after the other."""
    last = [(part.start.max(axis=1), part.end.max(axis=1)) for (part,) in times.blocks()]
    start, end = map(np.concatenate, zip(*last))
    before = np.maximum.accumulate(end, axis=1)[:, :-1]
    begin = np.concatenate([start[:, :1], np.maximum(start[:, 1:], before)], axis=1)
    return np.maximum(0.0, end - begin)
