# SPDX-License-Identifier: BSD-3-Clause
"""Export to the JSON format of Extra-P, which fits scaling models to repeated measurements."""

from collections.abc import Callable
from typing import NamedTuple

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import merge_repeats, one_rank
from lockstep_report.measure.estimates import step_values
from lockstep_report.measure.points import point_of
from lockstep_report.measure.window import timed_window
from lockstep_report.runfile.settings import file_endings, setting_names
from lockstep_report.tables.table import json_text

RANKS, BATCH = "ranks", "batch_per_rank"  # parameters of the models
CALL_PATHS = {
    "step_seconds": "step",
    "all_reduce_seconds": "all-reduce",
    "all_reduce_call_seconds": "all-reduce->calls",
}


def write(folder, runs, _selection):
    """Writes one file per setting, series and model, with the 1-rank runs of the setting that have
    the fewest other options."""
    trained = [(run, point) for run in runs if (point := point_of(run))]
    if not trained:
        raise ReportError(INPUT, f"{runs[0].path}: holds no steps; nothing to export")
    points = merge_repeats([point for _, point in trained])
    members = {source: p for p in points for source in p.sources}
    names = setting_names(p.setting for p in points)
    series = grouped((p for p in points if p.ranks > 1), lambda p: p.series)
    alone = {p.setting for p in points} - {p.setting for p in points if p.ranks > 1}
    series |= {p.series: [p] for p in points if p.setting in alone}
    found = {}
    for key, group in series.items():
        bases = [one_rank(group[0], points, batch) for batch in {p.batch_per_rank for p in points}]
        chosen = [
            (run, point)
            for run, point in trained
            if members.get(run.label) in [*group, *filter(None, bases)]
        ]
        name = f"{names[group[0].setting]} {mode_of(group[0])}".strip()
        found |= {
            (key, line): (f"{name} {line}".strip(), *model)
            for line, model in models(chosen).items()
        }
    endings = file_endings({key: name for key, (name, *_) in found.items()})
    for key, (_, parameters, chosen) in found.items():
        folder.write(
            f"extra-p{endings[key]}.json",
            json_text(experiment(chosen, parameters)) + "\n",
            folder.kinds[0],
        )


def mode_of(point):
    if point.ranks == 1:
        return point.detail
    return " ".join(
        filter(None, (point.reducer, point.gradient_dtype.replace("fp32", ""), point.detail))
    )


class Line(NamedTuple):
    """A kind of lines in the plane of ranks and batches per rank."""

    name: str  # with a place for the value
    value: Callable  # (ranks, batch) -> value that is the same on a line
    parameter: str  # that differs on a line


OF_RANKS = (
    Line("batch {} per rank", lambda ranks, batch: batch, RANKS),
    Line("global batch {}", lambda ranks, batch: ranks * batch, RANKS),
)
OF_BATCHES = (Line("{} ranks", lambda ranks, batch: ranks, BATCH),)


def models(trained):
    """Returns {name: (parameters, runs and points)} of the models that the runs of a series permit.
    Extra-P fits a constant if one of two parameters follows from the other. So there are two
    parameters only if each number of ranks was measured with each batch; otherwise one per line: of
    ranks with the same batch, or the same global batch, whichever lines are longer.
    """
    places = sorted({ranks_and_batch(point) for _, point in trained})
    ranks, batches = ({place[axis] for place in places} for axis in (0, 1))
    if min(len(ranks), len(batches)) > 1 and len(places) == len(ranks) * len(batches):
        return {"": ([RANKS, BATCH], trained)}
    lines = (
        longest_lines(places, OF_RANKS)
        or longest_lines(places, OF_BATCHES)
        or {tuple(places): ("", RANKS)}
    )
    return {
        name if len(lines) > 1 else "": (
            [parameter],
            [(run, point) for run, point in trained if ranks_and_batch(point) in own],
        )
        for own, (name, parameter) in lines.items()
    }


def ranks_and_batch(point):
    return point.ranks, point.batch_per_rank


def longest_lines(places, kinds):
    """Returns {places of a line: (name, parameter)} of the kinds with the longest lines; {} if each
    line is one place."""
    lines = [places_by_value(places, kind) for kind in kinds]
    lengths = [max(map(len, of.values())) for of in lines]
    found = {}
    for kind, of, length in zip(kinds, lines, lengths):
        if length == max(lengths) > 1:
            found |= {
                tuple(own): (kind.name.format(value), kind.parameter)
                for value, own in of.items()
                if len(own) > 1
            }
    return found


def places_by_value(places, kind):
    return grouped(places, lambda place: kind.value(*place))


def experiment(trained, parameters):
    """Returns the mean time of a timed step for each call path, one value per run of one
    setting."""
    measured = {}
    for run, point in trained:
        for name, seconds in step_values(run, timed_window(run).steps).items():
            path = CALL_PATHS.get(name) or "step->" + name.removesuffix("_seconds")
            measured.setdefault(path, {}).setdefault(ranks_and_batch(point), []).append(
                float(seconds.mean())
            )
    for path, places in list(measured.items()):  # Extra-P needs each call path at every point
        for place, values in measured["step"].items():
            if place[0] == 1:
                places.setdefault(place, [0.0] * len(values))  # one rank has no all-reduce
        if len(places) < len(measured["step"]):
            del measured[path]
    axes = [(RANKS, BATCH).index(parameter) for parameter in parameters]
    return {
        "parameters": parameters,
        "measurements": {
            path: {
                "time": [
                    {"point": [place[axis] for axis in axes], "values": values}
                    for place, values in sorted(places.items())
                ]
            }
            for path, places in measured.items()
        },
    }
