# SPDX-License-Identifier: BSD-3-Clause
"""Figures of stacked bars: the time of an epoch by phase for each rank count, waiting and transfer in the all-reduces of each
rank, the phases of a step of each gradient reducer, and the busy and idle shares of pipeline stages."""

import numpy as np
from matplotlib.ticker import MaxNLocator

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import current, length
from lockstep_report.figures.layout import (
    chunks, legend_beside, panel_figure, rows_of, share_limits, stack, text_above, text_width)
from lockstep_report.figures.style import light_grid, name_of, notes_of, plt, short_number, title_of
from lockstep_report.groups import grouped
from lockstep_report.measure import validity
from lockstep_report.measure.points import IMBALANCE
from lockstep_report.runfile.settings import measured_on, plural
from lockstep_report.tables.phases import hosts_of, phase_name

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
PARTS = (("transfer", "transfer, at most", COLOURS["backward"]),
         ("waiting", "waiting for the last rank", COLOURS["exposed_communication"]))
STAGE_PARTS = (("busy_percent", "busy", COLOURS["backward"]),
               ("transfer_percent", "copies", COLOURS["upload"]),
               ("idle_percent", "idle", COLOURS[IMBALANCE]))
BAR_WIDTH = 0.5  # inches per rank; narrower if the ranks of a panel do not fit in a row


def phase_bars(points, letters=None):
    """Returns the phases of each rank count as stacked bars, one panel per batch; None if no point has phases."""
    letters = letters or validity.letters(points)
    timed = [p for p in points if is_finite(p)]
    if not timed:
        return None
    batches = sorted({p.batch_per_rank for p in timed})
    labels = [bar_label(p, letters) for p in timed]
    unit = max(length(0.95), *(text_width(label) + length(0.15) for label in labels))
    panels, titles = [], []
    for batch in batches:
        parts = chunks([p for p in timed if p.batch_per_rank == batch], unit)
        panels += parts
        titles += [f"batch {batch:,} per rank" + ("" if i == 0 else ", continued")
                   for i in range(len(parts))]
    widths = [max(unit * len(panel), text_width(title) + 0.2)
              for panel, title in zip(panels, titles)]
    height = 3.3 + LINE_HEIGHT * max(label.count("\n") + 1 for label in labels)
    figure, rows = panel_figure(widths, 3.1, height, "seconds per epoch\n(mean over the ranks)")
    for axes, panel, title in zip(figure.axes, panels, titles):
        draw_stack(axes, panel, letters, max(
            p.epoch_seconds for p in timed if p.batch_per_rank == panel[0].batch_per_rank))
        axes.set_title(title)
    add_phase_legend(figure.axes, rows[0][-1])
    arrange(figure, "Time of an epoch by phase: " + title_of(timed),
            notes_of(timed, letters))
    return figure


def is_finite(point):
    return bool(point.phase_seconds) and np.all(np.isfinite(
        [point.epoch_seconds, *point.phase_seconds.values()]))


def add_phase_legend(panels, axes):
    legend_beside(axes, panels, [*NAMES.values()][::-1], handlelength=1.0, handleheight=1.0)


def draw_stack(axes, points, letters, whole):
    heights = {name: [p.phase_seconds.get(name, 0.0) for p in points] for name in COLOURS}
    stack_phases(axes, range(len(points)), points, "s", {
        name: values for name, values in heights.items() if max(values) >= 0.002 * whole})
    for place, point in enumerate(points):
        text_above(axes, f"{short_number(point.epoch_seconds)} s", place, point.epoch_seconds, 2)
    axes.set_xticks(range(len(points)), [bar_label(p, letters) for p in points])
    axes.set_xlim(-0.6, len(points) - 0.4)
    axes.set_ylim(0, 1.15 * whole)
    axes.yaxis.set_major_formatter("{x:,g}")
    light_grid(axes)


def stack_phases(axes, places, points, unit, heights):
    """Draws stacked bars of the points. `heights`: {phase: one value per point}, from below, in `unit`."""
    stack(axes, places, [(NAMES[name], COLOURS[name], values) for name, values in heights.items()],
          lambda i, label, value: f"{name_of(points[i])}, {label}: {short_number(value)} {unit}",
          width=0.66, edgecolor="white", linewidth=0.6)


def bar_label(point, letters):
    how = "no communi-\ncation" if point.is_independent else point.reducer
    marks = ", ".join(letters[note] for note in point.notes)
    return "\n".join(filter(None, (
        plural(point.ranks, "rank"), how if point.ranks > 1 else "", point.gradient_dtype.replace("fp32", ""),
        point.detail.replace(", ", "\n"), marks and f"({marks})")))


def waiting_bars(points, letters=None):
    """Returns waiting and transfer of each rank as stacked bars; None if no point has them. `letters`: as in the tables."""
    letters = letters or validity.letters(points)
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
        draw_waiting(panel, point)
        panel.set_title(title)
        panel.set_ylim(0, 1.1 * highest or 1)
    legend_beside(rows[0][-1], names=[label for _, label, _ in PARTS[::-1]], handlelength=1.0,
                  handleheight=1.0)
    arrange(figure, "All-reduce of each rank: " + title_of(split), notes_of(split, letters))
    return figure


def panel_title(point, letters):
    batch = f"batch {point.batch_per_rank:,} per rank\n" if point.batch_per_rank else ""
    return batch + bar_label(point, letters)


def draw_waiting(axes, point):
    stack(axes, range(point.ranks), [(label, colour, getattr(point.split, name)) for name, label, colour in PARTS],
          lambda rank, label, height: f"{name_of(point)}, rank {rank}, {label}: {short_number(height)} s", width=0.7)
    axes.set_xlim(-0.6, point.ranks - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("rank")
    light_grid(axes)


def reducer_bars(points):
    """Returns the phases of a step of each point, in order; below, the bytes of the rank that sends most, if known."""
    labels = [bar_text(p, points) for p in points]
    has_bytes = any(p.sent_bytes is not None for p in points)
    unit = max(length(0.75), *(text_width(label) + length(0.1) for label in labels))
    parts = chunks(points, 1.4 * unit)  # with the gaps
    heights = [3, 2][:1 + has_bytes]
    places = [bar_places(part) for part in parts]
    figure, panels = plt.subplots(
        len(heights) * len(parts), 1, squeeze=False, height_ratios=heights * len(parts),
        figsize=(max(unit * (max(map(max, places)) + 1.2), 3.0) + 3.1,
                 (6.4 if has_bytes else 4.0) * len(parts)))
    panels = panels[:, 0]
    shown = shown_phases(points)
    for i, (part, of_part) in enumerate(zip(parts, places)):
        own = panels[len(heights) * i:len(heights) * (i + 1)]
        draw_phases(own[0], of_part, part, shown)
        if has_bytes:
            draw_bytes(own[1], of_part, part)
            own[0].set_xticks(of_part, [""] * len(part))
        own[-1].set_xticks(of_part, [bar_text(p, points) for p in part])
        for axes in own:
            axes.set_xlim(-0.6, max(places, key=max)[-1] + 0.6)
    for place in range(len(heights)):
        share_limits(panels[place::len(heights)])
    add_phase_legend(panels[::len(heights)], panels[0])
    arrange(figure, f"Gradient reducers, batch {points[0].batch_per_rank:,} per rank: "
                    + title_of(points), [measured_on(points)])
    return figure


def bar_places(points):
    """Returns the positions of the bars, with a gap where the ranks or the hosts change."""
    places, gaps = [], 0.0
    for before, point in zip([points[0], *points], points):
        gaps += 0.6 * ((before.ranks, hosts_of(before)) != (point.ranks, hosts_of(point)))
        places.append(len(places) + gaps)
    return places


def bar_text(point, points):
    texts = [f"{point.ranks} ranks", (point.reducer or "synchronous").replace("-", "-\n")]
    if any(hosts_of(p) > 1 for p in points):
        texts.insert(1, plural(hosts_of(point), "host"))
    if point.detail:
        texts.append(point.detail.replace(", ", "\n"))
    return "\n".join(texts)


def shown_phases(points):
    longest = max(p.epoch_seconds / p.steps for p in points)
    return [name for name in COLOURS if max(
        p.phase_seconds.get(name, 0.0) / p.steps for p in points) >= 0.002 * longest]


def draw_phases(axes, places, points, shown):
    times = [1e3 * p.epoch_seconds / p.steps for p in points]
    stack_phases(axes, places, points, "ms", {
        name: [1e3 * p.phase_seconds.get(name, 0.0) / p.steps for p in points] for name in shown})
    annotate(axes, places, times)
    axes.set_ylabel("ms per step\n(mean over the ranks)")


def draw_bytes(axes, places, points):
    sent = [(p.sent_bytes or 0.0) / 1e6 for p in points]
    axes.bar(places, sent, color="#777777", width=0.66)
    annotate(axes, places, sent, ["not known" if p.sent_bytes is None else short_number(value)
                                  for p, value in zip(points, sent)])
    axes.set_ylabel("MB sent per step\n(rank that sends most)")


def annotate(axes, places, values, texts=None):
    for place, value, text in zip(places, values, texts or map(short_number, values)):
        text_above(axes, text, place, value, 2)
    axes.set_ylim(0, 1.15 * (max(values) or 1.0))
    light_grid(axes)


def pipeline_figure(table):
    """Returns one bar per stage of each run, and the ideal busy share; None if the table has no rows."""
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
    stack(axes, places, [(label, colour, [row[key] for row in shown]) for key, label, colour in STAGE_PARTS],
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
