# SPDX-License-Identifier: BSD-3-Clause
"""A network of a prediction: its levels of links, and the time of an all-reduce on it."""

import functools
from dataclasses import dataclass

import numpy as np

from lockstep_report.errors import USAGE, ReportError
from lockstep_report.measure.metrics import Bounds
from lockstep_report.models.prediction.collectives import HIERARCHICAL, flat_seconds


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
    is_of_one_host: bool = False  # measured between ranks of one host

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
            algorithm = level.algorithm if i == last else "ring"
            own_beta = beta * inner if level.is_shared else beta
            total = total + flat_seconds(algorithm, count, size, alpha, own_beta)
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
