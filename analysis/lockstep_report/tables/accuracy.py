# SPDX-License-Identifier: BSD-3-Clause
"""The tables of training results: test accuracy by global batch and options, time to an accuracy,
and learning curves."""

import numpy as np

from lockstep_report.measure.accuracy import (
    accuracy_curves,
    attempt_notes,
    data_text,
    is_independent,
    seconds_to_epochs,
    trainings,
)
from lockstep_report.runfile.settings import some_of
from lockstep_report.tables.table import Column, Table, percent, rows_of

TARGETS = (50, 60, 70, 75, 80, 85, 90, 91, 92, 93, 94, 95)  # test accuracy, per cent
SHOWN = 3  # the highest targets that a run reached
MOST_ROWS = 12  # of one learning curve; `export` writes all epochs
MOST_CURVES = 24
DATA, MODEL = Column("data", "Data"), Column("model", "Model")
TRAINING = [
    Column("global_batch", "Global batch"),
    Column("ranks", "Ranks"),
    Column("recipe", "Options"),
]
SECONDS_NOTE = "seconds: training time without waiting for data and without evaluation"


ACCURACY = [
    DATA,
    MODEL,
    *TRAINING,
    Column("epochs", "Epochs"),
    Column("updates", "Updates", value=lambda c: c.steps),
    Column("accuracy", "Test accuracy (%)", 2, value=lambda c: 100 * float(np.median(c.last))),
    Column("lowest", "lowest (%)", 2, value=lambda c: of_several(c.last, np.min)),
    Column("highest", "highest (%)", 2, value=lambda c: of_several(c.last, np.max)),
    Column("train_loss", "Training loss", 4, value=lambda c: float(np.median(c.train_loss))),
    Column("seconds", "Training (s)", 1, value=lambda c: float(np.median(c.seconds[:, -1]))),
    Column("runs", "Runs", value=lambda c: len(c.last)),
    Column("diverged", "Further runs that diverged", value=lambda c: len(c.diverged) or None),
]


def of_several(accuracies, end):
    """Returns an end of the accuracies of several runs in per cent; None for one run."""
    return 100 * float(end(accuracies)) if len(accuracies) > 1 else None


def accuracy_table(runs):
    curves = accuracy_curves(runs)
    shared = [name for name in ("model", "data") if len({getattr(c, name) for c in curves}) == 1]
    return Table(
        "accuracy",
        "Test accuracy by global batch",
        ACCURACY,
        [row | dict.fromkeys(shared) for row in rows_of(ACCURACY, curves)],
        [
            (
                "test accuracy: of the last evaluation; median over the runs (seeds), which differ"
                " by the given lowest and highest value; training loss: mean of the last epoch"
            ),
            "updates: steps of SGD; at a fixed number of epochs, a larger batch makes fewer",
            SECONDS_NOTE,
            *attempt_notes(runs),
            shared and "setting: " + ", ".join(getattr(curves[0], name) for name in shared),
        ],
    )


def time_to_accuracy_table(runs):
    """Returns one row per learning curve and target that a run reached."""
    curves = accuracy_curves(runs)
    best = max((np.nanmax(curve.accuracy) for curve in curves), default=0.0)
    targets = [target for target in TARGETS if target / 100 <= best][-SHOWN:]
    place = [MODEL, DATA, *TRAINING]
    return Table(
        "time-to-accuracy",
        "Time to a test accuracy",
        [
            *place,
            Column("target", "Target (%)"),
            Column("epochs", "Epochs"),
            Column("seconds", "Training (s)", 1),
            Column("reached", "Runs that reached it"),
            Column("runs", "Runs"),
        ],
        [
            row | target_values(curve, target)
            for curve, row in zip(curves, rows_of(place, curves))
            for target in targets
        ],
        [
            (
                "training seconds (without waiting for data and without evaluation) until the end"
                " of the first epoch whose test accuracy is at least the target; medians over the"
                " runs, if all of them reached it; a run that diverged has not reached it"
            ),
            f"targets: the highest of {', '.join(map(str, TARGETS))} % that a run reached",
            *attempt_notes(runs),
        ],
    )


def target_values(curve, target):
    # NaN: not evaluated.
    found = [np.flatnonzero(accuracy >= target / 100) for accuracy in curve.accuracy]
    reached = [
        (curve.epoch_numbers[epochs[0]], seconds[epochs[0]])
        for epochs, seconds in zip(found, curve.seconds)
        if len(epochs)
    ]
    count = len(found) + len(curve.diverged)
    epochs, seconds = (
        map(float, np.median(reached, axis=0)) if len(reached) == count else (None, None)
    )
    return {
        "target": target,
        "epochs": epochs,
        "seconds": seconds,
        "reached": len(reached),
        "runs": count,
    }


def learning_table(runs):
    found = trainings([run for run in runs if run.has_steps and has_training_curve(run)])
    places = [
        {"data": data_text(group[0]), "model": group[0].option("model")} for _, group in found
    ]
    several = [name for name in ("data", "model") if len({place[name] for place in places}) > 1]
    rows = [
        row | {name: place[name] for name in several}
        for place, (recipe, group) in zip(places, found[:MOST_CURVES])
        for row in curve_rows(group, recipe)
    ]
    return Table(
        "learning-curves",
        "Learning curves: loss and accuracy after epochs",
        [
            Column("source", "Run"),
            DATA,
            MODEL,
            *TRAINING,
            Column("epoch", "Epoch"),
            Column("steps", "Steps"),
            Column("seconds", "Training (s)", 1),
            Column("train_loss", "Training loss", 4),
            Column("test_loss", "Test loss", 4),
            Column("test_accuracy", "Test accuracy (%)", 2),
            Column("runs", "Runs"),
        ],
        rows,
        [
            (
                f"at most {MOST_ROWS} epochs, evenly spaced, with the first and the last; at most "
                f"{MOST_CURVES} curves; medians over the runs that differ only in their seeds"
            ),
            SECONDS_NOTE,
            *attempt_notes(runs),
        ],
    )


def curve_rows(group, recipe):
    """Returns the rows of a learning curve: at most MOST_ROWS epochs, with the first and the
    last."""
    first = group[0]
    count = len(first.epoch_numbers)
    seconds = np.median([seconds_to_epochs(run) for run in group], axis=0)
    steps = np.append(0, first.step + 1)[
        np.searchsorted(first.epoch, first.epoch_numbers, side="right")
    ]
    return [
        {
            "source": some_of([run.label for run in group], 1),
            "global_batch": int(np.max(first.images)),
            "ranks": first.rank_count,
            "recipe": recipe or None,
            "epoch": int(first.epoch_numbers[place]),
            "steps": int(steps[place]),
            "seconds": float(seconds[place]),
            "train_loss": median_at(group, "train_loss", place),
            "test_loss": median_at(group, "test_loss", place),
            "test_accuracy": percent(median_at(group, "test_accuracy", place)),
            "runs": len(group),
        }
        for place in np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).round().astype(int))
    ]


def has_training_curve(run):
    """Whether all ranks of a run train one network, and it has a loss."""
    losses = np.asarray(run.epochs.get("train_loss", ()), dtype=float)
    return (
        len(losses) == len(run.epoch_numbers) > 0
        and bool(np.isfinite(losses).any())
        and not is_independent(run)
    )


def median_at(group, name, place):
    """Returns the median over the runs; None if a run has no finite value."""
    values = np.concatenate(
        [run.epochs.get(name, ())[place : place + 1] for run in group], dtype=float
    )
    is_known = len(values) == len(group) and np.all(np.isfinite(values))
    return float(np.median(values)) if is_known else None
