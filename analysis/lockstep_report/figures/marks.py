# SPDX-License-Identifier: BSD-3-Clause
"""The marks of the figures: curves, stacked bars and the texts beside points, with the values that a browser shows."""

import numpy as np

from lockstep_report.figures.style import MARKERS, SERIES
from lockstep_report.figures.svg import show_values


def colour_of(index):
    return SERIES[index % len(SERIES)]


def marker_of(index):
    """Returns the marker of a series; with more series than colours, equal colours have different
    markers."""
    return MARKERS[(index + index // len(SERIES)) % len(MARKERS)]


def curve(axes, index, places, values, texts, **style):
    """Draws the curve of a series, whose points show `texts`."""
    line, = axes.plot(places, values, **{"color": colour_of(index), "marker": marker_of(index), "markersize": 6,
                                         "linewidth": 1.4, **style})
    show_values(line, texts)


def band(axes, index, places, low, high, alpha=0.15):
    """Fills the range of a series."""
    axes.fill_between(places, low, high, color=colour_of(index), alpha=alpha, linewidth=0)


def stack(axes, places, parts, text, **style):
    """Draws stacked bars. `parts`: [(label, colour, one value per bar)], from below; a bar shows `text(index, label,
    value)`."""
    bottom = np.zeros(len(places))
    for label, colour, values in parts:
        bars = axes.bar(places, values, bottom=bottom, color=colour, label=label, **style)
        show_values(bars, [text(i, label, value) for i, value in enumerate(values)])
        bottom = bottom + values


def text_above(axes, text, place, value, gap=3, **options):
    axes.annotate(text, (place, value), (0, gap), textcoords="offset points", ha="center", va="bottom", **options)
