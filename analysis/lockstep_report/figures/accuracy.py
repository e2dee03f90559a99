# SPDX-License-Identifier: BSD-3-Clause
"""Figure of learning curves: test accuracy over epochs and over seconds."""

import numpy as np
from matplotlib.ticker import MaxNLocator

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import length
from lockstep_report.figures.layout import band, curve, legend_beside, panel_figure
from lockstep_report.figures.style import light_grid, short_number
from lockstep_report.measure.accuracy import accuracy_curves
from lockstep_report.runfile.settings import plural, runs_text


def accuracy_figure(runs):
    """Returns the figure of the runs that were evaluated after at least two epochs; None without
    one."""
    curves = [c for c in accuracy_curves(runs) if np.isfinite(c.accuracy).any(axis=0).sum() > 1]
    if not curves:
        return None
    labels = labels_of(curves)
    figure = panel_figure(
        [length(4.5)] * 2,
        3.5,
        ("Test accuracy (%) after epochs", "Test accuracy (%) after seconds of training"),
        is_shared=True,
    )
    left, right = figure.axes
    for index, (found, label) in enumerate(zip(curves, labels)):
        shown = np.isfinite(found.accuracy).all(axis=0)
        accuracy, epochs = 100 * found.accuracy[:, shown], found.epoch_numbers[shown]
        values, seconds = np.median(accuracy, axis=0), np.median(found.seconds[:, shown], axis=0)
        texts = [
            f"{label}, epoch {epoch}, {short_number(second)} s: {value:.2f} %"
            for epoch, second, value in zip(epochs, seconds, values)
        ]
        for axes, places in ((left, epochs), (right, seconds)):
            curve(axes, index, places, values, texts, label=label, markersize=5)
        if len(found.labels) > 1:
            band(left, index, epochs, accuracy.min(axis=0), accuracy.max(axis=0))
    left.set_xlabel("epochs")
    left.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    right.set_xlabel("training time without waiting for data, seconds")
    for axes in (left, right):
        light_grid(axes, "both")
    legend_beside([right])
    return arrange(
        figure,
        "Learning curves: " + ", ".join(sorted({c.model for c in curves})),
        ["Medians of " + runs_text([len(c.labels) for c in curves], "curve")],
    )


def labels_of(curves):
    """Returns one label per curve with the properties in which the curves differ; the batch if they
    differ in none."""
    parts = [
        ", ".join(
            filter(
                None,
                (c.model, c.data, f"batch {c.global_batch}", plural(c.ranks, "rank"), c.recipe),
            )
        ).split(", ")
        for c in curves
    ]
    common = set.intersection(*map(set, parts))
    return [
        ", ".join(part for part in own if part not in common) or f"batch {c.global_batch}"
        for c, own in zip(curves, parts)
    ]
