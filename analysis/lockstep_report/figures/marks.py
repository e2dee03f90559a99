# SPDX-License-Identifier: BSD-3-Clause
"""The marks of the figures: curves, stacked bars and the texts beside points, with the values that a browser shows; and
logarithmic axes, whose tick labels do not overlap."""

import math

import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

from lockstep_report.figures.canvas import current
from lockstep_report.figures.layout import text_width
from lockstep_report.figures.style import MARKERS, SERIES, light_grid, show_values

SUFFIXES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


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


def rank_axis(axes, counts, label="ranks N"):
    """Makes the horizontal axis logarithmic, with labels at numbers of ranks or threads, and adds a grid."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(labelled_ranks(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel(label)
    light_grid(axes, "both")


def size_axis(axes, label):
    """Makes both axes logarithmic, the horizontal one of a number of bytes, and adds a grid."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(size_text)
    axes.set_xlabel(label)
    light_grid(axes, "both")


def size_text(value, _=None):
    """Formats a number of bytes: "64 KiB"."""
    for unit, name in SUFFIXES:
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"


def label_decades(axes):
    """Labels the powers of ten of a logarithmic vertical axis, and 2 and 5 times these if it is short."""
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def labelled_ranks(ranks):
    """Returns the rank counts whose labels do not overlap on a logarithmic axis, in ascending order. The largest
    count has the highest priority, then powers of two. `ranks`: in ascending order."""
    width = 3.4 if current().width is None else 2.2  # of a panel with curves, inches
    inches = width / (math.log2(ranks[-1] / ranks[0]) or 1.0)
    shown = []
    for count in sorted(set(ranks), key=lambda n: (n != ranks[-1], not is_power(n), -n)):
        at, room = inches * math.log2(count / ranks[0]), text_width(str(count)) / 2 + 0.04
        if all(abs(at - other) > room + taken for _, other, taken in shown):
            shown.append((count, at, room))
    return sorted(count for count, _, _ in shown)


def is_power(value):
    return value == int(value) and int(value) & (int(value) - 1) == 0
