# SPDX-License-Identifier: BSD-3-Clause
"""Export to the JSON format of Extra-P, which fits scaling models to repeated measurements."""

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.groups import grouped
from lockstep_report.measure.compare import step_values
from lockstep_report.measure.comparison import merge_repeats, one_rank
from lockstep_report.measure.points import point_of
from lockstep_report.measure.window import timed_window
from lockstep_report.runfile.settings import file_endings, setting_names
from lockstep_report.tables.table import json_text

RANKS, BATCH = "ranks", "batch_per_rank"  # parameters of the models
CALL_PATHS = {"step_seconds": "step", "all_reduce_seconds": "all-reduce",
              "all_reduce_call_seconds": "all-reduce->calls"}


def write(folder, runs, _selection):
    """Writes one file per setting and series, with the 1-rank runs of the setting that have the fewest other options."""
    trained = [(run, point) for run in runs if (point := point_of(run))]
    if not trained:
        raise ReportError(INPUT, f"{runs[0].path}: holds no steps; nothing to export")
    points = merge_repeats([point for _, point in trained])
    members = {source: p for p in points for source in p.sources}
    names = setting_names(p.setting for p in points)
    series = grouped((p for p in points if p.ranks > 1), lambda p: p.series)
    alone = {p.setting for p in points} - {p.setting for p in points if p.ranks > 1}
    series |= {p.series: [p] for p in points if p.setting in alone}
    endings = file_endings({key: f"{names[group[0].setting]} {mode_of(group[0])}".strip()
                            for key, group in series.items()})
    for key, group in series.items():
        bases = [one_rank(group[0], points, batch) for batch in {p.batch_per_rank for p in points}]
        chosen = [(run, point) for run, point in trained if members.get(run.label) in [*group, *filter(None, bases)]]
        folder.write(f"extra-p{endings[key]}.json", json_text(experiment(chosen)) + "\n", folder.kinds[0])


def mode_of(point):
    if point.ranks == 1:
        return point.detail
    return " ".join(filter(None, (point.reducer, point.gradient_dtype.replace("fp32", ""), point.detail)))


def experiment(trained):
    """Returns the mean time of a timed step for each call path, one value per run of one setting."""
    batches = {point.batch_per_rank for _, point in trained}
    parameters = [RANKS, BATCH] if len(batches) > 1 else [RANKS]
    measured = {}
    for run, point in trained:
        place = (point.ranks, point.batch_per_rank)[:len(parameters)]
        for name, seconds in step_values(run, timed_window(run).steps).items():
            path = CALL_PATHS.get(name) or "step->" + name.removesuffix("_seconds")
            measured.setdefault(path, {}).setdefault(place, []).append(float(seconds.mean()))
    for path, places in list(measured.items()):  # Extra-P needs each call path at every point
        for place, values in measured["step"].items():
            if place[0] == 1:
                places.setdefault(place, [0.0] * len(values))  # one rank has no all-reduce
        if len(places) < len(measured["step"]):
            del measured[path]
    return {"parameters": parameters, "measurements": {
        path: {"time": [{"point": list(place), "values": values} for place, values in sorted(places.items())]}
        for path, places in measured.items()}}
