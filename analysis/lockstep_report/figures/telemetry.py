# SPDX-License-Identifier: BSD-3-Clause
"""Figures of the telemetry over time, below the durations of the steps on the same axis."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import text_size
from lockstep_report.figures.layout import band, colour_of
from lockstep_report.figures.style import light_grid, new_figure
from lockstep_report.measure import telemetry
from lockstep_report.measure.window import step_seconds
from lockstep_report.runfile.names import stem_of
from lockstep_report.runfile.stored import blocks

MOST_FIGURES = 8  # files; the tables have all of them
MOST_LINES = 4  # ranks with a line each; for more ranks, the mean and the range are drawn
SHORTEST_WINDOW = 0.5  # seconds over which a rate is averaged
WINDOWS = 300  # largest number of windows
MOST_STEPS = 2000  # dots; with more steps, each is the longest of a group of steps
MOST_EPOCHS = 60  # lines at the ends of epochs; with more epochs, every 2nd, 3rd, ... has one
STYLES = ("-", (0, (4, 2)))


class PlottedQuantity(NamedTuple):
    """A column of the telemetry. `label`: beginning of the label of its curves."""

    name: str
    label: str = ""
    is_cumulative: bool = False
    factor: float = 1


# (title, unit, quantities)
PANELS = (
    (
        "Processors in use",
        "processors",
        (
            PlottedQuantity("user_cpu_seconds", "user, ", True),
            PlottedQuantity("system_cpu_seconds", "system, ", True),
        ),
    ),
    ("Resident memory", "MiB", (PlottedQuantity("resident_memory_bytes", factor=1 / 2**20),)),
    (
        "Context switches",
        "per second",
        (
            PlottedQuantity("voluntary_context_switches", "voluntary, ", True),
            PlottedQuantity("involuntary_context_switches", "involuntary, ", True),
        ),
    ),
    ("GPU utilisation", "per cent", (PlottedQuantity("device_utilisation", factor=100),)),
    ("GPU memory", "MiB", (PlottedQuantity("device_memory_bytes", factor=1 / 2**20),)),
    ("GPU power", "W", (PlottedQuantity("device_power_watts"),)),
)


def telemetry_figures(runs):
    """Returns {name: figure}: one figure per run file with telemetry."""
    made = {}
    for run in telemetry.files_of(runs)[:MOST_FIGURES]:
        figure = draw_telemetry(run)
        name = f"telemetry-{stem_of(run.file_name).replace('/', '-')}"
        if figure:
            made[f"{name}-{len(made) + 1}" if name in made else name] = figure
    return made


def draw_telemetry(run):
    """Returns the figure of one run file; None if it has fewer than two samples per rank."""
    samples = telemetry.samples_of(run)
    if not samples or min(len(s.seconds) for s in samples) < 2:
        return None
    panels = panels_of(run, samples)
    height = 1.0 + 1.45 * (len(panels) + 1)
    figure = new_figure(8.6, height)
    figure.subplots(len(panels) + 1, 1, sharex=True)
    ends = step_ends(run)
    draw_steps(figure.axes[0], run, ends)
    for axes, panel in zip(figure.axes[1:], panels):
        draw_panel(axes, panel)
    figure.axes[-1].set_xlabel("seconds since the start of the training")
    marks, every = epoch_marks(run, ends)
    for axes in figure.axes:
        for second in marks:
            axes.axvline(second, color="#BBBBBB", linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
    which = "an epoch" if every == 1 else f"every {every} epochs"
    return arrange(
        figure, f"Telemetry of {run.file_name}", [f"Dashed vertical lines: end of {which}"]
    )


class TelemetryPanel(NamedTuple):
    title: str
    unit: str
    curves: list


def panels_of(run, samples):
    """Returns the panels that have curves."""
    panels = [
        TelemetryPanel(title, unit, quantity_curves(samples, quantities))
        for title, unit, quantities in PANELS
    ]
    panels.append(TelemetryPanel("Network", "MB/s", network_curves(run, samples)))
    panels.append(TelemetryPanel("Host power", "W", host_power_curves(run, samples)))
    return [panel for panel in panels if panel.curves]


def draw_panel(axes, panel):
    for curve in panel.curves:
        axes.plot(
            curve.x,
            curve.y,
            color=colour_of(curve.index),
            linestyle=curve.style,
            linewidth=1.2,
            label=curve.label or None,
        )
        if curve.range:
            band(axes, curve.index, curve.x, *curve.range, alpha=0.2)
    finish_panel(axes, panel.title, panel.unit)
    if any(curve.label for curve in panel.curves):
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=text_size(8))


def step_ends(run):
    """Returns (step): the times at which the last rank ended each step; empty if not recorded."""
    if run.step_end is None:
        return np.zeros(0)
    parts = blocks(np.arange(len(run.step_end)), run.step_end)
    return np.concatenate([ends.max(axis=1) for _, ends in parts])


def finish_panel(axes, title, unit):
    axes.set(title=title, ylabel=unit, ymargin=0.1, ylim=(0, None))
    light_grid(axes)


def draw_steps(axes, run, ends):
    detail = ""
    if len(ends):
        seconds = step_seconds(run, np.arange(len(ends)))
        group = -(-len(ends) // MOST_STEPS)  # steps per dot
        if group > 1:
            detail = f"; the longest of each {group} steps"
            longest = [
                first + int(np.argmax(seconds[first : first + group]))
                for first in range(0, len(ends), group)
            ]
            ends, seconds = ends[longest], seconds[longest]
        axes.plot(ends, 1e3 * seconds, ".", markersize=3, color="#333333")
    finish_panel(axes, f"Step (slowest rank{detail})", "ms")


def epoch_marks(run, ends):
    """Returns (times at which epochs ended, number of epochs from one of them to the next)."""
    if not len(ends):
        return ends, 1
    last = np.append(np.flatnonzero(np.diff(run.epoch)), len(ends) - 1)
    every = -(-len(last) // MOST_EPOCHS)
    return ends[last[::-1][::every]], every


def rates(seconds, counter):
    """Returns (times, rates) of a counter over windows of at least SHORTEST_WINDOW; the time is the
    middle of a window."""
    seconds, counter = telemetry.finite(seconds, counter)
    if len(seconds) < 2:
        return np.zeros(0), np.zeros(0)
    window = max(SHORTEST_WINDOW, (seconds[-1] - seconds[0]) / WINDOWS)
    kept = [0]
    for index in range(1, len(seconds)):
        if seconds[index] - seconds[kept[-1]] >= window:
            kept.append(index)
    if len(kept) == 1:
        kept.append(len(seconds) - 1)
    seconds, counter = seconds[kept], counter[kept]
    return (seconds[1:] + seconds[:-1]) / 2, np.diff(counter) / np.diff(seconds)


@dataclass(frozen=True)
class Curve:
    label: str
    x: np.ndarray
    y: np.ndarray
    index: int  # of its colour
    style: object = STYLES[0]
    range: tuple = None  # (lowest, highest values)


def quantity_curves(samples, quantities):
    curves = []
    for style, quantity in zip(STYLES, quantities):
        values = rates if quantity.is_cumulative else telemetry.finite
        found = [(s.rank, *values(s.seconds, s.columns[quantity.name])) for s in samples]
        of_ranks = [(rank, x, quantity.factor * y) for rank, x, y in found if len(y)]
        curves += rank_curves(of_ranks, quantity.label, style)
    return curves


def rank_curves(of_ranks, label, style):
    if len(of_ranks) <= MOST_LINES:
        return [
            Curve(f"{label}rank {rank}", x, y, place, style)
            for place, (rank, x, y) in enumerate(of_ranks)
        ]
    times = of_ranks[0][1]
    table = np.array([np.interp(times, x, y) for _, x, y in of_ranks])
    return [
        Curve(
            f"{label}mean of {len(of_ranks)} ranks,\nband: minimum to maximum",
            times,
            table.mean(axis=0),
            STYLES.index(style),
            style,
            (table.min(axis=0), table.max(axis=0)),
        )
    ]


def network_curves(run, samples):
    curves = []
    for host, of_host in telemetry.first_ranks(run, samples):
        for offset, direction in enumerate(("received", "sent")):
            for place, (name, counter) in enumerate(of_host.traffic(direction).items()):
                x, y = rates(of_host.seconds, counter)
                if len(y) and y.max() > 0:
                    where = f"{host} {name}" if run.host_count > 1 else name
                    # Both directions may have the same values, so they have different colours.
                    curves.append(
                        Curve(
                            f"{where}, {direction}", x, 1e-6 * y, 2 * place + offset, STYLES[offset]
                        )
                    )
    # A longer legend would hide the panel.
    return curves if len(curves) <= 8 else [replace(curve, label="") for curve in curves]


def host_power_curves(run, samples):
    found = [
        (host, *rates(of_host.seconds, of_host.columns["host_energy_joules"]))
        for host, of_host in telemetry.first_ranks(run, samples)
    ]
    return [Curve(host, x, y, place) for place, (host, x, y) in enumerate(found) if len(y)]
