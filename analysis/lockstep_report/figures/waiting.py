# SPDX-License-Identifier: BSD-3-Clause
"""The figure of waiting and transfer: one bar per rank, one panel per point."""

from matplotlib.ticker import MaxNLocator

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import current, length
from lockstep_report.figures.layout import legend_beside, panel_figure, text_width
from lockstep_report.figures.marks import stack
from lockstep_report.figures.phases import COLOURS, bar_label
from lockstep_report.figures.style import light_grid, name_of, notes_of, short_number, title_of
from lockstep_report.measure.validity import letters as letters_of

# The transfer is its upper bound (docs/analysis.md, "Waiting and transfer").
PARTS = (("transfer", "transfer, at most", COLOURS["backward"]),
         ("waiting", "waiting for the last rank", COLOURS["exposed_communication"]))
BAR_WIDTH = 0.5  # inches per rank; narrower if the ranks of a panel do not fit in a row


def waiting_bars(points, letters=None):
    """Returns a figure with the waiting and the transfer of each rank as stacked bars; None if no
    point has them. `letters`: {validity note: letter}, as in the tables."""
    letters = letters or letters_of(points)
    split = [p for p in points if p.split]
    if not split:
        return None
    titles = [panel_title(p, letters) for p in split]
    widths = [min(current().row, max(length(BAR_WIDTH) * p.ranks, text_width(title) + 0.2))
              for p, title in zip(split, titles)]
    height = 2.9 + 0.17 * max(title.count("\n") for title in titles)
    highest = max(w + t for p in split for w, t in zip(p.split.waiting, p.split.transfer))
    figure, rows = panel_figure(widths, 3.3, height, "seconds per epoch")
    for panel, point, title in zip(figure.axes, split, titles):
        draw(panel, point)
        panel.set_title(title)
        panel.set_ylim(0, 1.1 * highest or 1)
    legend_beside(rows[0][-1], names=[label for _, label, _ in PARTS[::-1]], handlelength=1.0,
                  handleheight=1.0)
    arrange(figure, "All-reduce of each rank: " + title_of(split), notes_of(split, letters))
    return figure


def panel_title(point, letters):
    batch = f"batch {point.batch_per_rank:,} per rank\n" if point.batch_per_rank else ""
    return batch + bar_label(point, letters)


def draw(axes, point):
    stack(axes, range(point.ranks), [(label, colour, getattr(point.split, name)) for name, label, colour in PARTS],
          lambda rank, label, height: f"{name_of(point)}, rank {rank}, {label}: {short_number(height)} s", width=0.7)
    axes.set_xlim(-0.6, point.ranks - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("rank")
    light_grid(axes)
