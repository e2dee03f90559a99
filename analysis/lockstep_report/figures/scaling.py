# SPDX-License-Identifier: BSD-3-Clause
"""Figures of scaling: speedup and efficiency over the number of ranks, speedup over the threads per
rank, and predicted step times over the number of ranks, dashed with a band for the interval, with
the measured steps as points.
"""

import math
from typing import NamedTuple

import numpy as np

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import length
from lockstep_report.figures.layout import (
    band,
    curve,
    legend_beside,
    panel_figure,
    rank_axis,
    vertical_log_axis,
)
from lockstep_report.figures.style import (
    DASHED,
    IDEAL_LINE,
    new_figure,
    notes_of,
    short_number,
    title_of,
)
from lockstep_report.groups import grouped
from lockstep_report.measure import validity
from lockstep_report.measure.comparison import (
    base_of,
    independent_of,
    scaling_series,
    strong_base_of,
)
from lockstep_report.measure.speedup import speedup_of
from lockstep_report.runfile.settings import measured_on, plural
from lockstep_report.tables import threads


class CurvePoint(NamedTuple):
    """A point of a curve. `low`, `high`: interval of the speedup over runs; None for the base
    case."""

    ranks: int
    speedup: float
    low: float
    high: float
    efficiency: float
    independent: float  # efficiency against independent replicas; None without them


def weak_series(points):
    """Returns [(label, [`CurvePoint`])], one per batch per rank and series, with the efficiencies
    of the table."""
    series = scaling_series(points, base_of, lambda p: p.batch_per_rank)
    names = [
        f"batch {group[0].batch_per_rank} per rank" if group[0].batch_per_rank else "as given"
        for _, group in series
    ]
    return curves_of(series, names, points)


def strong_series(points):
    """Returns curves as `weak_series` does, one per global batch and series."""
    found = scaling_series(
        [p for p in points if p.batch_per_rank], strong_base_of, lambda p: p.global_batch
    )
    series = sorted(found, key=lambda pair: pair[1][0].global_batch)
    names = [f"global batch {group[0].global_batch}" for _, group in series]
    return curves_of(series, names)


def curves_of(series, names, points=()):
    """Returns [(label, [`CurvePoint`])] of [(base, points)]. `points`: with the independent
    replicas."""
    labels = curve_labels(series, names)
    return [
        (
            label,
            [curve_point(base, p, independent_of(p, points)) for p in (base, *group)],
        )
        for label, (base, group) in zip(labels, series)
    ]


def curve_labels(series, names):
    """Returns the names of the series, with their modes if there are several."""
    modes = [group[0].mode for _, group in series]
    if len(set(modes)) < 2:
        return names
    return [f"{name}, {mode}" for name, mode in zip(names, modes)]


def curve_point(base, point, alone):
    """`alone`: the independent replicas, None without them."""
    found, against_alone = speedup_of(base, point), speedup_of(alone, point)
    return CurvePoint(
        ranks=point.ranks,
        speedup=found.value,
        low=found.low,
        high=found.high,
        efficiency=found.efficiency,
        independent=against_alone and against_alone.efficiency,
    )


def scaling(points, series, title, efficiency, letters=None):
    """Returns speedup and efficiency over the rank count; None if `series` is empty. `letters`: as
    in the tables."""
    if not series:
        return None
    letters = letters or validity.letters(points)
    ranks = sorted({row.ranks for _, rows in series for row in rows})
    figure = panel_figure(
        [length(4.5)] * 2, 3.5, ("Epoch speedup T(1)/T(N)", f"{efficiency}, per cent")
    )
    left, right = figure.axes
    left.plot([1, ranks[-1]], [1, ranks[-1]], **IDEAL_LINE)
    for index, (label, rows) in enumerate(series):
        draw_speedup(left, index, label, rows)
    draw_efficiencies(right, series)
    for axes in figure.axes:
        rank_axis(axes, ranks)
    vertical_log_axis(left, 2)
    right.set_ylim(0, 110 * max(1.0, highest_efficiency(series)))
    legend_beside([right])
    return arrange(
        figure,
        f"{title}: {title_of(points)}",
        notes_of(points, letters, lambda note: f" {places_of(note, points)}:"),
    )


def highest_efficiency(series):
    return max(max(row.efficiency, row.independent or 0) for _, rows in series for row in rows)


def draw_efficiencies(axes, series):
    """Draws the efficiency of each curve, and dotted that against independent replicas."""
    hollow = {"linestyle": ":", "markerfacecolor": "white"}
    axes.axhline(100, label="ideal", **IDEAL_LINE)
    has_independent = False
    for index, (label, rows) in enumerate(series):
        pairs = [(row.ranks, row.efficiency) for row in rows]
        draw_efficiency(axes, index, label, pairs, label=label)
        independent = [(row.ranks, row.independent) for row in rows if row.independent]
        name = f"{label}, against independent replicas"
        draw_efficiency(axes, index, name, independent, **hollow)
        has_independent = has_independent or bool(independent)
    if has_independent:
        label = "against independent\nreplicas"
        axes.plot([], [], color="#777777", marker="o", label=label, **hollow)


def draw_speedup(axes, index, label, rows):
    curve(
        axes,
        index,
        [row.ranks for row in rows],
        [row.speedup for row in rows],
        [f"{label}, {plural(row.ranks, 'rank')}: {short_number(row.speedup)}" for row in rows],
    )
    for row in rows:
        if row.low:
            curve(axes, index, [row.ranks] * 2, [row.low, row.high], linewidth=1, marker="_")


def draw_efficiency(axes, index, name, pairs, **style):
    if pairs:
        curve(
            axes,
            index,
            [ranks for ranks, _ in pairs],
            [100 * value for _, value in pairs],
            [f"{name}, {plural(ranks, 'rank')}: {100 * value:.3g} %" for ranks, value in pairs],
            **style,
        )


def places_of(note, points):
    """Returns a text that names the points with a note: "batch 32 on 2 and 4 ranks"."""
    batches = grouped(
        (p for p in points if note in p.notes), lambda p: p.batch_per_rank, lambda p: p.ranks
    )
    texts = []
    for batch, counts in sorted(batches.items()):
        counts = sorted(set(counts))
        ranks = " and ".join(filter(None, (", ".join(map(str, counts[:-1])), str(counts[-1]))))
        texts.append((f"batch {batch:,} on " if batch else "") + plural(ranks, "rank"))
    return ", ".join(texts)


def thread_figures(points):
    return {name: thread_figure(group) for name, group in threads.thread_groups(points).items()}


def thread_figure(group):
    base, table = group[0], threads.thread_table("thread-scaling", group)
    counts = [point.threads for point in group]
    figure = new_figure(5.0, 3.7)
    axes = figure.subplots()
    axes.plot(counts, [n / base.threads for n in counts], label="ideal", **IDEAL_LINE)
    for index, name in enumerate(("", *threads.PASSES)):
        values = [row[f"{name}_speedup" if name else "speedup"] or math.nan for row in table.rows]
        curve(
            axes,
            index,
            counts,
            values,
            [
                f"{name or 'epoch'}, {plural(count, 'thread')}: {short_number(value)}"
                for count, value in zip(counts, values)
            ],
            label=name or "epoch",
        )
    if base.processors:
        axes.axvline(
            base.processors,
            color="#777777",
            linewidth=1,
            linestyle=":",
            label=f"{base.processors} processors",
        )
    rank_axis(axes, counts, "threads per rank")
    vertical_log_axis(axes, 2)
    axes.set_ylabel("speedup")
    legend_beside([axes])
    return arrange(figure, table.title, [measured_on(group)])


def prediction_figure(rows):
    groups = grouped(rows, group_of)
    network = rows[0].predicted.network
    figure = new_figure(5.4, 3.7)
    axes = figure.subplots()
    for index, ((_, batch, reducer), group) in enumerate(groups.items()):
        group = sorted(group, key=lambda row: row.predicted.ranks)
        counts = [row.predicted.ranks for row in group]
        middle, low, high = 1e3 * np.transpose([row.predicted.step for row in group])
        band(axes, index, counts, low, high)
        curve(
            axes,
            index,
            counts,
            middle,
            linestyle=DASHED,
            marker="_",
            markersize=8,
            label=f"{batch}, {reducer}, predicted",
        )
        measured = [(row.predicted.ranks, 1e3 * row.measured) for row in group if row.measured]
        if measured:
            curve(
                axes,
                index,
                *zip(*measured),
                linestyle="none",
                label=f"{batch}, {reducer}, measured",
            )
    rank_axis(axes, sorted({row.predicted.ranks for row in rows}))
    axes.yaxis.set_major_formatter(lambda value, _: short_number(value))
    axes.set(ylim=(0, None), ylabel="step, ms")
    legend_beside([axes])
    return arrange(
        figure,
        f"Predicted step time: {network.label}, network {network.name}",
        [
            "Dashed line and band: predicted, with the 95 % interval. Points: measured.",
            *dict.fromkeys(text for row in rows for text in row.warnings),
        ],
    )


def group_of(row):
    basis = row.predicted.basis
    batch = (
        f"global batch {row.predicted.ranks * basis.batch:,}"
        if row.is_strong
        else f"batch {basis.batch:,}"
    )
    return basis.setting, batch, basis.reducer
