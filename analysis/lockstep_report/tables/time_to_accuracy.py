"""The table of the time to an accuracy: training seconds until a test accuracy is reached."""

import numpy as np

from lockstep_report.measure.accuracy import accuracy_curves, attempt_notes
from lockstep_report.tables.table import Column, Table

TARGETS = (50, 60, 70, 75, 80, 85, 90, 91, 92, 93, 94, 95)  # test accuracy, per cent
SHOWN = 3  # the highest targets that a run reached


def first_epoch(accuracy, target):
    """Returns the index of the first epoch whose accuracy is at least `target`; None if there is
    none. NaN: the epoch was not evaluated."""
    reached = np.flatnonzero(np.nan_to_num(np.asarray(accuracy), nan=-1.0) >= target)
    return int(reached[0]) if len(reached) else None


def time_to_accuracy_table(runs):
    """Returns one row per learning curve and target; None if no run reached a target."""
    curves = accuracy_curves(runs)
    best = max((np.nanmax(curve.accuracy) for curve in curves), default=0.0)
    targets = [target for target in TARGETS if target / 100 <= best][-SHOWN:]
    if not targets:
        return None
    rows = [row_of(curve, target) for curve in curves for target in targets]
    return Table(
        "time-to-accuracy", "Time to a test accuracy",
        [Column("model", "Model"), Column("data", "Data"), Column("global_batch", "Global batch"),
         Column("ranks", "Ranks"), Column("recipe", "Options"), Column("target", "Target (%)"),
         Column("epochs", "Epochs"), Column("seconds", "Training (s)", 1),
         Column("reached", "Runs that reached it"), Column("runs", "Runs")],
        rows,
        ["training seconds (without waiting for data and without evaluation) until the end of the "
         "first epoch whose test accuracy is at least the target; medians over the runs, if all of "
         "them reached it; a run that diverged did not",
         f"targets: the highest of {', '.join(map(str, TARGETS))} % that a run reached",
         *attempt_notes(runs)])


def row_of(curve, target):
    found = [first_epoch(accuracy, target / 100) for accuracy in curve.accuracy]
    reached = [(epoch, seconds[epoch]) for epoch, seconds in zip(found, curve.seconds)
               if epoch is not None]
    count = len(found) + len(curve.diverged)
    is_known = len(reached) == count
    return {
        "model": curve.model, "data": curve.data, "global_batch": curve.global_batch,
        "ranks": curve.ranks, "recipe": curve.recipe, "target": target,
        "epochs": float(np.median([curve.epoch_numbers[epoch] for epoch, _ in reached])) if is_known else None,
        "seconds": float(np.median([seconds for _, seconds in reached])) if is_known else None,
        "reached": len(reached), "runs": count,
    }
