"""The table of test accuracy by global batch and options."""

import numpy as np

from lockstep_report.measure.accuracy import accuracy_curves, attempt_notes
from lockstep_report.tables.table import Column, Table


def accuracy_table(runs):
    """Returns the table, or None if no run has been evaluated."""
    curves = accuracy_curves(runs)
    if not curves:
        return None
    several = {name: len({getattr(c, name) for c in curves}) > 1 for name in ("data", "model")}
    rows = [{
        "data": curve.data if several["data"] else None,
        "model": curve.model if several["model"] else None,
        "global_batch": curve.global_batch, "ranks": curve.ranks, "recipe": curve.recipe,
        "epochs": curve.epochs, "updates": curve.steps,
        "accuracy": 100 * float(np.median(curve.last)),
        "lowest": 100 * float(curve.last.min()) if len(curve.last) > 1 else None,
        "highest": 100 * float(curve.last.max()) if len(curve.last) > 1 else None,
        "train_loss": float(np.median(curve.train_loss)),
        "seconds": float(np.median(curve.seconds[:, -1])), "runs": len(curve.last),
        "diverged": len(curve.diverged) or None,
    } for curve in curves]
    first = curves[0]
    shared = [text for name, text in (("model", first.model), ("data", first.data))
              if not several[name]]
    notes = ["test accuracy: of the last evaluation; median over the runs (seeds), which differ by "
             "the given lowest and highest value; training loss: mean of the last epoch",
             "updates: steps of SGD; at a fixed number of epochs, a larger batch makes fewer",
             "seconds: training time without waiting for data and without evaluation",
             *attempt_notes(runs)]
    if shared:
        notes.append("setting: " + ", ".join(shared))
    return Table(
        "accuracy", "Test accuracy by global batch",
        [Column("data", "Data"), Column("model", "Model"), Column("global_batch", "Global batch"),
         Column("ranks", "Ranks"), Column("recipe", "Options"), Column("epochs", "Epochs"),
         Column("updates", "Updates"), Column("accuracy", "Test accuracy (%)", 2),
         Column("lowest", "lowest (%)", 2), Column("highest", "highest (%)", 2),
         Column("train_loss", "Training loss", 4), Column("seconds", "Training (s)", 1),
         Column("runs", "Runs"), Column("diverged", "Further runs that diverged")], rows, notes)
