# SPDX-License-Identifier: BSD-3-Clause
"""Network descriptions: small JSON files (docs/analysis.md, "Network description")."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.models.prediction.collectives import (
    ALGORITHMS, FLAT, HIERARCHICAL, flat_seconds, hierarchical_seconds)
from lockstep_report.runfile.file_kind import JSON, read_text


@dataclass(frozen=True)
class Range:
    """A quantity that is known to be between `low` and `high`."""

    low: float
    high: float


@dataclass(frozen=True)
class Level:
    """Links between `ranks` units; the units of the first level are ranks, those of a further level
    the groups of the level before it. `ranks` is None if it is not limited."""

    name: str
    ranks: int
    alpha: Range
    beta: Range
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
        return [tuple(values.low + random.random(count) * (values.high - values.low)
                      for values in (level.alpha, level.beta)) for level in self.levels]

    def seconds(self, ranks, size, values):
        """Returns the time of an all-reduce of `size` bytes. `values`: (alpha, beta) of each level,
        numbers or arrays. Raises `ReportError` (usage) if the ranks do not fill whole groups."""
        if ranks == 1:
            return 0.0 * values[0][0]
        used, inner = [], 1
        for units, level, (alpha, beta) in zip(self.units(ranks), self.levels, values):
            used.append((units, alpha, beta * inner if level.is_shared else beta, level.algorithm))
            inner *= units
        if self.algorithm == HIERARCHICAL:
            return hierarchical_seconds(used, size)
        spanned = [i for i, (units, *_) in enumerate(used) if units > 1]
        if self.algorithm != "ring" and len(spanned) > 1:
            raise ReportError(
                USAGE, f"{self.name}: {ranks} ranks span several levels, for which the algorithm "
                       f"{self.algorithm} has no model; use hierarchical or ring")
        # All links of a ring send at the same time: the slowest one determines each turn. A ring
        # crosses the link of a group once, so nothing is shared.
        alpha, beta = values[spanned[0]]
        for i in spanned[1:]:
            alpha, beta = np.maximum(alpha, values[i][0]), np.maximum(beta, values[i][1])
        return flat_seconds(self.algorithm, ranks, size, alpha, beta)

    def units(self, ranks):
        """Returns the number of units in each level that `ranks` ranks span."""
        found, rest = [], ranks
        for level in self.levels:
            units = rest if level.ranks is None else min(rest, level.ranks)
            if rest % units:
                raise ReportError(
                    USAGE, f"--ranks {ranks}: level {level.name} of the network {self.name} has "
                           f"groups of {level.ranks}; use a multiple")
            found.append(units)
            rest //= units
            if rest == 1:
                return found
        raise ReportError(
            USAGE, f"--ranks {ranks}: the network {self.name} has at most {ranks // rest} ranks")


def read_network(path):
    """Reads a network description. Raises `ReportError` (input) if it is not valid."""
    path = Path(path)
    described = "docs/analysis.md describes the format"
    text = read_text(path, "a network description", (JSON,), described)
    try:
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
        return level_network(content, path.stem)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error).splitlines()[0]
        raise ReportError(INPUT, f"{path}: not a network description ({what}); {described}") from error


def level_network(content, name):
    refuse_unknown(content, ("name", "library", "algorithm", "overlap", "levels", "source"))
    library, algorithm = str(content["library"]), str(content["algorithm"])
    if library not in ALGORITHMS:
        raise ValueError(f"library is {library}, not MPI or NCCL")
    if algorithm not in ALGORITHMS[library]:
        raise ValueError(f"algorithm {algorithm} is none of {library}: {', '.join(ALGORITHMS[library])}")
    overlap = float(content.get("overlap", 1))
    if not 0 <= overlap <= 1:
        raise ValueError("overlap is not between 0 and 1")
    given = content["levels"]
    if not isinstance(given, list) or not given:
        raise ValueError("levels is no list of levels")
    levels = tuple(level_of(item, i + 1, len(given), library) for i, item in enumerate(given))
    return Network(str(content.get("name", name)), library, algorithm, levels, overlap)


def level_of(item, number, count, library):
    refuse_unknown(item, ("name", "ranks", "alpha", "beta", "shared", "algorithm"))
    place, ranks, shared = f"level {number}", item.get("ranks"), item.get("shared", True)
    if ranks is None and number < count:
        raise KeyError(f"ranks of {place}")
    if ranks is not None and (not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 1):
        raise ValueError(f"ranks of {place} is not a positive integer")
    algorithm = str(item.get("algorithm", "ring"))
    if algorithm not in FLAT or algorithm not in ALGORITHMS[library]:
        raise ValueError(f"algorithm {algorithm} of {place} is none of {library}")
    if not isinstance(shared, bool):
        raise ValueError(f"shared of {place} is neither true nor false")
    alpha, beta = range_of(item, "alpha"), range_of(item, "beta")
    return Level(str(item.get("name", place)), ranks, alpha, beta, shared, algorithm)


def refuse_unknown(content, known):
    for key in content:
        if key not in known:
            raise ValueError(f"unknown key {key}")


def range_of(content, key):
    """Reads a number, a pair from low to high, or an object with `value` and `source`."""
    value = content[key]
    if isinstance(value, dict):
        refuse_unknown(value, ("value", "unit", "source"))
        value = value["value"]
    pair = value if isinstance(value, list) else [value, value]
    if len(pair) != 2 or any(isinstance(x, (str, bool)) for x in pair):
        raise ValueError(f"{key} is no number or pair of numbers")
    low, high = (float(x) for x in pair)
    if not 0 <= low <= high < math.inf:
        raise ValueError(f"{key} is not a range of values that are at least 0")
    return Range(low, high)
