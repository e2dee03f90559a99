"""Export to the JSON format of Extra-P, which fits scaling models to repeated measurements."""

from lockstep_report.compare.quantities import step_values
from lockstep_report.errors import INPUT, ReportError
from lockstep_report.json_output import json_text
from lockstep_report.points import point_of
from lockstep_report.settings import file_ending, setting_names
from lockstep_report.window import timed_window

RANKS, BATCH = "ranks", "batch_per_rank"  # parameters of the models
CALL_PATHS = {"step_seconds": "step", "all_reduce_seconds": "all-reduce",
              "all_reduce_call_seconds": "all-reduce->calls"}


def write(folder, runs, _selection):
    """Writes one file per setting and reducer. Runs with one rank belong to each reducer."""
    trained = [(run, point) for run in runs if (point := point_of(run))]
    if not trained:
        raise ReportError(INPUT, f"{runs[0].path}: holds no steps; nothing to export")
    names = setting_names(point.setting for _, point in trained)
    for setting, name in sorted(names.items()):
        own = [(run, point) for run, point in trained if point.setting == setting]
        modes = sorted({point.reducer for _, point in own if point.ranks > 1}) or [""]
        for mode in modes:
            chosen = [(run, point) for run, point in own if point.ranks == 1
                      or point.reducer == mode]
            text = json_text(experiment(chosen)) + "\n"
            folder.write(f"extra-p{file_ending(name)}{file_ending(mode)}.json", text,
                         folder.kinds[0])


def experiment(trained):
    """Returns the measurements of runs of one setting: for each call path the mean time of a timed
    step, one value per run."""
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
        path: {"time": [{"point": list(place), "values": values}
                        for place, values in sorted(places.items())]}
        for path, places in measured.items()}}
