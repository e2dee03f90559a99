# SPDX-License-Identifier: BSD-3-Clause
"""Figures of stacked bars: the time of an epoch by phase for each rank count, waiting and transfer
in the all-reduces of each rank, the phases of a step of each gradient reducer, and the busy and
idle shares of pipeline stages.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import length
from lockstep_report.figures.layout import (
    bar_axes,
    chunks,
    legend_beside,
    panel_figure,
    stack,
    text_above,
    text_width,
)
from lockstep_report.figures.style import (
    light_grid,
    name_of,
    new_figure,
    notes_of,
    short_number,
    title_of,
)
from lockstep_report.groups import grouped
from lockstep_report.measure import validity
from lockstep_report.measure.points import IMBALANCE
from lockstep_report.runfile.settings import measured_on, plural
from lockstep_report.tables.phases import phase_name
from lockstep_report.tables.reducers import hosts_of

COLOURS = {
    "data_wait": "#999999",
    "upload": "#F0E442",
    "forward": "#56B4E9",
    "backward": "#0072B2",
    "exposed_communication": "#D55E00",
    "update": "#009E73",
    IMBALANCE: "#DDDDDD",
}
NAMES = {phase: phase_name(phase).lower() for phase in COLOURS}
LINE_HEIGHT = 0.17  # height of a line of 10-point text, inches
# The transfer is its upper bound (docs/analysis.md, "Waiting and transfer").
PARTS = (
    ("transfer", "transfer, at most", COLOURS["backward"]),
    ("waiting", "waiting for the last rank", COLOURS["exposed_communication"]),
)
STAGE_PARTS = (
    ("busy_percent", "busy", COLOURS["backward"]),
    ("transfer_percent", "copies", COLOURS["upload"]),
    ("idle_percent", "idle", COLOURS[IMBALANCE]),
)
BAR_WIDTH = 0.5  # inches per rank; narrower if the ranks of a panel do not fit in a row


def phase_bars(points, letters=None):
    """Returns the phases of each rank count as stacked bars, one panel per batch; None if no point
    has phases."""
    letters = letters or validity.letters(points)
    timed = [p for p in points if has_finite_phases(p)]
    if not timed:
        return None
    labels = [bar_label(p, letters) for p in timed]
    unit = max(length(0.95), *(text_width(label) + length(0.15) for label in labels))
    panels = phase_panels(timed, unit)
    figure = panel_figure(
        [unit * len(panel.points) for panel in panels],
        3.3 + LINE_HEIGHT * max(label.count("\n") + 1 for label in labels),
        [panel.title for panel in panels],
        "seconds per epoch\n(mean over the ranks)",
    )
    for axes, panel in zip(figure.axes, panels):
        draw_phases(
            axes,
            panel.points,
            range(len(panel.points)),
            [bar_label(p, letters) for p in panel.points],
            panel.highest,
            "s",
            lambda point: 1,
        )
    legend_beside(figure.axes, list(NAMES.values()))
    return arrange(
        figure, "Time of an epoch by phase: " + title_of(timed), notes_of(timed, letters)
    )


def has_finite_phases(point):
    if not point.phase_seconds:
        return False
    return bool(np.isfinite([point.epoch_seconds, *point.phase_seconds.values()]).all())


class PhasePanel(NamedTuple):
    """A row of bars of one batch."""

    title: str
    points: list
    highest: float  # epoch time of the batch, in seconds


def phase_panels(points, unit):
    """Returns the panels of all batches. `unit`: width of a bar; a batch with more bars than fit in
    a row has further panels."""
    panels = []
    for batch in sorted({p.batch_per_rank for p in points}):
        own = [p for p in points if p.batch_per_rank == batch]
        highest = max(p.epoch_seconds for p in own)
        title = f"batch {batch:,} per rank"
        for part in chunks(own, unit):
            panels.append(PhasePanel(title, part, highest))
            title = f"batch {batch:,} per rank, continued"
    return panels


def draw_phases(axes, points, places, labels, highest, unit, factor):
    """Draws the phases of points as stacked bars in `unit`, which is `factor(point)` seconds.
    `highest`: bar of all panels."""
    heights = {
        name: [factor(p) * p.phase_seconds.get(name, 0.0) for p in points] for name in COLOURS
    }
    stack(
        axes,
        places,
        [
            (NAMES[name], COLOURS[name], values)
            for name, values in heights.items()
            if max(values) >= 0.002 * highest
        ],
        lambda i, label, value: f"{name_of(points[i])}, {label}: {short_number(value)} {unit}",
        width=0.66,
        edgecolor="white",
        linewidth=0.6,
    )
    for place, point in zip(places, points):
        whole = factor(point) * point.epoch_seconds
        text_above(axes, f"{short_number(whole)} {unit}", place, whole, 2)
    bar_axes(axes, highest, labels, places)


def bar_label(point, letters, has_hosts=False):
    """Returns the lines below a bar. `has_hosts`: with the number of hosts."""
    lines = [plural(point.ranks, "rank")]
    if has_hosts:
        lines.append(plural(hosts_of(point), "host"))
    if point.ranks > 1:
        lines.append("no communi-\ncation" if point.is_independent else point.reducer)
    lines.append(point.gradient_dtype.replace("fp32", ""))
    lines.append(point.detail.replace(", ", "\n"))
    marks = ", ".join(letters[note] for note in point.notes if note in letters)
    if marks:
        lines.append(f"({marks})")
    return "\n".join(filter(None, lines))


def value_text_of(point):
    """Returns a function: (rank, label, height) -> the text of a bar."""

    def value_text(rank, label, height):
        return f"{name_of(point)}, rank {rank}, {label}: {short_number(height)} s"

    return value_text


def waiting_bars(points, letters=None):
    """Returns waiting and transfer of each rank as stacked bars; None if no point has them.
    `letters`: as in the tables."""
    letters = letters or validity.letters(points)
    split = [p for p in points if p.split]
    if not split:
        return None
    titles = [
        (f"batch {p.batch_per_rank:,} per rank\n" if p.batch_per_rank else "")
        + bar_label(p, letters)
        for p in split
    ]
    highest = max(w + t for p in split for w, t in zip(p.split.waiting, p.split.transfer))
    figure = panel_figure(
        [length(BAR_WIDTH) * p.ranks for p in split],
        3.1 + LINE_HEIGHT * max(title.count("\n") for title in titles),
        titles,
        "seconds per epoch",
    )
    for axes, point in zip(figure.axes, split):
        stack(
            axes,
            range(point.ranks),
            [(label, colour, getattr(point.split, name)) for name, label, colour in PARTS],
            value_text_of(point),
            width=0.7,
        )
        bar_axes(axes, highest, places=range(point.ranks))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
        axes.set_xlabel("rank")
    legend_beside(figure.axes, [label for _, label, _ in PARTS])
    return arrange(figure, "All-reduce of each rank: " + title_of(split), notes_of(split, letters))


def reducer_bars(points):
    """Returns the phases of a step of each point, in order; below, the bytes of the rank that sends
    most, if known."""
    has_hosts = any(hosts_of(p) > 1 for p in points)
    unit = max(
        length(0.75), *(text_width(bar_label(p, {}, has_hosts)) + length(0.1) for p in points)
    )
    parts = [
        (part, spaced([(p.ranks, hosts_of(p)) for p in part], 0.6))
        for part in chunks(points, 1.4 * unit)
    ]
    longest = max(places[-1] for _, places in parts)
    heights = [3.8, 2.6] if any(p.sent_bytes is not None for p in points) else [4.0]
    figure = new_figure(max(unit * (longest + 1.2), 3.0), sum(heights) * len(parts))
    panels = figure.subplots(
        len(parts) * len(heights), 1, squeeze=False, height_ratios=heights * len(parts)
    )
    panels = panels.reshape(len(parts), len(heights))
    highest = max(1e3 * p.epoch_seconds / p.steps for p in points)
    most_sent = 1e-6 * max(p.sent_bytes or 0.0 for p in points)
    for (above, *below), (part, places) in zip(panels, parts):
        texts = [bar_label(p, {}, has_hosts) for p in part]
        own = [""] * len(part) if below else texts
        draw_phases(above, part, places, own, highest, "ms", lambda point: 1e3 / point.steps)
        above.set_ylabel("ms per step\n(mean over the ranks)")
        for axes in below:
            draw_sent(axes, part, places, texts, most_sent)
    for axes in panels.flat:
        axes.set_xlim(-0.6, longest + 0.6)
    legend_beside(panels[:, 0], list(NAMES.values()))
    return arrange(
        figure,
        f"Gradient reducers, batch {points[0].batch_per_rank:,} per rank: " + title_of(points),
        [measured_on(points)],
    )


def draw_sent(axes, points, places, texts, highest):
    """Draws the megabytes that the rank that sends most sends in a step. `highest`: bar of all
    panels."""
    sizes = [None if p.sent_bytes is None else 1e-6 * p.sent_bytes for p in points]
    labels = ["not known" if size is None else short_number(size) for size in sizes]
    bars = axes.bar(places, [size or 0.0 for size in sizes], color="#777777", width=0.66)
    axes.bar_label(bars, labels, padding=2)
    bar_axes(axes, highest, texts, places)
    axes.set_ylabel("MB sent per step\n(rank that sends most)")


def spaced(keys, gap):
    """Returns the positions of bars, with a gap where the key changes."""
    changes = [before != key for before, key in zip(keys, keys[1:])]
    return [index + gap * sum(changes[:index]) for index in range(len(keys))]


def pipeline_figure(table):
    """Returns one bar per stage of each run, and the ideal busy share; None if the table has no
    rows."""
    runs = list(grouped(table.rows, lambda row: row["source"]).values())
    if not runs:
        return None
    unit = max(length(0.6), *(text_width(run_text(rows)) / len(rows) + 0.1 for rows in runs))
    parts = chunks(runs, unit * (max(map(len, runs)) + 0.7))
    figure = panel_figure(
        [unit * sum(len(rows) + 0.7 for rows in part) for part in parts],
        3.6,
        label="share of the time, %",
    )
    for axes, part in zip(figure.axes, parts):
        draw_stages(axes, part)
    legend_beside(figure.axes)
    return arrange(figure, "Busy and idle shares of the pipeline stages")


def draw_stages(axes, runs):
    rows = [row for run in runs for row in run]
    places = spaced([row["source"] for row in rows], 0.7)
    for run in runs:
        own = [place for place, row in zip(places, rows) if row in run]
        axes.hlines(
            100 - run[0]["ideal_percent"],
            own[0] - 0.45,
            own[-1] + 0.45,
            colors="black",
            linestyles="dashed",
            label="ideal busy share",
        )
        text_above(axes, run_text(run), sum(own) / len(own), 100)
    stack(
        axes,
        places,
        [(label, colour, [row[key] for row in rows]) for key, label, colour in STAGE_PARTS],
        lambda i, label, value: f"stage {rows[i]['stage']}, {label}: {value:.3g} %",
        width=0.8,
    )
    axes.set_xticks(places, [str(row["stage"]) for row in rows])
    axes.set(xlabel="stage", xlim=(-0.7, places[-1] + 0.7), ylim=(0, 118), yticks=range(0, 101, 20))
    light_grid(axes)


def run_text(rows):
    replicas = rows[0]["replicas"]
    text = f"{rows[0]['schedule']}\nM = {rows[0]['micro_batches']}"
    return text + (f"\n{replicas} replicas" if replicas > 1 else "")
