# SPDX-License-Identifier: BSD-3-Clause
"""Arranges the texts of a figure so that none is cut off or overlaps another text. On the screen,
the figure is enlarged; on a canvas of a fixed width, legends are below the axes, and the height is
what the texts need."""

import warnings
from typing import NamedTuple

import numpy as np
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

from lockstep_report.figures.canvas import current, length, text_size
from lockstep_report.figures.layout import legend_entries, text_width, wrap

ATTEMPTS = 12  # to enlarge a figure
GROWTH = 1.15  # factor by which a side that is too short is enlarged
MARGIN = 0.08  # above and below the title, the notes and the legend, inches
ROTATIONS = (45, 90)  # of the tick labels of horizontal axes, until they do not overlap
GAP = 0.03  # between texts beside each other, inches
# On a canvas with a height, in inches: space for the legend, for the tick labels and the label
# between it and the lowest axes, and for the titles above the highest axes.
LEGEND_AREA, BELOW_AXES, ABOVE_AXES = 1.0, 0.5, 0.62
# Least height of a figure that is as high as those beside it, and height of one with more rows of
# panels, relative to what the content needs.
ALIGNED, SHRUNK = 0.5, 0.65
SMALLEST_AXES = 0.1  # height of aligned axes, relative to that without alignment
# Widths in a legend, relative to the size of the text: the symbol of an entry and its spaces, the
# narrowest one, and the space between columns, which both contain.
HANDLE, NARROWEST_HANDLE, COLUMN_SPACE = 4.5, 3.8, 2.0
MOST_COLUMNS = 6  # of a legend
ROUNDING = 0.1  # of the widths of equal texts at different places, pixels


def arrange(figure, title="", notes=()):
    """Sets the title and the notes below the axes, enlarges the figure until every text is inside
    it and overlaps no other text (at most ATTEMPTS times), and fixes the layout. The title is the
    label of the figure. Returns the figure."""
    figure.set_label(title)
    is_paper = current().width is not None
    rotations = iter(ROTATIONS)
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    if is_paper:
        figure.set_size_inches(current().width, length(figure.get_figheight()))
    else:  # room for the legends beside the axes
        widest = max((legend.get_window_extent().width for legend in legends), default=0)
        figure.set_figwidth(figure.get_figwidth() + widest / figure.dpi)
    legend = common_legend(figure, legends) if is_paper else None
    legend_height = height_of(figure, legend) if legend else 0
    needed = figure.get_figheight() + write_around(figure, title, notes, legend, legend_height)
    figure.set_figheight(page_height(needed, legend_height) if current().height else needed)
    for _ in range(ATTEMPTS):
        write_around(figure, title, notes, legend, legend_height)
        lay_out(figure)
        if wrap_texts(figure):
            lay_out(figure)
        if current().height:
            align_rows(figure)
        wider, higher = missing_space(figure)
        if not wider and not higher:
            break
        if wider and is_paper:
            shorten_tick_labels(figure, next(rotations, None))
        width, height = figure.get_size_inches()
        if wider and not is_paper:
            width *= GROWTH
        if higher:
            height *= GROWTH
        figure.set_size_inches(width, height)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        # The last bits of the positions differ between processes; equal input gives equal files.
        axes.set_position([round(float(side), 9) for side in axes.get_position().bounds])
    return figure


def common_legend(figure, legends):
    """Replaces the legends of the axes by one of the figure, with as many columns as fit. Returns
    it; None without legends."""
    entries = legend_entries(figure.axes)
    names = dict.fromkeys(text.get_text() for legend in legends for text in legend.get_texts())
    for legend in legends:
        legend.remove()
    if not names:
        return None
    em = text_size() / 72
    labels = [wrap(name, figure.get_figwidth() - HANDLE * em) for name in names]
    narrowest = min(map(text_width, labels)) + NARROWEST_HANDLE * em
    most_columns = int((figure.get_figwidth() + COLUMN_SPACE * em) / narrowest)
    for columns in range(max(1, min(len(names), MOST_COLUMNS, most_columns)), 0, -1):
        legend = figure.legend(
            [entries[name] for name in names],
            labels,
            loc="lower center",
            ncol=columns,
            borderaxespad=0,
        )
        if columns == 1 or legend.get_window_extent().width <= 0.97 * figure.bbox.width:
            return legend
        legend.remove()
    return None


def height_of(figure, part):
    """Returns the height in inches of a text or legend with its margins. Lines are up to 5 % higher
    at another resolution."""
    return 1.05 * part.get_window_extent().height / figure.dpi + 2 * MARGIN


def write_around(figure, title, notes, legend, legend_height):
    """Writes the title above the axes, and below them the legend and the notes, one paragraph each.
    Returns the height of all in inches."""
    width, height = figure.get_size_inches()
    above = figure.suptitle(wrap(title, width - 0.3, text_size(11)), fontsize=text_size(11))
    paragraphs = figure.supxlabel(
        wrap("\n".join(notes), width - 0.3, text_size(8)),
        x=0.1 / width,
        ha="left",
        fontsize=text_size(8),
    )
    notes_height = height_of(figure, paragraphs)
    below = legend_height
    if current().height:  # the legend begins below the axes, also if it is small
        below = max(below, LEGEND_AREA)
    if legend:
        bottom = notes_height + below - legend_height
        legend.set_bbox_to_anchor((0.5, bottom / height))
    if below:
        figure.get_layout_engine().set(rect=(0, below / height, 1, 1 - below / height))
    return height_of(figure, above) + notes_height + legend_height


def page_height(needed, legend_height):
    """Returns the height in inches of a figure on a canvas with a height. `needed`: what the
    content needs. A legend that is higher than LEGEND_AREA makes the figure higher."""
    common = current().height
    least = common if ALIGNED * needed <= common else max(common, SHRUNK * needed)
    return least + max(0, legend_height - LEGEND_AREA)


class TickLabels(NamedTuple):
    """Those of a vertical axis, before the axes are moved."""

    ticks: np.ndarray
    width: float  # with the label of the axis, pixels


def align_rows(figure):
    """Moves and shrinks the axes so that the highest ones begin ABOVE_AXES below the upper end of
    the figure and the lowest ones end BELOW_AXES above the area of the legend, unless the texts
    there need more. The spaces between rows of axes, with their texts, keep their heights. Axes of
    another height may have other tick labels; if these are wider, the axes keep their ticks."""
    height = figure.get_figheight()
    boxes = [axes.get_position() for axes in figure.axes]
    tick_labels = [TickLabels(axes.get_yticks(), label_width(axes)) for axes in figure.axes]
    spans = joined_spans([(box.y0, box.y1) for box in boxes])
    low, high = spans[0], spans[-1]
    bottom = max(low, figure.get_layout_engine().get()["rect"][1] + BELOW_AXES / height)
    top = min(high, 1 - ABOVE_AXES / height)
    lengths = np.diff(spans)
    of_axes = lengths[::2].sum()
    # Axes without room are not turned over: they overlap the title, and the figure is enlarged.
    lengths[::2] *= max(SMALLEST_AXES, 1 - (high - low - (top - bottom)) / of_axes)
    moved = bottom + np.concatenate([[0], np.cumsum(lengths)])
    for axes, box, labels in zip(figure.axes, boxes, tick_labels):
        y0, y1 = np.interp((box.y0, box.y1), spans, moved)
        axes.set_position([box.x0, y0, box.width, y1 - y0])
        axes.set_in_layout(True)  # which `set_position` ends
        if label_width(axes) > labels.width + ROUNDING:
            axes.yaxis.set_major_locator(FixedLocator(labels.ticks))
            label_width(axes)  # which places the label again
        label = axes.xaxis.label  # whose vertical place is in pixels
        label.set_y(label.get_position()[1] + (y0 - box.y0) * figure.bbox.height)


def label_width(axes):
    """Returns the width of the tick labels and of the label of the vertical axis in pixels. The
    label is placed beside the tick labels, which change with the position of the axes."""
    labels = axes.yaxis.get_tightbbox(axes.figure.canvas.get_renderer())
    return axes.bbox.x0 - labels.x0 if labels else 0


def joined_spans(spans):
    """Returns the ends of the union of `spans` (low, high) in ascending order: low, high, low,
    ..."""
    ends = []
    for low, high in sorted(spans):
        if ends and low <= ends[-1]:
            ends[-1] = max(ends[-1], high)
        else:
            ends += [low, high]
    return np.array(ends)


def wrap_texts(figure):
    """Breaks titles and labels that are longer than the axes. Returns whether a text has
    changed."""
    has_changed = False
    for axes in figure.axes:
        box = axes.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        title = axes.set_title(axes.get_title(loc="left"))
        for text, room in (
            (title, box.width),
            (axes.xaxis.label, box.width),
            (axes.yaxis.label, box.height),
        ):
            wrapped = wrap(text.get_text(), max(0.8, room))
            has_changed |= wrapped != text.get_text()
            text.set_text(wrapped)
    return has_changed


def shorten_tick_labels(figure, rotation):
    """Rotates the tick labels of horizontal axes, or removes every second one if `rotation` is
    None."""
    for axes in figure.axes:
        ticks, labels = axes.get_xticks(), [text.get_text() for text in axes.get_xticklabels()]
        if rotation:
            axes.tick_params(axis="x", rotation=rotation)
        elif len(ticks) > 3 and len(ticks) == len(labels):
            axes.set_xticks(ticks[::2], labels[::2])


def lay_out(figure):
    """Computes the positions of the axes and of all texts. Those in a legend are known only after
    it is drawn. Other artists are not drawn, which would take as long as the layout."""
    with warnings.catch_warnings():  # a figure that is too small is enlarged later
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure.get_layout_engine().execute(figure)
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    for legend in filter(None, legends):
        legend.draw(figure.canvas.get_renderer())


def missing_space(figure):
    """Returns (wider, higher): whether the figure must be wider or higher to fit its texts and
    legends."""
    boxes = np.array([box.extents for box in text_boxes(figure)]).reshape(-1, 4)
    canvas = figure.bbox
    width, height = overlaps(boxes)
    common = (width > -GAP * figure.dpi) & (height > 0)
    wider = np.any((boxes[:, 0] < canvas.x0) | (boxes[:, 2] > canvas.x1)) or np.any(
        width[common] <= height[common]
    )
    higher = np.any((boxes[:, 1] < canvas.y0) | (boxes[:, 3] > canvas.y1)) or np.any(
        height[common] <= width[common]
    )
    return wider, higher or any(
        axes.get_legend() and axes.get_legend().get_window_extent().height > axes.bbox.height
        for axes in figure.axes
    )


def overlaps(boxes):
    """Returns the widths and the heights of the overlaps of each pair of boxes (x0, y0, x1, y1)."""
    first, second = np.triu_indices(len(boxes), 1)
    low = np.maximum(boxes[first, :2], boxes[second, :2])
    high = np.minimum(boxes[first, 2:], boxes[second, 2:])
    return (high - low).T


def text_boxes(figure):
    """Returns the extents in pixels of all visible texts, without tick labels outside the axes."""
    left_out = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        left_out |= {
            tick.label1
            for tick in axis.get_major_ticks()
            if not low - slack <= tick.get_loc() <= high + slack
        }
    texts = (t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip())
    return [text.get_window_extent() for text in texts if text not in left_out]
