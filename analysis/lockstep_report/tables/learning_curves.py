"""The table of learning curves: loss and accuracy after epochs of training runs."""

import numpy as np

from lockstep_report.measure.accuracy import attempt_notes, data_text, is_independent, seconds_of, trainings
from lockstep_report.runfile.settings import first_of
from lockstep_report.tables.table import Column, Table

MOST_ROWS = 12  # of one curve; `export` writes all epochs
MOST_CURVES = 24


def learning_table(runs):
    """Returns the table, or None if no run has a loss per epoch."""
    found = trainings([run for run in runs if run.has_steps and is_shown(run)])
    place = {text for _, group in found for text in place_of(group[0]).items()}
    several = {name for name in ("data", "model") if sum(key == name for key, _ in place) > 1}
    rows = [{**row, **{name: place_of(group[0])[name] for name in several}}
            for recipe, group in found[:MOST_CURVES] for row in rows_of(group, recipe)]
    if not rows:
        return None
    return Table(
        "learning-curves", "Learning curves: loss and accuracy after epochs",
        [Column("source", "Run"), Column("data", "Data"), Column("model", "Model"),
         Column("global_batch", "Global batch"), Column("ranks", "Ranks"), Column("recipe", "Options"), Column("epoch", "Epoch"),
         Column("steps", "Steps"), Column("seconds", "Training (s)", 1),
         Column("train_loss", "Training loss", 4), Column("test_loss", "Test loss", 4),
         Column("test_accuracy", "Test accuracy (%)", 2), Column("runs", "Runs")],
        rows,
        [f"at most {MOST_ROWS} epochs, evenly spaced, with the first and the last; at most "
         f"{MOST_CURVES} curves; medians over the runs that differ only in their seeds",
         "seconds: training time without waiting for data and without evaluation",
         *attempt_notes(runs)])


def place_of(run):
    return {"data": data_text(run), "model": run.option("model")}


def rows_of(group, recipe):
    """Returns the rows of runs that differ only in their seeds."""
    first = group[0]
    seconds = np.median([seconds_of(run) for run in group], axis=0)
    rows = np.searchsorted(first.epoch, first.epoch_numbers, side="right")
    steps = np.append(0, first.step + 1)[rows]
    return [{
        "source": first_of([run.label for run in group]), "global_batch": int(np.max(first.images)),
        "ranks": first.rank_count, "recipe": recipe or None,
        "epoch": int(first.epoch_numbers[place]), "steps": int(steps[place]),
        "seconds": float(seconds[place]), "train_loss": median_of(group, "train_loss", place, 1),
        "test_loss": median_of(group, "test_loss", place, 1),
        "test_accuracy": median_of(group, "test_accuracy", place, 100), "runs": len(group),
    } for place in shown(len(first.epoch_numbers))]


def is_shown(run):
    """Whether all ranks of a run train one network, and it has a loss."""
    losses = np.asarray(run.epochs.get("train_loss", ()), dtype=float)
    return len(losses) == len(run.epoch_numbers) > 0 and bool(np.isfinite(losses).any()) and (
        not is_independent(run))


def shown(count):
    """Returns the indices of at most MOST_ROWS of `count` epochs, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).round().astype(int))


def median_of(group, name, place, factor):
    """Returns the median over the runs; None if a run has no finite value."""
    values = [np.asarray(run.epochs.get(name, ()), dtype=float) for run in group]
    found = [column[place] for column in values if place < len(column)]
    if len(found) < len(group) or not np.all(np.isfinite(found)):
        return None
    return factor * float(np.median(found))
