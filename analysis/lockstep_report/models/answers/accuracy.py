# SPDX-License-Identifier: BSD-3-Clause
"""Answers about the test accuracy: what was reached, and what a large batch costs."""

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure.accuracy import RECIPE, accuracy_curves, is_shown
from lockstep_report.models.answers.answer import Answer, AnswerKind
from lockstep_report.runfile.experiment import LOCKSTEP, PROGRAM, unlike
from lockstep_report.runfile.settings import plural

REMEDIES = tuple(pair for pair in RECIPE if pair[0] != "lr")  # of large batches


def accuracy_answers(runs):
    """The test accuracies at the smallest and the largest global batch, with the numbers of
    updates: one answer per dataset and model."""
    groups = grouped(accuracy_curves(runs), lambda curve: (curve.data, curve.model))
    return [accuracy_answer(curves) for curves in groups.values()]


def accuracy_answer(curves):
    epochs = max(curve.epochs for curve in curves)
    equal = [curve for curve in curves if curve.epochs == epochs]
    batches = sorted({curve.global_batch for curve in equal})
    chosen = [
        max((c for c in equal if c.global_batch == batch), key=median_accuracy)
        for batch in dict.fromkeys((batches[0], batches[-1]))
    ]
    texts = [reached_text(curve) for curve in chosen]
    trained = " on ".join(filter(None, (chosen[0].model, chosen[0].data)))
    text = (
        f"After {plural(epochs, 'epoch')}, the test accuracy of {trained} is {' and '.join(texts)}."
    )
    values = {
        f"percent_at_global_batch_{curve.global_batch}": median_accuracy(curve) for curve in chosen
    }
    labels = ", ".join(label for curve in chosen for label in curve.labels)
    return Answer(AnswerKind.ACCURACY, text, labels, values)


def reached_text(curve):
    recipe = f"; {curve.recipe}" if curve.recipe else ""
    return (
        f"{accuracy_text(curve)} at global batch {curve.global_batch} "
        f"({curve.steps:,} updates{recipe})"
    )


def large_batches(runs):
    """What a larger global batch costs in accuracy, and which remedies were measured."""
    groups = grouped(
        accuracy_curves(runs), lambda curve: (curve.data, curve.model, program_of_curve(curve))
    )
    return [
        batch_answer(curves, runs, epochs)
        for curves in groups.values()
        for epochs in sorted({curve.epochs for curve in curves})
        if len({curve.global_batch for curve in curves if curve.epochs == epochs}) > 1
    ]


def program_of_curve(curve):
    return dict(curve.options).get(PROGRAM, LOCKSTEP)


def median_accuracy(curve):
    """Returns the median over the runs of the last test accuracy, in per cent."""
    return 100 * float(np.median(curve.last))


def accuracy_text(curve):
    spread = ""
    if len(curve.last) > 1:
        spread = f" ({100 * curve.last.min():.2f} to {100 * curve.last.max():.2f})"
    return f"{median_accuracy(curve):.2f} %{spread}"


class BatchComparison:
    """The curves of `epochs` epochs at the smallest and the largest global batch, of the same data
    and model."""

    def __init__(self, curves, epochs):
        equal = [c for c in curves if c.epochs == epochs]
        batches = sorted({c.global_batch for c in equal})
        self.epochs, self.largest = epochs, batches[-1]
        smallest = [c for c in equal if c.global_batch == batches[0]]
        large = [c for c in equal if c.global_batch == self.largest]
        self.small = max(smallest, key=median_accuracy)
        self.best = max(large, key=median_accuracy)
        # The curve that differs least from the one of the small batch.
        self.shown = min(large, key=lambda c: (len(self.changes(c)), -median_accuracy(c)))
        self.tried = [c for c in curves if c.global_batch == self.largest]
        self.longer = max(
            (c for c in self.tried if c.epochs > epochs), key=median_accuracy, default=None
        )

    def changes(self, curve):
        """Returns the properties in which a curve differs from that of the small batch."""
        return unlike((curve.options, curve.ranks), (self.small.options, self.small.ranks))

    @property
    def lost(self):
        """The percentage points that the large batch loses."""
        return median_accuracy(self.small) - median_accuracy(self.shown)


def batch_answer(curves, runs, epochs):
    found = BatchComparison(curves, epochs)
    small, shown = found.small, found.shown
    best, longer = found.best, found.longer
    texts = [cost_text(found)]
    if best is not shown:
        texts.append(f"With {recipe_text(best)} it is {accuracy_text(best)} at {found.largest}.")
    if longer:
        texts.append(
            f"After {longer.epochs} epochs it is {accuracy_text(longer)} ({recipe_text(longer)})."
        )
    untried = untried_remedies(found, runs)
    if found.lost > 0 and untried and program_of_curve(small) == LOCKSTEP:
        # Other programs do not record these options.
        texts.append(f"Not tried at {found.largest}: {', '.join(untried)}.")
    if min(len(small.last), len(shown.last)) < 2:
        texts.append("One run per batch does not show how much of this is the seed.")
    labels = dict.fromkeys(
        label for c in (small, shown, best, longer or best) for label in c.labels
    )
    values = {
        "small_batch": small.global_batch,
        "small_percent": median_accuracy(small),
        "large_batch": found.largest,
        "large_percent": median_accuracy(shown),
        "best_large_percent": median_accuracy(best),
    }
    return Answer(AnswerKind.LARGE_BATCH, " ".join(texts), ", ".join(labels), values)


def cost_text(found):
    small, shown = found.small, found.shown
    fewer = small.steps / shown.steps
    recipe = "the same optimiser"
    if found.changes(shown):
        recipe = f"{recipe_text(shown)} instead of {recipe_text(small)}"
    direction = "less" if found.lost >= 0 else "more"
    change = f"{abs(found.lost):.2f} points {direction}"
    if abs(found.lost) < 0.005:
        change = "as much"
    updates = f", with {fewer:.3g} times fewer updates" if fewer > 1 else ""
    return (
        f"After {found.epochs} epochs, the test accuracy is {accuracy_text(small)} at global batch "
        f"{small.global_batch} and {accuracy_text(shown)} at {found.largest} with {recipe}, "
        f"{change}{updates}."
    )


def recipe_text(curve):
    return curve.recipe or "the default options"


def untried_remedies(found, runs):
    labels = {label for curve in found.tried for label in curve.labels}
    chosen = [run for run in runs if run.label in labels]
    untried = [
        f"--{name}"
        for name, value in REMEDIES
        if not any(is_shown(run.option(name), value) for run in chosen)
    ]
    return untried if found.longer else [*untried, "more epochs"]
