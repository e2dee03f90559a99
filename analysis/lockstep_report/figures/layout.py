# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of texts, rows of panels, and legends."""

from functools import lru_cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from lockstep_report.figures.canvas import ONE_COLUMN, current, text_size
from lockstep_report.figures.style import plt
from lockstep_report.tables.table import equal_parts

POINTS_PER_INCH = 72


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
    """Returns the height of a panel beside a legend of the height `legend`, which is below the panel
    on paper."""
    return height if current().width else max(height, legend)


def chunks(items, unit):
    """Divides the bars of a panel, each `unit` inches wide, into parts that fit in one row."""
    return equal_parts(items, max(1, int((current().row + 1e-9) / unit)))


def rows_of(widths):
    """Distributes panels of these widths over rows of at most `current().row`. Returns the indices of
    the panels per row: [[index, ...], ...]."""
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
