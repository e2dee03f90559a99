# SPDX-License-Identifier: BSD-3-Clause
"""Arranges the texts of a figure so that none is cut off or overlaps another text."""

from lockstep_report.figures.canvas import current
from lockstep_report.figures.layout import (
    ATTEMPTS, TITLE_SIZE, draw, draw_names_literally, fix_layout, missing_space, wrap)
from lockstep_report.figures.paper_layout import arrange_on_paper

GROWTH = 1.15  # factor by which a side that is too short is enlarged
NOTE_SIZE = 8
NOTE_HEIGHT = 0.14  # height of a line of a note, inches


def arrange(figure, title="", notes=()):
    """Sets the title and the notes below the axes, enlarges the figure until every text is inside
    it and overlaps no other text (at most ATTEMPTS times), and fixes the layout. The title is the label of
    the figure."""
    figure.set_label(title)
    if current().width:
        draw_names_literally(figure)
        arrange_on_paper(figure, title, notes)
        return
    lines = set_notes(figure, notes)
    figure.set_figheight(figure.get_figheight() + NOTE_HEIGHT * lines)
    for _ in range(ATTEMPTS):
        set_notes(figure, notes)
        if title:
            figure.suptitle(wrap(title, figure.get_figwidth() - 0.3), fontsize=TITLE_SIZE)
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
