# SPDX-License-Identifier: BSD-3-Clause
"""Figure of a batch ladder: epoch time and images/s for each batch."""

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import length
from lockstep_report.figures.layout import chunks, panel_figure, text_width
from lockstep_report.figures.marks import text_above
from lockstep_report.figures.style import SERIES, light_grid, short_number


def ladder(rows, title):
    """Returns a figure of epoch time and images/s for each batch, with the status of batches that
    were not measured (out of memory); None if no row has a time."""
    keys = [(key, heading) for key, heading in (
        ("epoch_seconds", "Epoch time, seconds"), ("images_per_second", "Images per second"),
    ) if any(row.get(key) for row in rows)]
    if not any(row.get("epoch_seconds") for row in rows):
        return None
    texts = [batch_text(row) for row in rows] + [
        text for key, _ in keys for text in (value_text(row, key) for row in rows)]
    unit = max(length(0.75), *(text_width(text) + length(0.15) for text in texts))
    parts = chunks(rows, unit)
    panels = [(part, key, heading) for key, heading in keys for part in parts]
    widths = [max(unit * len(part), length(2.2)) + 0.9 for part, _, _ in panels]
    figure, _ = panel_figure(widths, 1.0, 3.5)
    for axes, (part, key, heading) in zip(figure.axes, panels):
        draw_ladder(axes, part, key, max(row.get(key) or 0 for row in rows))
        axes.set_title(heading)
    arrange(figure, title)
    return figure


def batch_text(row):
    """Returns the label of a row: the batch, the file or mode if rows of one batch differ in it,
    and "extrapolated" if the times are scaled from part of an epoch."""
    texts = [f"{row['batch_per_rank']:,}", row.get("source"), row.get("mode"),
             "extrapolated" if row.get("is_extrapolated") else None]
    return "\n".join(text for text in texts if text)


def value_text(row, key):
    value = row.get(key)
    return short_number(value) if value else "\n".join(row["status"].rsplit(" ", 1))


def draw_ladder(axes, rows, key, highest):
    for place, row in enumerate(rows):
        value = row.get(key)
        axes.bar(place, value or 0, color=SERIES[0], width=0.62)
        text_above(axes, value_text(row, key), place, value or 0, color="black" if value else SERIES[1])
    axes.set_xticks(range(len(rows)), [batch_text(row) for row in rows])
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylim(0, 1.15 * highest)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("batch per rank")
    light_grid(axes)
