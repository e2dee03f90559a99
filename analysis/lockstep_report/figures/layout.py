# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of texts, rows of panels, legends, and logarithmic axes whose tick labels do not overlap; and the
marks of the figures: curves, stacked bars and the texts beside points, with the values that a browser shows."""

import math
from functools import lru_cache

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import LogLocator, NullLocator

from lockstep_report.figures.canvas import ONE_COLUMN, current, text_size
from lockstep_report.figures.style import MARKERS, SERIES, light_grid, plt, show_values
from lockstep_report.tables.table import equal_parts

POINTS_PER_INCH = 72
SUFFIXES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def text_width(text, size=None):
    """Returns the width in inches of the longest line of `text` [the size of most texts]."""
    size = size or text_size()
    return max((line_width(line, size) for line in text.split("\n") if line.strip()), default=0.0)


@lru_cache(maxsize=4096)
def line_width(line, size):
    font = FontProperties(size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(line, font, ismath=False)
    return width / POINTS_PER_INCH


def wrap(text, width, size):
    """Returns `text` with line breaks, so that no line is wider than `width` inches."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= width:
            lines[-1] = longer
            continue
        while text_width(word, size) > width and len(word) > 1:
            fits = max((n for n in range(1, len(word)) if text_width(word[:n], size) <= width),
                       default=1)
            lines.append(word[:fits])
            word = word[fits:]
        lines.append(word)
    return "\n".join(line for line in lines if line)


def wrap_lines(text, width):
    """As `wrap` for each line of `text`, in the size of most texts."""
    return "\n".join(wrap(line, width, text_size()) for line in text.split("\n"))


def side_by_side(count, width, height, **options):
    """Makes a figure of wide panels in one row, which are in several rows on a narrow canvas. `width`: of the figure;
    `height`: of a row. Returns (figure, axes)."""
    columns = 1 if current().width == ONE_COLUMN.width else count
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, squeeze=False, figsize=(width, height * rows), **options)
    return figure, axes.ravel()


def height_beside(height, legend):
    """Returns the height of a panel beside a legend of this height, which is below the panel on paper."""
    return height if current().width else max(height, legend)


def chunks(items, unit):
    """Divides the bars of a panel, each `unit` inches wide, into parts that fit in one row."""
    return equal_parts(items, max(1, int((current().row + 1e-9) / unit)))


def rows_of(widths):
    """Returns the indices of the panels in rows of at most `current().row`: [[index, ...], ...]."""
    rows, filled = [[]], 0.0
    for index, width in enumerate(widths):
        if rows[-1] and filled + width > current().row:
            rows.append([])
            filled = 0.0
        rows[-1].append(index)
        filled += width
    return rows


def panel_figure(widths, beside, height, label=""):
    """Makes a figure of panels with these widths, in as many rows of the height `height` as they need, with
    `beside` inches to the right of the longest row; the first panel of each row has the vertical `label`. Returns
    (figure, rows of axes); the right end of a row that is not full stays empty."""
    rows = rows_of(widths)
    longest = max(sum(widths[i] for i in row) for row in rows)
    figure = plt.figure(figsize=(longest + beside, 0.4 + height * len(rows)))
    axes = []
    for row, place in zip(rows, figure.add_gridspec(len(rows), 1)):
        ratios = [widths[i] for i in row]
        rest = longest - sum(ratios)
        if rest > 0.01 * longest:
            ratios.append(rest)
        grid = place.subgridspec(1, len(ratios), width_ratios=ratios)
        axes.append([figure.add_subplot(grid[0, column]) for column in range(len(row))])
        axes[-1][0].set_ylabel(label)
    return figure, axes


def legend_beside(axes, panels=None, names=None, **options):
    """Adds one legend of the panels [`axes`] to the right of `axes`. `names`: the labels in their order [as
    drawn]; labels that were not drawn are left out."""
    handles = {}
    for panel in [axes] if panels is None else panels:
        for handle, name in zip(*panel.get_legend_handles_labels()):
            handles.setdefault(name, handle)
    shown = [name for name in names or handles if name in handles]
    axes.legend([handles[name] for name in shown], shown, loc="center left", bbox_to_anchor=(1.02, 0.5),
                **options)


def share_limits(axes):
    limits = [panel.get_ylim() for panel in axes]
    for panel in axes:
        panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def colour_of(index):
    return SERIES[index % len(SERIES)]


def marker_of(index):
    """Returns the marker of a series; series with equal colours have different markers."""
    return MARKERS[(index + index // len(SERIES)) % len(MARKERS)]


def curve(axes, index, places, values, texts, **style):
    """Draws the curve of a series, whose points show `texts`."""
    line, = axes.plot(places, values, **{"color": colour_of(index), "marker": marker_of(index), "markersize": 6,
                                         "linewidth": 1.4, **style})
    show_values(line, texts)


def band(axes, index, places, low, high, alpha=0.15):
    axes.fill_between(places, low, high, color=colour_of(index), alpha=alpha, linewidth=0)


def stack(axes, places, parts, text, **style):
    """Draws stacked bars of `parts`, [(label, colour, values)] from below; a bar shows `text(index, label, value)`."""
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
