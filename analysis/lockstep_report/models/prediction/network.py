# SPDX-License-Identifier: BSD-3-Clause
"""Networks of predictions, from descriptions in small JSON files (docs/analysis.md, "Network
description") or fitted to sweeps of `lockstep allreduce`, nccl-tests, OSU and IMB; and the time of
an all-reduce of b bytes by algorithm, from the latency alpha (s per message) and the inverse
bandwidth beta (s per byte) of a link in each direction. Each formula is linear in both, and is
defined by its two factors."""

import functools
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.measure.choices import labelled, library_of
from lockstep_report.measure.fitting import LinearFit, fit_linear, largest_residual
from lockstep_report.measure.link_bytes import LONGEST_EXCHANGE
from lockstep_report.measure.metrics import Bounds
from lockstep_report.measure.validity import warning_notes
from lockstep_report.models.fits import sweep_observations
from lockstep_report.runfile.experiment import program_of
from lockstep_report.runfile.file_kind import JSON, read_text

MINIMUM_SIZES = 3


def ring(ranks, size):
    """2(n-1) messages of b/n bytes, one after the other."""
    return 2 * (ranks - 1), 2 * (ranks - 1) / ranks * size


def direct(ranks, size):
    """Pairwise exchange: every rank sends b/n bytes to each other rank, twice; the messages are in
    flight at the same time, so their latencies overlap."""
    return 2, 2 * (ranks - 1) / ranks * size


def recursive_doubling(ranks, size):
    """log2 P exchanges of b bytes up to 16 KiB, otherwise halving-doubling (Rabenseifner): 2 log2 P
    messages and 2(P-1)/P b bytes; P is the largest power of two. If n is none, n - P ranks first
    send b bytes to another one and receive b bytes in the end."""
    levels = ranks.bit_length() - 1
    power = 1 << levels
    if size <= LONGEST_EXCHANGE:
        messages, sent = levels, levels * size
    else:
        messages, sent = 2 * levels, 2 * (power - 1) / power * size
    return (messages, sent) if power == ranks else (messages + 2, sent + 2 * size)


def tree(ranks, size):
    """Two pipelined binary trees that each reduce and broadcast half of the array: 2 log2 n
    latencies, and 2b bytes over the link of a rank in each direction."""
    return 2 * math.ceil(math.log2(ranks)), 2 * size


FLAT = {"ring": ring, "direct": direct, "recursive-doubling": recursive_doubling, "tree": tree}
HIERARCHICAL = "hierarchical"
# Algorithms of each library. The same name means the same formula, but the labels always contain
# the library, because protocols and constants differ.
ALGORITHMS = {
    "MPI": ("ring", "direct", "recursive-doubling", HIERARCHICAL),
    "NCCL": ("ring", "tree", HIERARCHICAL),
}


def flat_seconds(algorithm, ranks, size, alpha, beta):
    if ranks == 1:
        return 0.0 * alpha
    messages, sent = FLAT[algorithm](ranks, size)
    return messages * alpha + sent * beta


@dataclass(frozen=True)
class Level:
    """Links between `ranks` units; the units of the first level are ranks, those of a further level
    the groups of the level before it. `ranks` is None if it is not limited."""

    name: str
    ranks: int
    alpha: Bounds
    beta: Bounds
    is_shared: bool  # the ranks of a unit share one link; otherwise each rank has its own
    algorithm: str = "ring"  # of a hierarchical all-reduce, if this is the last level


@dataclass(frozen=True)
class Network:
    name: str
    library: str  # MPI or NCCL
    algorithm: str
    levels: tuple
    overlap: float = 1.0  # rate of the all-reduces during the backward pass, relative to the rest
    notes: tuple = ()

    @property
    def label(self):
        return f"{self.library} {self.algorithm}"

    def draw(self, random, count):
        """Returns `count` random values of each quantity: uniform between its ends."""
        return [
            tuple(
                values.low + random.random(count) * (values.high - values.low)
                for values in (level.alpha, level.beta)
            )
            for level in self.levels
        ]

    def seconds(self, ranks, size, values):
        """Returns the time of an all-reduce of `size` bytes. `values`: (alpha, beta) of each level,
        numbers or arrays. Raises `ReportError` (usage) if the ranks do not fill whole groups."""
        if ranks == 1:
            return 0.0 * values[0][0]
        units = self.units(ranks)
        if self.algorithm == HIERARCHICAL:
            return self.hierarchical_seconds(units, size, values)
        spanned = [i for i, count in enumerate(units) if count > 1]
        if self.algorithm != "ring" and len(spanned) > 1:
            raise ReportError(
                USAGE,
                f"{self.name}: {ranks} ranks span several levels, for which the algorithm "
                f"{self.algorithm} has no model; use hierarchical or ring",
            )
        # All links of a ring send at the same time: the slowest one determines each turn. A ring
        # crosses the link of a group once, so nothing is shared.
        alpha, beta = (
            functools.reduce(np.maximum, quantity)
            for quantity in zip(*(values[i] for i in spanned))
        )
        return flat_seconds(self.algorithm, ranks, size, alpha, beta)

    def hierarchical_seconds(self, units, size, values):
        """In each level but the last one a ring reduces 1/n of the array to each of its n units
        before the next level, and gathers the sums after it: together the time of an all-reduce by
        a ring. The last level reduces the part that remains with its own algorithm."""
        total, inner, last = 0.0, 1, len(units) - 1
        for i, (count, level, (alpha, beta)) in enumerate(zip(units, self.levels, values)):
            total = total + flat_seconds(
                level.algorithm if i == last else "ring",
                count,
                size,
                alpha,
                beta * inner if level.is_shared else beta,
            )
            inner *= count
            size = size / count
        return total

    def units(self, ranks):
        """Returns the number of units in each level that `ranks` ranks span."""
        found, rest = [], ranks
        for level in self.levels:
            units = rest if level.ranks is None else min(rest, level.ranks)
            if rest % units:
                raise ReportError(
                    USAGE,
                    f"--ranks {ranks}: level {level.name} of the network {self.name} has "
                    f"groups of {level.ranks}; use a multiple",
                )
            found.append(units)
            rest //= units
            if rest == 1:
                return found
        raise ReportError(
            USAGE, f"--ranks {ranks}: the network {self.name} has at most {ranks // rest} ranks"
        )


def read_network(path):
    """Reads a network description. Raises `ReportError` (input) if it is not valid."""
    path = Path(path)
    described = "docs/analysis.md describes the format"
    text = read_text(path, "a network description", (JSON,), described)
    try:
        content = json.loads(text)
        check(isinstance(content, dict), "it is no object")
        return level_network(content, path.stem)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        what = (
            f"{error.args[0]} is missing"
            if isinstance(error, KeyError)
            else str(error).splitlines()[0]
        )
        raise ReportError(
            INPUT, f"{path}: not a network description ({what}); {described}"
        ) from error


def level_network(content, name):
    refuse_unknown(content, ("name", "library", "algorithm", "overlap", "levels", "source"))
    library, algorithm = str(content["library"]), str(content["algorithm"])
    check(library in ALGORITHMS, f"library is {library}, not MPI or NCCL")
    check(
        algorithm in ALGORITHMS[library],
        f"algorithm {algorithm} is none of {library}: {', '.join(ALGORITHMS[library])}",
    )
    overlap, given = float(content.get("overlap", 1)), content["levels"]
    check(0 <= overlap <= 1, "overlap is not between 0 and 1")
    check(isinstance(given, list) and given, "levels is no list of levels")
    levels = tuple(level_of(item, i + 1, len(given), library) for i, item in enumerate(given))
    return Network(str(content.get("name", name)), library, algorithm, levels, overlap)


def level_of(item, number, count, library):
    refuse_unknown(item, ("name", "ranks", "alpha", "beta", "shared", "algorithm"))
    place, ranks, shared = f"level {number}", item.get("ranks"), item.get("shared", True)
    check(ranks is not None or number == count, f"ranks of {place} is missing")
    check(
        ranks is None or (type(ranks) is int and ranks >= 1),
        f"ranks of {place} is not a positive integer",
    )
    algorithm = str(item.get("algorithm", "ring"))
    check(
        algorithm in FLAT and algorithm in ALGORITHMS[library],
        f"algorithm {algorithm} of {place} is none of {library}",
    )
    check(isinstance(shared, bool), f"shared of {place} is neither true nor false")
    return Level(
        str(item.get("name", place)),
        ranks,
        range_of(item, "alpha"),
        range_of(item, "beta"),
        shared,
        algorithm,
    )


def check(is_valid, problem):
    if not is_valid:
        raise ValueError(problem)


def refuse_unknown(content, known):
    for key in content:
        check(key in known, f"unknown key {key}")


def range_of(content, key):
    """Reads a number, a pair from low to high, or an object with `value` and `source`."""
    value = content[key]
    if isinstance(value, dict):
        refuse_unknown(value, ("value", "unit", "source"))
        value = value["value"]
    pair = value if isinstance(value, list) else [value, value]
    check(
        len(pair) == 2 and not any(isinstance(x, (str, bool)) for x in pair),
        f"{key} is no number or pair of numbers",
    )
    low, high = map(float, pair)
    check(0 <= low <= high < math.inf, f"{key} is not a range of values that are at least 0")
    return Bounds(low, high)


@dataclass(frozen=True)
class FittedNetwork(Network):
    """A network whose alpha and beta are drawn from the joint distribution of their estimates
    (multivariate t), because they are strongly correlated. A negative alpha counts as 0."""

    fit: LinearFit = None

    def draw(self, random, count):
        covariance, dof = self.fit.spreads[0]
        lengths = np.sqrt(np.diag(covariance))
        lengths = np.where(
            lengths > 0, lengths, 1.0
        )  # alpha and beta differ by orders of magnitude
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
    names = ", ".join(run.path.name for run in runs)
    library = library_of(runs[0])
    if any(library_of(run) != library for run in runs):
        raise ReportError(INPUT, f"{names}: sweeps with MPI and with NCCL; give those of one")
    known = [name for name in ALGORITHMS.get(library, ()) if name != HIERARCHICAL]
    if algorithm not in known:
        raise ReportError(
            INPUT,
            f"{names}: no model to fit for the algorithm {algorithm} of {library}, only for"
            f" {', '.join(known)}; give a network description with its levels",
        )
    columns, seconds = [], []
    for run in runs:
        if 1 < run.host_count < run.rank_count:
            raise ReportError(
                INPUT,
                f"{run.path}: several ranks on several hosts, so alpha and beta belong to no single"
                " level; give sweeps with one rank per host, or on one host",
            )
        wanted, program = labelled(algorithm, library), program_of(run)
        for (_, label), size, value in sweep_observations(run):
            if label in (
                wanted,
                f"{wanted} ({program})",
                f"{labelled('unknown', library)} ({program})",
            ):
                columns.append(FLAT[algorithm](run.rank_count, size))
                seconds.append(value)
    fit = fit_linear(np.transpose(columns), seconds) if columns else None
    if fit is None or fit.dof < 1 or len({c[1] for c in columns}) < MINIMUM_SIZES:
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
        notes=(
            *warning_notes(runs),
            (
                f"alpha {1e6 * alpha.value:.4g} µs per message ({1e6 * alpha.low:.4g} to"
                f" {1e6 * alpha.high:.4g}), beta {1e9 * beta.value:.4g} ns per byte"
                f" ({1e9 * beta.low:.4g} to {1e9 * beta.high:.4g}), largest residual"
                f" {100 * largest_residual(fit.residuals):.1f} %"
            ),
        ),
        fit=fit,
    )
