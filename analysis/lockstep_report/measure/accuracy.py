# SPDX-License-Identifier: BSD-3-Clause
"""Curves of the test accuracy of training runs."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import is_diverged, left_out_note, split_repeats
from lockstep_report.measure.window import open_times, timed_seconds
from lockstep_report.runfile.experiment import (
    distinguishing,
    is_of_software,
    results_of,
    text_of,
    variant_of,
)
from lockstep_report.runfile.settings import (
    SETTING_PARTS,
    data_with_images,
    setting_of,
    uses_threads,
)

# Options that are always shown: (name, value that is not shown).
RECIPE = (
    ("optimizer", "sgd"),
    ("lr", ""),
    ("lr-schedule", "constant"),
    ("lr-scaling", "none"),
    ("warmup-epochs", "0"),
    ("grad-clip", "0"),
    ("label-smoothing", "0"),
    ("bn", "broadcast"),
)
# Options that have no effect with some values of another one: {name: (the other one, values)}.
WITHOUT_EFFECT = {
    "lr-reference-batch": ("lr-scaling", ("none",)),
    "trust-coefficient": ("optimizer", ("sgd", "adamw")),
    "nesterov": ("optimizer", ("lars", "adamw")),
    "momentum": ("optimizer", ("adamw",)),
}
LENGTH = {"epochs", "steps"}  # shown only if runs of equal lengths differ in them


@dataclass(frozen=True)
class AccuracyCurve:
    """Repeats of a training, which differ in their seeds. Accuracies are shares of 1, lists have
    one element per run."""

    data: str
    model: str
    global_batch: int
    ranks: int
    recipe: str  # options, as text
    epoch_numbers: np.ndarray  # (epoch), from 1; without those of a part that was not found
    steps: int  # of the run until its end
    accuracy: np.ndarray  # (run, epoch), test accuracy; NaN if an epoch was not evaluated
    seconds: np.ndarray  # (run, epoch), training seconds from the start to the end of the epoch
    train_loss: np.ndarray  # (run), of the last epoch
    labels: tuple  # names of the runs
    properties: frozenset = frozenset()  # `properties_of` the runs
    diverged: tuple = ()  # names of further runs, whose loss was not finite

    @property
    def epochs(self):
        """Number of epochs that the runs trained."""
        return int(self.epoch_numbers[-1])

    @property
    def options(self):
        """The properties without the software and the machine."""
        return frozenset(
            (name, value)
            for name, value in self.properties
            if name != "device name" and not is_of_software(name)
        )

    @property
    def last(self):
        """(run): test accuracy of the last evaluated epoch."""
        return np.array([row[~np.isnan(row)][-1] for row in self.accuracy])


def is_shown(value, hidden):
    """Whether an option of RECIPE has another value than the one that is not shown."""
    return value not in ("", "none", "never", hidden)


def has_effect(run, name):
    """Whether an option can have an effect on the results of a run, given its other options."""
    other, values = WITHOUT_EFFECT.get(name, (name, ()))
    return run.option(other) not in values


def recipe_of(run, names):
    """Returns the options of RECIPE and the properties `names` that have an effect as text: "lr
    0.1, lr-schedule cosine"."""
    names = {name for name in names - {"train-samples", *dict(RECIPE)} if has_effect(run, name)}
    return ", ".join(
        filter(
            None,
            (
                *(
                    f"{name} {run.option(name)}"
                    for name, hidden in RECIPE
                    if is_shown(run.option(name), hidden)
                ),
                text_of(properties_of(run), names),
            ),
        )
    )


def properties_of(run):
    """Returns the properties of a run that affect results or time, except those that `training_of`
    has besides, and the seed."""
    stated = dict(zip(SETTING_PARTS, setting_of(run))) | {
        "threads": run.option("threads") if uses_threads(run) else ""
    }
    if run.rank_count > 1:
        stated |= {name: run.option(name) for name in ("reducer", "gradient-dtype")}
    return (
        variant_of(run)
        | results_of(run)
        | {
            (name, value)
            for name, value in stated.items()
            if value and name not in ("model", "data")
        }
    )


class Training(NamedTuple):
    """What the attempts and the repeats of a training have in common."""

    data: str
    model: str
    global_batch: int
    ranks: int
    properties: frozenset


def training_of(run):
    return Training(
        data=data_text(run),
        model=run.option("model"),
        global_batch=batch_of(run),
        ranks=run.rank_count,
        properties=properties_of(run),
    )


def trainings(runs):
    """Returns [(recipe, repeats)] of runs that trained one network, without attempts that did not
    finish. The recipes have the properties in which the trainings differ."""
    found = list(
        grouped(
            split_repeats(runs, training_of)[0],
            lambda run: (training_of(run), tuple(run.epoch_numbers.tolist())),
        ).values()
    )
    lengths = [
        [(properties_of(first), first.rank_count) for first, *_ in group]
        for group in grouped(
            found, lambda repeats: tuple(repeats[0].epoch_numbers.tolist())
        ).values()
    ]
    names = distinguishing([item for items in lengths for item in items]) - LENGTH
    names |= set().union(*(distinguishing(items) & LENGTH for items in lengths))
    return [(recipe_of(repeats[0], names), repeats) for repeats in found]


def is_independent(run):
    return run.option("reducer") == "none" and run.rank_count > 1


def batch_of(run):
    if run.has_steps:
        return int(np.max(run.images))
    return (run.number("batch-per-rank") or 0) * run.rank_count or run.number("global-batch")


def attempt_notes(runs):
    """Returns notes about the training runs that did not finish and are not counted, or
    diverged."""
    return [
        (
            f"{run.label} diverged: its loss was not finite"
            if is_diverged(run)
            else left_out_note(run.label, run.status)
        )
        for run in split_repeats(runs, training_of)[1]
        if run.has_steps or is_diverged(run)
    ]


def last_accuracy(run):
    """Returns the last test accuracy, a share of 1; None if no epoch was evaluated."""
    values = np.asarray(run.epochs.get("test_accuracy", ()), dtype=float)
    values = values[np.isfinite(values)]
    return float(values[-1]) if len(values) else None


def accuracy_curves(runs):
    """Returns one `AccuracyCurve` per training and number of epochs, sorted by batch. Runs without
    a test accuracy, independent replicas and attempts that did not finish are left out."""
    evaluated = [
        run
        for run in runs
        if run.has_steps and not is_independent(run) and last_accuracy(run) is not None
    ]
    left_out = split_repeats(
        [run for run in runs if run.has_steps or is_diverged(run)], training_of
    )[1]
    diverged = grouped(filter(is_diverged, left_out), training_of)
    curves = [
        curve_of(recipe, repeats, diverged.get(training_of(repeats[0]), ()))
        for recipe, repeats in trainings(evaluated)
    ]
    return sorted(
        curves,
        key=lambda c: (
            c.data,
            c.model,
            c.global_batch,
            c.ranks,
            c.recipe,
            c.epoch_numbers.tolist(),
        ),
    )


def data_text(run):
    """Returns the dataset and the number of training images, if it is known."""
    return data_with_images(run, run.number("train-samples"))


def curve_of(recipe, runs, diverged):
    first = runs[0]
    return AccuracyCurve(
        **training_of(first)._asdict(),
        recipe=recipe,
        epoch_numbers=np.array(first.epoch_numbers),
        steps=int(first.step[-1]) + 1,
        accuracy=np.array([np.asarray(run.epochs["test_accuracy"], dtype=float) for run in runs]),
        seconds=np.array([seconds_to_epochs(run) for run in runs]),
        train_loss=np.array([float(run.epochs["train_loss"][-1]) for run in runs]),
        labels=tuple(run.label for run in runs),
        diverged=tuple(run.label for run in diverged),
    )


def seconds_to_epochs(run):
    """Returns (epoch): the training time from the start of the run to the end of each epoch."""
    if "seconds_to_epochs" not in run.known:
        with open_times(run) as source:
            seconds = [
                timed_seconds(source, np.flatnonzero(run.epoch == number))[1].sum()
                for number in run.epoch_numbers
            ]
        run.known["seconds_to_epochs"] = np.cumsum(seconds)
    return run.known["seconds_to_epochs"]
