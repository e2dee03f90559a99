# SPDX-License-Identifier: BSD-3-Clause
"""Reads networks from JSON files.
docs/report-reference.md ("Network description") describes the format."""

import json
import math
from pathlib import Path

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.measure.metrics import Bounds
from lockstep_report.models.prediction.collectives import FLAT, MODELLED
from lockstep_report.models.prediction.network import Level, Network
from lockstep_report.runfile.file_kind import JSON, read_text

EXAMPLE = (  # alpha and beta of a network of 10 Gbit/s
    '{"library": "MPI", "algorithm": "ring", "levels": [{"alpha": 2e-5, "beta": 8e-10}]}'
)


def read_network(path):
    """Reads a network description. Raises `ReportError` (input) if it is not valid."""
    path = Path(path)
    described = "docs/report-reference.md describes the format"
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
    """Returns the network of the content of a file. `name`: of a network without one. Raises
    `ValueError` or `KeyError` if it is not valid."""
    refuse_unknown(content, ("name", "library", "algorithm", "overlap", "levels", "source"))
    library, algorithm = str(content["library"]), str(content["algorithm"])
    check(library in MODELLED, f"library is {library}, not MPI or NCCL")
    check(
        algorithm in MODELLED[library],
        f"algorithm {algorithm} is none of {library}: {', '.join(MODELLED[library])}",
    )
    overlap, given = float(content.get("overlap", 1)), content["levels"]
    check(0 <= overlap <= 1, "overlap is not between 0 and 1")
    check(isinstance(given, list) and given, "levels is no list of levels")
    levels = tuple(level_of(item, i + 1, len(given), library) for i, item in enumerate(given))
    return Network(str(content.get("name", name)), library, algorithm, levels, overlap)


def level_of(item, number, count, library):
    """Returns the level `number` of `count`, as `level_network`."""
    refuse_unknown(item, ("name", "ranks", "alpha", "beta", "shared", "algorithm"))
    place, ranks, shared = f"level {number}", item.get("ranks"), item.get("shared", True)
    check(ranks is not None or number == count, f"ranks of {place} is missing")
    check(
        ranks is None or (type(ranks) is int and ranks >= 1),
        f"ranks of {place} is not a positive integer",
    )
    algorithm = str(item.get("algorithm", "ring"))
    check(
        algorithm in FLAT and algorithm in MODELLED[library],
        f"algorithm {algorithm} of {place} is none of {library}",
    )
    check(isinstance(shared, bool), f"shared of {place} is neither true nor false")
    return Level(
        str(item.get("name", place)),
        ranks,
        bounds_of(item, "alpha"),
        bounds_of(item, "beta"),
        shared,
        algorithm,
    )


def check(is_valid, problem):
    if not is_valid:
        raise ValueError(problem)


def refuse_unknown(content, known):
    for key in content:
        check(key in known, f"unknown key {key}")


def bounds_of(content, key):
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
