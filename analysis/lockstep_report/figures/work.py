# SPDX-License-Identifier: BSD-3-Clause
"""The figure of the work of each rank in each step: which ranks are slow, and when."""

import numpy as np
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import length
from lockstep_report.figures.layout import legend_beside, panel_figure
from lockstep_report.figures.style import short_number
from lockstep_report.measure.stragglers import COMMUNICATION
from lockstep_report.measure.waiting import timed_rank_seconds, timed_run

# (upper limit of the work relative to the median of the ranks, less 1; colour; name)
CLASSES = (
    (0.02, "#EEF0F3", "up to 2 % above"),
    (0.05, "#FBDC8A", "2 to 5 % above"),
    (0.1, "#F0B030", "5 to 10 % above"),
    (0.2, "#CC7A10", "10 to 20 % above"),
    (0.5, "#93480C", "20 to 50 % above"),
    (np.inf, "#4A1D00", "more than 50 % above"),
)
MOST_COLUMNS, MOST_ROWS = 60, 128
MOST_PANELS = 3
CELL = np.array([(0, -0.5), (1, -0.5), (1, 0.5), (0, 0.5)])  # corners around a row


def work_figure(runs, stragglers):
    """Returns the figure of the runs with a slow rank, or of the run with the most ranks if there
    are none; None if no run has several ranks. Runs with the same ranks and batch would look the
    same: only the first one is drawn.
    """
    slow = {found.source: found for found in stragglers}
    usable = sorted(
        (run for run in runs if run.label in slow),
        key=lambda run: (not slow[run.label].is_significant, -run.rank_count),
    )
    chosen = {}
    for run in usable:
        if not chosen or slow[run.label].is_significant:
            chosen.setdefault((run.rank_count, run.option("batch-per-rank")), run)
    shown = list(chosen.values())[:MOST_PANELS]
    if not shown:
        return None
    figure = panel_figure(
        [length(4.4)] * len(shown), 3.5, [slowest_text(slow[run.label]) for run in shown], "rank"
    )
    for axes, run in zip(figure.axes, shown):
        draw_work(axes, run, slow[run.label])
    legend_beside(figure.axes, handlelength=1.0)
    return arrange(
        figure,
        "Work of each rank in each step",
        [
            "Work: all phases without exposed communication, relative to the median of the ranks in"
            " the same steps. The frame marks the slowest rank."
        ],
    )


def slowest_text(slow):
    excess, host = slow.excess.times(1e3), f" on {slow.host}" if slow.host else ""
    interval = (
        f" (95 % interval {excess.low:.1f} to {excess.high:.1f} ms)" if excess.has_interval else ""
    )
    return (
        f"{slow.source}: rank {slow.rank}{host}, {short_number(excess.value)} ms per step more than"
        f" the others{interval}{'' if slow.is_significant else ', not significant'}"
    )


def draw_work(axes, run, slow):
    timed = timed_run(run)
    steps = timed.window.steps
    classes, edges, ranks = work_classes(timed_rank_seconds(timed, (COMMUNICATION,)))
    numbers = np.append(run.step[steps[edges[:-1]]], run.step[steps[-1]] + 1) + 1
    first, width = numbers[0], numbers[-1] - numbers[0]
    _, colour, name = CLASSES[0]
    background = {"linewidth": 0, "facecolor": colour, "label": name}
    axes.add_patch(Rectangle((first, -0.5), width, len(ranks), **background))
    draw_cells(axes, classes, numbers)
    row = int(np.searchsorted(ranks, slow.rank, side="right")) - 1
    frame = {"fill": False, "linewidth": 1.2, "clip_on": False}
    axes.add_patch(Rectangle((first, row - 0.5), width, 1, **frame))
    axes.set(xlim=(first, numbers[-1]), ylim=(len(ranks) - 0.5, -0.5), xlabel="step")
    every = -(-len(ranks) // 16)
    axes.set_yticks(range(0, len(ranks), every), ranks[::every])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    axes.tick_params(length=0)


def draw_cells(axes, classes, numbers):
    """Draws the cells of all classes but the first. `numbers`: of the first step of each column,
    and the end of the last one."""
    starts, widths = numbers[:-1], np.diff(numbers)
    for number, (_, colour, name) in enumerate(CLASSES[1:], 1):
        rows, columns = np.nonzero(classes == number)
        corners = CELL * np.stack([widths[columns], np.ones(len(columns))], axis=1)[:, None]
        places = corners + np.stack([starts[columns], rows], axis=1)[:, None]
        path = Path.make_compound_path_from_polys(places)
        style = {"facecolor": colour, "edgecolor": colour, "linewidth": 0.2}
        axes.add_patch(PathPatch(path, label=name, **style))


def work_classes(work, columns=MOST_COLUMNS, rows=MOST_ROWS):
    """Returns (classes, edges, first ranks) for `work` (step, rank). Steps and ranks are
    combined into at most `columns` and `rows` groups; a group of steps has the sum, a group of
    ranks the largest value. The class (rank, step) is the first of CLASSES whose limit the work
    relative to the median of the ranks does not exceed; group n of the steps is from edges[n] to
    edges[n + 1]."""
    edges = np.unique(np.linspace(0, len(work), min(columns, len(work)) + 1).astype(int))
    sums = np.add.reduceat(work, edges[:-1])
    middle = np.median(sums, axis=1, keepdims=True)
    above = np.divide(sums, middle, out=np.ones_like(sums), where=middle > 0) - 1
    ranks = np.unique(np.linspace(0, work.shape[1], min(rows, work.shape[1]), False).astype(int))
    above = np.maximum.reduceat(above, ranks, axis=1)
    return np.searchsorted([limit for limit, *_ in CLASSES[:-1]], above.T), edges, ranks
