# SPDX-License-Identifier: BSD-3-Clause
"""Reads the numbers from the artists of figures."""

import json

import numpy as np
from lockstep_report.figures.style import VALUES
from matplotlib.text import Annotation


def numbers(values):
    """Returns the values with six significant digits, so that they can be compared with ==."""
    return [float(f"{value:.6g}") + 0.0 for value in np.asarray(values, dtype=float).ravel()]


def bars(axes):
    """Returns {label: [[x, y, width, height], ...]} of bars in either direction; bars without a
    label continue those before them."""
    found, label = {}, None
    for container in axes.containers:
        label = label if container.get_label().startswith("_") else container.get_label()
        found.setdefault(label, []).extend(
            numbers((bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()))
            for bar in container
        )
    return found


def lines(axes):
    """Returns [(label, x values, y values)] of all lines; the label is None if the legend has
    none."""
    return [
        (
            None if line.get_label().startswith("_") else line.get_label(),
            numbers(line.get_xdata()),
            numbers(line.get_ydata()),
        )
        for line in axes.lines
    ]


def notes(axes):
    """Returns [(text, x, y)] of the texts beside points."""
    return [
        (text.get_text(), *numbers(text.xy))
        for text in axes.texts
        if isinstance(text, Annotation) and text.get_text()
    ]


def ticks(axis):
    """Returns [(place, label)] of the ticks of an axis."""
    return [
        (*numbers([place]), axis.get_major_formatter()(place, index))
        for index, place in enumerate(axis.get_ticklocs())
    ]


def values(axes):
    """Returns the texts that a browser shows at bars and markers."""
    return [
        text
        for artist in axes.get_children()
        if (artist.get_gid() or "").startswith(VALUES)
        for text in json.loads(artist.get_gid().removeprefix(VALUES))
    ]
