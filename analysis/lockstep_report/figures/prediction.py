# SPDX-License-Identifier: BSD-3-Clause
"""Figure of predictions: step time over the number of ranks, dashed with a band for the interval,
and the measured steps as points."""

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.layout import band, colour_of, legend_beside, marker_of, rank_axis, text_width
from lockstep_report.figures.style import DASHED, plt, short_number
from lockstep_report.groups import grouped


def prediction_figure(rows):
    groups = grouped(rows, group_of)
    labels = [f"{batch}, {reducer}" for _, batch, reducer in groups]
    ranks = sorted({row.predicted.ranks for row in rows})
    network = rows[0].predicted.network
    figure, axes = plt.subplots(figsize=(5.4 + max(map(text_width, labels)) + 1.2, 4.2))
    for index, (group, label) in enumerate(zip(groups.values(), labels)):
        draw(axes, sorted(group, key=lambda row: row.predicted.ranks), label, index)
    rank_axis(axes, ranks)
    axes.yaxis.set_major_formatter(lambda value, _: short_number(value))
    axes.set_ylim(0, None)
    axes.set_ylabel("step, ms")
    legend_beside(axes)
    arrange(figure, f"Predicted step time: {network.label}, network {network.name}",
            ["Dashed line and band: predicted, with the 95 % interval. Points: measured.",
             *dict.fromkeys(text for row in rows for text in row.warnings)])
    return figure


def group_of(row):
    basis = row.predicted.basis
    batch = f"global batch {row.predicted.ranks * basis.batch:,}" if row.is_strong else f"batch {basis.batch:,}"
    return basis.setting, batch, basis.reducer


def draw(axes, rows, label, index):
    counts = [row.predicted.ranks for row in rows]
    middle, low, high = ([1e3 * row.predicted.step[i] for row in rows] for i in range(3))
    band(axes, index, counts, low, high)
    axes.plot(counts, middle, color=colour_of(index), linestyle=DASHED, linewidth=1.4, marker="_", markersize=8,
              label=f"{label}, predicted")
    measured = [(row.predicted.ranks, 1e3 * row.measured) for row in rows if row.measured]
    if measured:
        axes.plot(*zip(*measured), color=colour_of(index), linestyle="none", markersize=6, marker=marker_of(index),
                  label=f"{label}, measured")
