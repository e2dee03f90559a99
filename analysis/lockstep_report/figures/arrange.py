# SPDX-License-Identifier: BSD-3-Clause
"""Arranges the texts of a figure so that none is cut off or overlaps another text. On the screen, the figure is enlarged;
on a canvas of a fixed width, legends and notes are below the axes, and the height is what they need."""

import warnings

import numpy as np
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

from lockstep_report.figures.canvas import current, length, text_size
from lockstep_report.figures.layout import text_width, wrap, wrap_lines

ATTEMPTS = 12  # to enlarge a figure
GROWTH = 1.15  # factor by which a side that is too short is enlarged
TITLE_SIZE = 11
NOTE_SIZE = 8
NOTE_HEIGHT = 0.14  # height of a line of a note, inches
MARGIN = 0.05  # inches
ROTATIONS = (0, 45, 90)  # of the tick labels of horizontal axes, until they do not overlap
LINE = 1.25  # height of a line relative to the size of its text
HANDLE = 3.6  # width of the symbol of a legend entry and its spaces, relative to the text


def arrange(figure, title="", notes=()):
    """Sets the title and the notes below the axes, enlarges the figure until every text is inside
    it and overlaps no other text (at most ATTEMPTS times), and fixes the layout. The title is the label of
    the figure."""
    figure.set_label(title)
    if current().width:
        arrange_on_paper(figure, title, notes)
        return
    lines = set_notes(figure, notes)
    figure.set_figheight(figure.get_figheight() + NOTE_HEIGHT * lines)
    for _ in range(ATTEMPTS):
        set_notes(figure, notes)
        if title:
            figure.suptitle(wrap(title, figure.get_figwidth() - 0.3, TITLE_SIZE), fontsize=TITLE_SIZE)
        draw(figure)
        wider, higher = missing_space(figure)
        if not wider and not higher:
            break
        width, height = figure.get_size_inches()
        figure.set_size_inches(width * (GROWTH if wider else 1), height * (GROWTH if higher else 1))
    fix_layout(figure)


def set_notes(figure, notes):
    """Writes the notes below the axes, one paragraph each, and returns the number of lines."""
    if not notes:
        return 0
    width = figure.get_figwidth() - 0.3
    text = "\n".join(wrap(note, width, NOTE_SIZE) for note in notes)
    figure.supxlabel(text, x=0.1 / figure.get_figwidth(), ha="left", fontsize=NOTE_SIZE)
    return text.count("\n") + 1


def arrange_on_paper(figure, title, notes):
    """As `arrange`, for a figure with the width of the canvas."""
    width, height = current().width, length(figure.get_figheight())
    entries = take_legends(figure)
    labels = [wrap(label, width - 4 * HANDLE * length(0.1), text_size()) for label in entries]
    widest = max(map(text_width, labels), default=0) + HANDLE * text_size() / 72
    columns = max(1, min(len(labels), int((width - 0.1) / (widest + 0.1))))
    rows = [labels[i::max(1, -(-len(labels) // columns))] for i in range(-(-len(labels) // columns))]
    legend_height = sum(max(label.count("\n") + 1 for label in row) * 1.6 for row in rows) * (
        text_size() / 72) + (0.12 if labels else 0)
    note_text, note_height = paragraphs(notes, width, text_size(8))
    title_text, title_height = paragraphs([title] if title else [], width, text_size(11))
    below = legend_height + note_height
    full = height + below + title_height
    given = texts_of(figure)
    texts = [figure.text(0.5, 1, title_text, ha="center", va="top", fontsize=text_size(11)),
             figure.text(0, 0, note_text, ha="left", va="bottom", fontsize=text_size(8))]
    for text in texts:
        text.set_in_layout(False)
    legend = figure.legend(
        list(entries.values()), labels, loc="lower center", ncol=columns, fontsize=text_size(),
        bbox_to_anchor=(0.5, 0), borderaxespad=0, frameon=False) if labels else None
    if legend:
        legend.set_in_layout(False)
    rotation = 0
    for _ in range(ATTEMPTS):
        figure.set_size_inches(width, full)
        place(figure, full, note_height, title_height, below, texts, legend)
        draw(figure)
        if wrap_texts(figure, given):
            draw(figure)
        wider, higher = missing_space(figure)
        if not wider and not higher:
            break
        if wider and rotation + 1 < len(ROTATIONS):
            rotation += 1
            for axes in figure.axes:
                axes.tick_params(axis="x", rotation=ROTATIONS[rotation])
        elif wider:
            thin_out(figure)
        if higher:
            full += 0.12 * (full - below - title_height)
    fix_layout(figure)


def paragraphs(texts, width, size):
    """Returns texts as lines that fit in a figure of this width, and the height of the lines in inches."""
    text = "\n".join(wrap(text, width - 0.2, size) for text in texts)
    return text, (text.count("\n") + 1) * LINE * size / 72 + 0.05 if text else 0


def take_legends(figure):
    """Removes the legends of all axes. Returns {label: symbol} of their entries."""
    symbols, entries = {}, {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            symbols.setdefault(label, handle)
    for legend in filter(None, [axes.get_legend() for axes in figure.axes]):
        entries |= {text.get_text(): symbols[text.get_text()] for text in legend.get_texts()}
        legend.remove()
    return entries


def place(figure, full, note_height, title_height, below, texts, legend):
    width = current().width
    texts[0].set_position((0.5, 1 - MARGIN / full))
    texts[1].set_position((MARGIN / width, MARGIN / full))
    if legend:
        legend.set_bbox_to_anchor((0.5, (note_height + MARGIN) / full))
    figure.get_layout_engine().set(rect=(
        0, (below + MARGIN) / full, 1, max(0.1, 1 - (below + title_height + 2 * MARGIN) / full)))


def texts_of(figure):
    """Returns [(title, label of the horizontal axis, label of the vertical axis)]."""
    return [(axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes]


def wrap_texts(figure, texts):
    """Breaks titles and labels that are longer than the axes. Returns whether a text has changed."""
    before = texts_of(figure)
    for axes, (title, across, up) in zip(figure.axes, texts):
        box = axes.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        room = max(0.8, min(box.width + 0.1, figure.get_figwidth() - box.x0 - 0.1))
        if title:
            axes.set_title(wrap_lines(title, room))
        axes.set_xlabel(wrap_lines(across, max(0.8, box.width)))
        axes.set_ylabel(wrap_lines(up, max(0.8, box.height)))
    return before != texts_of(figure)


def thin_out(figure):
    """Removes every second tick label of horizontal axes whose labels are numbers."""
    for axes in figure.axes:
        ticks = axes.get_xticks()
        labels = [text.get_text() for text in axes.get_xticklabels()]
        if len(ticks) > 3 and len(ticks) == len(labels):
            axes.set_xticks(ticks[::2], labels[::2])


def fix_layout(figure):
    """Keeps the positions of the axes. They are rounded, because the last bits of the computed ones
    differ between processes, and equal input gives equal files."""
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position([round(float(side), 9) for side in axes.get_position().bounds])


def draw(figure):
    """Computes the positions of all texts."""
    draw_names_literally(figure)
    with warnings.catch_warnings():  # a figure that is too small is enlarged later
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure.draw_without_rendering()


def draw_names_literally(figure):
    """Disables mathematical notation ($...$) in all texts except the numbers at ticks, which
    Matplotlib formats, because names may contain dollar signs."""
    numbers = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            for formatter, ticks in ((axis.get_major_formatter(), axis.get_major_ticks()),
                                     (axis.get_minor_formatter(), axis.get_minor_ticks())):
                if not isinstance(formatter, FixedFormatter):
                    numbers |= {label for tick in ticks for label in (tick.label1, tick.label2)}
    for text in figure.findobj(Text):
        if text not in numbers:
            text.set_parse_math(False)


def missing_space(figure):
    """Returns (wider, higher): whether the figure must be wider or higher to fit its texts."""
    boxes = np.array([box.extents for box in text_boxes(figure)]).reshape(-1, 4)
    canvas = figure.bbox
    wider = bool(np.any((boxes[:, 0] < canvas.x0) | (boxes[:, 2] > canvas.x1)))
    higher = bool(np.any((boxes[:, 1] < canvas.y0) | (boxes[:, 3] > canvas.y1)))
    width, height = overlaps(boxes)
    common = (width > 0) & (height > 0)
    return (wider or bool(np.any(width[common] <= height[common])),
            higher or bool(np.any(height[common] <= width[common])))


def overlaps(boxes):
    """Returns the widths and the heights of the overlaps of each pair of boxes (x0, y0, x1, y1)."""
    first, second = np.triu_indices(len(boxes), 1)
    low = np.maximum(boxes[first, :2], boxes[second, :2])
    high = np.minimum(boxes[first, 2:], boxes[second, 2:])
    return (high - low)[:, 0], (high - low)[:, 1]


def text_boxes(figure):
    """Returns the extents in pixels of all visible texts, without tick labels outside the axes."""
    left_out = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - slack <= tick.get_loc() <= high + slack:
                    left_out |= {tick.label1, tick.label2}
    texts = (t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip())
    return [text.get_window_extent() for text in texts if text not in left_out]
