"""Heat map of the work of each rank in each step."""

import numpy as np

from lockstep_report.html.cells import rows_of
from lockstep_report.html.figure import Entry, Panel, figure_element
from lockstep_report.html.markup import element
from lockstep_report.models.stragglers import COMMUNICATION
from lockstep_report.models.timed_run import timed_run

LIMITS = (0.02, 0.05, 0.1, 0.2, 0.5)  # between the classes, relative to the median of the ranks
NAMES = ("up to 2 % above", "2 to 5 % above", "5 to 10 % above", "10 to 20 % above",
         "20 to 50 % above", "more than 50 % above")
MOST_COLUMNS, MOST_ROWS = 60, 128
MOST_MAPS = 3
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 400, 46, 22, 4, 38


def work_classes(work, columns=MOST_COLUMNS, rows=MOST_ROWS):
    """Returns (classes, first steps, first ranks) for `work` (step, rank). Steps and ranks are
    combined into at most `columns` and `rows` groups; a group of steps has the mean, a group of
    ranks the largest value. The class (rank, step) is the number of LIMITS that the work relative
    to the median of the ranks exceeds."""
    first = np.unique(np.linspace(0, len(work), min(columns, len(work)), False).astype(int))
    means = np.array([part.mean(axis=0) for part in np.split(work, first[1:])])
    middle = np.median(means, axis=1, keepdims=True)
    above = np.divide(means, middle, out=np.ones_like(means), where=middle > 0) - 1
    ranks = np.unique(np.linspace(0, work.shape[1], min(rows, work.shape[1]), False).astype(int))
    above = np.maximum.reduceat(above, ranks, axis=1)
    return np.searchsorted(LIMITS, above.T, side="left"), first, ranks


def heat_figure(runs, book):
    """Returns the figure of runs with a slow rank, or of the run with the most ranks if there are
    none; None if no run has several ranks."""
    slow = {row["source"]: row for row in rows_of(book, "stragglers")}
    usable = sorted((run for run in runs if run.label in slow), key=lambda run: (
        slow[run.label]["significant"] != "yes", -run.rank_count))
    chosen = {}
    for run in usable:
        if not chosen or slow[run.label]["significant"] == "yes":  # repeats would look the same
            chosen.setdefault((run.rank_count, run.option("batch-per-rank")), run)
    panels = [panel for panel in (map_panel(run, slow[run.label])
                                  for run in list(chosen.values())[:MOST_MAPS]) if panel]
    if not panels:
        return None
    return figure_element(
        "work", "Work of each rank in each step", panels,
        [Entry(f"heat-{n}", name, 0, f"heat heat-{n}", kind="fill")
         for n, name in enumerate(NAMES)],
        "Work: all phases without exposed communication, relative to the median of the ranks in "
        "the same steps. The frame and the arrow mark the slowest rank.",
        [("stragglers", "slowest rank and clocks")])


def map_panel(run, row):
    timed = timed_run(run)
    if timed is None:
        return None
    kept = [i for i, name in enumerate(timed.phases) if name != COMMUNICATION]
    steps = timed.window.steps
    classes, first, ranks = work_classes(timed.phase_seconds[:, :, kept].sum(axis=2))
    text = slowest_text(row)
    numbers = [int(run.step[steps[n]]) for n in first] + [int(run.step[steps[-1]])]
    drawing = map_drawing(classes, ranks, run, numbers, row["rank"],
                          f"Work of each rank of {run.label}. {text}")
    return Panel(f"{run.label}: {text}", drawing)


def slowest_text(row):
    host = f" on {row['host']}" if row["host"] else ""
    mark = "" if row["significant"] == "yes" else ", not significant"
    return (f"slowest is rank {row.text('rank')}{host}, {row.text('excess_ms')} ms per step more "
            f"than the others{row.interval('low_ms', 'high_ms', ' ms')}{mark}")


def map_drawing(classes, ranks, run, numbers, slowest, alternative):
    height = min(26, max(4, 260 // len(ranks)))
    width = (WIDTH - LEFT - RIGHT) / classes.shape[1]
    bottom = TOP + height * len(ranks)
    parts = []
    for number in range(len(NAMES)):
        cells = "".join(f"M{LEFT + width * column:.1f} {TOP + height * row}h{width:.1f}v{height}"
                        f"h-{width:.1f}z" for row, column in zip(*np.nonzero(classes == number)))
        if cells:
            parts.append(element("path", d=cells, class_=f"heat heat-{number}",
                                 data_series=f"heat-{number}"))
    stride = max(1, -(-14 // height))
    parts += [element("text", f"{rank}", x=LEFT - 6, y=TOP + height * (row + 0.5) + 4, class_="end")
              for row, rank in enumerate(ranks) if row % stride == 0]
    row = int(np.searchsorted(ranks, slowest, side="right")) - 1
    top = TOP + height * row
    parts.append(element("rect", x=LEFT, y=top, width=WIDTH - LEFT - RIGHT, height=height,
                         class_="frame"))
    parts.append(element("path", d=f"M{WIDTH - RIGHT + 3} {top + height / 2:.1f}l10-5v10z",
                         class_="arrow"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts += [element("text", f"{numbers[0] + 1}", x=LEFT, y=bottom + 15),
              element("text", f"{numbers[-1] + 1}", x=WIDTH - RIGHT, y=bottom + 15, class_="end"),
              element("text", "step", x=middle, y=bottom + 15, class_="middle"),
              element("text", "rank", x=4, y=bottom + 15)]
    names = run.ranks.get("hostname", ())
    hosts = [str(names[rank]) if len(names) > rank else "" for rank in ranks]
    rows = [element("g", data_rank=int(rank), data_host=host, data_classes="".join(map(str, line)))
            for rank, host, line in zip(ranks, hosts, classes)]
    return element("svg", *parts, *rows, viewBox=f"0 0 {WIDTH} {bottom + 24}", role="img",
                   aria_label=alternative, class_="chart map", data_left=LEFT, data_top=TOP,
                   data_width=width, data_height=height,
                   data_steps=" ".join(str(n + 1) for n in numbers))
