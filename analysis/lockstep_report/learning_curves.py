"""The table of learning curves: loss and accuracy after some epochs of each training run."""

import numpy as np

from lockstep_report.accuracy import recipe_of, seconds_of
from lockstep_report.tables import Column, Table

MOST_ROWS = 12  # of one run; the CSV of `export` has all epochs
MOST_RUNS = 24


def learning_table(runs):
    """Returns the table, or None if no run has a loss per epoch."""
    rows = []
    for run in [run for run in runs if run.has_steps and is_shown(run)][:MOST_RUNS]:
        seconds = seconds_of(run)
        steps = np.searchsorted(run.epoch, run.epoch_numbers, side="right")
        for place in shown(len(run.epoch_numbers)):
            rows.append({
                "source": run.label, "global_batch": int(np.max(run.images)),
                "ranks": run.rank_count, "recipe": recipe_of(run) or None,
                "epoch": int(run.epoch_numbers[place]), "steps": int(steps[place]),
                "seconds": float(seconds[place]),
                "train_loss": value_of(run, "train_loss", place, 1),
                "test_loss": value_of(run, "test_loss", place, 1),
                "test_accuracy": value_of(run, "test_accuracy", place, 100)})
    if not rows:
        return None
    return Table(
        "learning-curves", "Learning curves: loss and accuracy after epochs",
        [Column("source", "Run"), Column("global_batch", "Global batch"),
         Column("ranks", "Ranks"), Column("recipe", "Optimiser"), Column("epoch", "Epoch"),
         Column("steps", "Steps"), Column("seconds", "Training (s)", 1),
         Column("train_loss", "Training loss", 4), Column("test_loss", "Test loss", 4),
         Column("test_accuracy", "Test accuracy (%)", 2)],
        rows,
        [f"at most {MOST_ROWS} epochs of each run, evenly spaced, with the first and the last; at "
         f"most {MOST_RUNS} runs",
         "seconds: training time without waiting for data and without evaluation"])


def is_shown(run):
    """Whether all ranks of a run train one network, and it has a loss."""
    losses = np.asarray(run.epochs.get("train_loss", ()), dtype=float)
    independent = run.option("reducer") == "none" and run.rank_count > 1
    return len(losses) == len(run.epoch_numbers) > 0 and bool(np.isfinite(losses).any()) and (
        not independent)


def shown(count):
    """Returns the indices of at most MOST_ROWS of `count` epochs, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).round().astype(int))


def value_of(run, name, place, factor):
    values = np.asarray(run.epochs.get(name, ()), dtype=float)
    if place >= len(values) or not np.isfinite(values[place]):
        return None
    return factor * float(values[place])
