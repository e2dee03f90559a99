# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of texts, rows of panels, legends, and logarithmic axes whose tick labels do not overlap;
and the marks of the figures: curves, stacked bars and the texts beside points, with the values that
a browser shows.
"""

import math
import textwrap
from functools import lru_cache

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import LogLocator, NullLocator

from lockstep_report.figures.canvas import current, length, text_size
from lockstep_report.figures.style import MARKERS, SERIES, light_grid, new_figure, show_values
from lockstep_report.groups import equal_parts


def text_width(text, size=None):
    """Returns the width in inches of the longest line of `text` [the size of most texts]."""
    return max(line_width(line, size or text_size()) for line in text.split("\n"))


@lru_cache(maxsize=4096)
def line_width(line, size):
    width, _, _ = text_to_path.get_text_width_height_descent(
        line, FontProperties(size=size), ismath=False
    )
    return width / 72


def wrap(text, width, size=None):
    """Returns `text` with further line breaks, so that no line is wider than `width` inches [the
    size of most texts]."""
    wrapped, lines = text, text.split("\n")
    # A few more than fit.
    characters = int(1.2 * width * max(map(len, lines)) / (text_width(text, size) or 1))
    while text_width(wrapped, size) > width and characters > 0:
        wrapped = "\n".join(
            textwrap.fill(line, characters, break_on_hyphens=False) for line in lines
        )
        characters -= 1
    return wrapped


def chunks(items, unit):
    """Divides the bars of a panel, each `unit` inches wide, into parts that fit in one row."""
    return equal_parts(items, max(1, int((current().row + 1e-9) / unit)))


def panel_figure(widths, height, titles=(), label="", is_shared=False):
    """Makes a figure of panels with these widths [at most a row] and `titles`, in as many rows of
    the height `height` as they need; the first panel of each row has the vertical `label`. If
    `is_shared`, all panels have the same vertical axis. The right end of a row that is not full
    stays empty."""
    shortest = min(length(2.2), current().row / 2)
    rows = [[]]
    for width in widths:
        width = min(current().row, max(width, shortest))
        if rows[-1] and sum(rows[-1]) + width > current().row:
            rows.append([])
        rows[-1].append(width)
    longest = max(map(sum, rows))
    figure = new_figure(longest + 0.9, height * len(rows))
    for row, place in zip(rows, figure.add_gridspec(len(rows), 1)):
        rest = longest - sum(row)
        ratios = [*row, rest] if rest > 0.01 * longest else row
        grid = place.subgridspec(1, len(ratios), width_ratios=ratios)
        for column in range(len(row)):
            shared = figure.axes[0] if is_shared and figure.axes else None
            axes = figure.add_subplot(grid[column], ylabel="" if column else label, sharey=shared)
            if is_shared:
                axes.label_outer()
    for axes, title in zip(figure.axes, titles):
        axes.set_title(title)
    return figure


def legend_entries(panels):
    """Returns {label: symbol} of all artists with a label."""
    return {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())
    }


def legend_beside(panels, stacked=(), **options):
    """Adds one legend of the panels to the right of the last one. `stacked`: the labels of stacked
    bars from below, of which some may not be drawn."""
    entries = legend_entries(panels)
    if stacked:
        entries = {name: entries[name] for name in reversed(stacked) if name in entries}
        options = {"handlelength": 1.0, "handleheight": 1.0}
    panels[-1].legend(
        list(entries.values()),
        list(entries),
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        **options,
    )


def colour_of(index):
    return SERIES[index % len(SERIES)]


def curve(axes, index, places, values, texts=None, **style):
    """Draws the curve of a series, whose points show the `texts`. Series of the same colour have
    different markers."""
    (line,) = axes.plot(
        places,
        values,
        **{
            "color": colour_of(index),
            "marker": MARKERS[(index + index // len(SERIES)) % len(MARKERS)],
            "markersize": 6,
            "linewidth": 1.4,
            **style,
        },
    )
    if texts is not None:
        show_values(line, texts)


def fit_line(axes, index, function, low, high, linestyle="-", linewidth=1.4):
    """Draws the positive values of a fitted function of a series from `low` to `high`."""
    places = np.geomspace(low, high, 60)
    values = function(places)
    is_shown = values > 0
    axes.plot(
        places[is_shown],
        values[is_shown],
        color=colour_of(index),
        linewidth=linewidth,
        linestyle=linestyle,
    )


def band(axes, index, places, low, high, alpha=0.15):
    axes.fill_between(places, low, high, color=colour_of(index), alpha=alpha, linewidth=0)


def stack(axes, places, parts, text, **style):
    """Draws stacked bars of `parts`, [(label, colour, values)]: values above 0 from 0 upwards,
    others downwards. A bar shows `text(index, label, value)`. Returns the (lower, upper) ends of
    the stacks."""
    below, above = np.zeros((2, len(places)))
    for label, colour, values in parts:
        values = np.asarray(values)
        bars = axes.bar(
            places,
            values,
            bottom=np.where(values < 0, below, above),
            color=colour,
            label=label,
            **style,
        )
        show_values(bars, [text(i, label, value) for i, value in enumerate(values)])
        below, above = below + np.minimum(values, 0), above + np.maximum(values, 0)
    return below, above


def bar_axes(axes, highest, labels=None, places=None):
    """Sets the limits and the grid of an axes with a bar at each of the `places`, and the tick
    labels below them, if given."""
    places = range(len(labels)) if places is None else places
    if labels is not None:
        axes.set_xticks(places, labels)
    axes.set(xlim=(-0.6, places[-1] + 0.6), ylim=(0, 1.15 * (highest or 1)))
    axes.yaxis.set_major_formatter("{x:,g}")
    light_grid(axes)


def text_above(axes, text, place, value, gap=3, **options):
    axes.annotate(
        text,
        (place, value),
        (0, gap),
        textcoords="offset points",
        ha="center",
        va="bottom",
        **options,
    )


def log_axis(axes, label, formatter="{x:,g}"):
    """Makes the horizontal axis logarithmic, with labels at powers of two, and adds a grid."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(formatter)
    axes.set_xlabel(label)
    light_grid(axes, "both")


def rank_axis(axes, counts, label="ranks N"):
    """Makes the horizontal axis logarithmic, with labels at numbers of ranks or threads, and adds a
    grid."""
    log_axis(axes, label)
    axes.set_xticks(labelled_ranks(counts))


def size_text(value, _=None):
    """Formats a number of bytes: "64 KiB"."""
    power = min(int(math.log2(max(value, 1)) / 10), 3)
    return f"{value / 1024**power:g} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def vertical_log_axis(axes, base=10):
    """Makes the vertical axis logarithmic, with labels at powers of `base`, and at 2 and 5 times
    those of ten if it is short."""
    axes.set_yscale("log", base=base)
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(
        LogLocator(base, (1, 2, 5) if base == 10 and high < 100 * low else (1,))
    )
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def labelled_ranks(ranks):
    """Returns the rank counts whose labels do not overlap on a logarithmic axis, in ascending
    order. The largest count has the highest priority, then powers of two. `ranks`: in ascending
    order."""
    width = 3.4 if current().width is None else 2.2  # of a panel with curves, inches
    octave = width / (math.log2(ranks[-1] / ranks[0]) or 1.0)
    shown = []
    for count in sorted(set(ranks), key=lambda n: (n != ranks[-1], math.log2(n) % 1 > 0, -n)):
        if all(
            octave * abs(math.log2(count / other)) > text_width(f"{count}{other}") / 2 + 0.08
            for other in shown
        ):
            shown.append(count)
    return sorted(shown)
