# SPDX-License-Identifier: BSD-3-Clause
"""The figure of a profile: the longest operations, and all operations in the roofline model."""

import numpy as np

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import length, text_size
from lockstep_report.figures.layout import legend_beside, panel_figure, vertical_log_axis, wrap
from lockstep_report.figures.style import light_grid, short_number, show_values
from lockstep_report.tables.profile import (
    ALL_REDUCE,
    ceilings_of,
    cost_of,
    operation_rows,
    profiled_runs,
)

SHOWN = 12  # rows with bars; the others are added up
COLOURS = {
    "forward": "#56B4E9",
    "backward": "#E69F00",
    "backward data": "#0072B2",
    "backward weights": "#CC79A7",
    "update": "#009E73",
    "recompute": "#D55E00",
}
OTHER = "#999999"
CEILING_MARKERS = {"compute": "o", "memory": "s", "cache": "^"}


def colour_of_operation(row):
    return COLOURS.get(row["phase"] or row["kind"], OTHER)


def profile_figures(runs):
    return {f"profile{ending}": profile_figure(run) for run, ending in profiled_runs(runs)}


def profile_figure(run):
    rows = [row for row in operation_rows(run) if row["phase"] != ALL_REDUCE]
    ceilings = ceilings_of(run)
    points = [row for row in rows if row["flops"] and row["bytes"]]
    has_roofline = bool(all(ceilings) and points)
    titles = ["Longest operations", "Roofline model; the area is the time"][: 1 + has_roofline]
    figure = panel_figure([length(4.5)] * len(titles), 4.2, titles)
    draw_bars(figure.axes[0], rows)
    if has_roofline:
        draw_roofline(figure.axes[1], points, ceilings)
    with_profile, without, steps = cost_of(run)
    return arrange(
        figure,
        f"Profile of a training step: {run.label}, rank 0",
        [
            f"means over {steps:.0f} steps; a step takes {1e3 * with_profile:.1f} ms with the "
            f"profile and {1e3 * without:.1f} ms without"
        ],
    )


def name_of_operation(row):
    return ", ".join(filter(None, (row["kind"], row["phase"])))


def draw_bars(axes, rows):
    shown, rest = rows[:SHOWN], rows[SHOWN:]
    bars = [
        (
            name_of_operation(row) + (f" ({row['calls']:.0f}×)" if row["calls"] > 1 else ""),
            row["milliseconds"],
            colour_of_operation(row),
        )
        for row in shown
    ]
    if rest:
        bars.append((f"{len(rest)} other rows", sum(row["milliseconds"] for row in rest), OTHER))
    labels, values, colours = zip(*bars)
    places = np.arange(len(values))[::-1]
    bars = axes.barh(places, values, color=colours, height=0.75)
    axes.bar_label(bars, [f"{value:,.2f}" for value in values], padding=3, fontsize=text_size(8))
    axes.set_yticks(
        places, [wrap(label, length(2.2), text_size(8)) for label in labels], fontsize=text_size(8)
    )
    axes.set(xlim=(0, 1.25 * max(values)), xlabel="ms per step")
    light_grid(axes, "x")


def draw_roofline(axes, points, ceilings):
    """Draws FLOP/s over FLOPs per byte. The area of a marker is the time of its row."""
    flops, memory = ceilings
    intensity = np.array([row["flops"] / row["bytes"] for row in points])
    span = np.geomspace(
        min(intensity.min(), flops / memory) / 2, max(intensity.max(), flops / memory) * 2, 100
    )
    axes.plot(span, np.minimum(flops, span * memory) / 1e9, color="black", linewidth=1.2)
    longest = max(row["milliseconds"] for row in points)
    for row, x in zip(points, intensity):
        point = axes.scatter(
            x,
            row["gflop_per_second"],
            color=colour_of_operation(row),
            alpha=0.8,
            linewidth=0,
            marker=CEILING_MARKERS.get(row["ceiling"], "o"),
            s=20 + 180 * row["milliseconds"] / longest,
        )
        show_values(
            [point],
            [
                f"{name_of_operation(row)}: {short_number(row['gflop_per_second'])} GFLOP/s, "
                f"{short_number(row['milliseconds'])} ms"
            ],
        )
    for phase in dict.fromkeys(row["phase"] or row["kind"] for row in points):
        axes.scatter([], [], color=COLOURS.get(phase, OTHER), marker="o", label=phase)
    for name, marker in CEILING_MARKERS.items():
        if any(row["ceiling"] == name for row in points):
            axes.scatter(
                [], [], color="white", edgecolor="black", marker=marker, label=f"ceiling: {name}"
            )
    axes.set(xscale="log", xlabel="arithmetic intensity, FLOPs per byte", ylabel="GFLOP/s")
    axes.xaxis.set_major_formatter("{x:g}")
    vertical_log_axis(axes)
    legend_beside([axes], fontsize=text_size(8))
    light_grid(axes, "both")
