# SPDX-License-Identifier: BSD-3-Clause
"""The figure of the busy and idle shares of pipeline stages."""

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import current, length
from lockstep_report.figures.layout import legend_beside, rows_of, text_width
from lockstep_report.figures.marks import stack, text_above
from lockstep_report.figures.phases import COLOURS
from lockstep_report.figures.style import light_grid, plt
from lockstep_report.groups import grouped
from lockstep_report.measure.points import IMBALANCE

PARTS = (("busy_percent", "busy", COLOURS["backward"]),
         ("transfer_percent", "copies", COLOURS["upload"]),
         ("idle_percent", "idle", COLOURS[IMBALANCE]))


def pipeline_figure(table):
    """Returns a figure with one bar per stage of each run, and the ideal busy share of equal
    stages; None if the table has no rows."""
    runs = list(grouped(table.rows, lambda row: row["source"]).values())
    if not runs:
        return None
    width = max(length(0.6), *(text_width(run_text(rows)) / len(rows) + 0.1 for rows in runs))
    parts = [[runs[index] for index in row]
             for row in rows_of([width * (len(rows) + 0.7) for rows in runs])]
    longest = max(sum(len(rows) + 0.7 for rows in part) for part in parts)
    figure, panels = plt.subplots(len(parts), 1, squeeze=False, figsize=(
        1.2 + width * longest, 3.6 * len(parts)))
    for axes, part in zip(panels[:, 0], parts):
        draw_part(axes, part)
        axes.set_xlim(-0.7, longest - 1)
    legend_beside(panels[0][0])
    arrange(figure, "Busy and idle shares of the pipeline stages")
    return figure


def draw_part(axes, runs):
    places, shown, place = [], [], 0.0
    for rows in runs:
        first, place = place, place + len(rows)
        places += [first + i for i in range(len(rows))]
        shown += rows
        axes.hlines(100 - rows[0]["ideal_percent"], first - 0.45, place - 0.55, colors="black", linestyles="dashed",
                    label="ideal busy share" if first == 0 else None)
        text_above(axes, run_text(rows), (first + place - 1) / 2, 100)
        place += 0.7
    stack(axes, places, [(label, colour, [row[key] for row in shown]) for key, label, colour in PARTS],
          lambda i, label, value: f"stage {shown[i]['stage']}, {label}: {value:.3g} %", width=0.8)
    names = [str(row["stage"]) for row in shown]
    every = -(-len(names) // max(2, int(current().row / length(0.25))))
    axes.set_xticks(places[::every], names[::every])
    axes.set_xlabel("stage")
    axes.set_ylabel("share of the time, %")
    axes.set_ylim(0, 118)
    axes.set_yticks(range(0, 101, 20))
    light_grid(axes)


def run_text(rows):
    replicas = rows[0]["replicas"]
    text = f"{rows[0]['schedule']}\nM = {rows[0]['micro_batches']}"
    return text + (f"\n{replicas} replicas" if replicas > 1 else "")
