"""The table of learning curves: loss and accuracy after epochs of training runs."""

import numpy as np

from lockstep_report.accuracy import attempt_notes, recipe_of, seconds_of, training_of
from lockstep_report.repeats import split_repeats
from lockstep_report.settings import first_of
from lockstep_report.tables import Column, Table

MOST_ROWS = 12  # of one curve; `export` writes all epochs
MOST_CURVES = 24


def learning_table(runs):
    """Returns the table, or None if no run has a loss per epoch."""
    groups = {}
    for run in split_repeats(runs, training_of)[0]:
        if run.has_steps and is_shown(run):
            key = (int(np.max(run.images)), run.rank_count, recipe_of(run),
                   tuple(run.epoch_numbers.tolist()), run.option("data"), run.option("model"))
            groups.setdefault(key, []).append(run)
    rows = [row for group in list(groups.values())[:MOST_CURVES] for row in rows_of(group)]
    if not rows:
        return None
    return Table(
        "learning-curves", "Learning curves: loss and accuracy after epochs",
        [Column("source", "Run"), Column("global_batch", "Global batch"),
         Column("ranks", "Ranks"), Column("recipe", "Optimiser"), Column("epoch", "Epoch"),
         Column("steps", "Steps"), Column("seconds", "Training (s)", 1),
         Column("train_loss", "Training loss", 4), Column("test_loss", "Test loss", 4),
         Column("test_accuracy", "Test accuracy (%)", 2), Column("runs", "Runs")],
        rows,
        [f"at most {MOST_ROWS} epochs, evenly spaced, with the first and the last; at most "
         f"{MOST_CURVES} curves; medians over the runs that differ only in their seeds",
         "seconds: training time without waiting for data and without evaluation",
         *attempt_notes(runs)])


def rows_of(group):
    """Returns the rows of runs that differ only in their seeds."""
    first = group[0]
    seconds = np.median([seconds_of(run) for run in group], axis=0)
    rows = np.searchsorted(first.epoch, first.epoch_numbers, side="right")
    steps = np.append(0, first.step + 1)[rows]
    return [{
        "source": first_of([run.label for run in group]), "global_batch": int(np.max(first.images)),
        "ranks": first.rank_count, "recipe": recipe_of(first) or None,
        "epoch": int(first.epoch_numbers[place]), "steps": int(steps[place]),
        "seconds": float(seconds[place]), "train_loss": median_of(group, "train_loss", place, 1),
        "test_loss": median_of(group, "test_loss", place, 1),
        "test_accuracy": median_of(group, "test_accuracy", place, 100), "runs": len(group),
    } for place in shown(len(first.epoch_numbers))]


def is_shown(run):
    """Whether all ranks of a run train one network, and it has a loss."""
    losses = np.asarray(run.epochs.get("train_loss", ()), dtype=float)
    independent = run.option("reducer") == "none" and run.rank_count > 1
    return len(losses) == len(run.epoch_numbers) > 0 and bool(np.isfinite(losses).any()) and (
        not independent)


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
