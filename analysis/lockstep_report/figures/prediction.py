"""Figure of predictions: step time over the number of ranks, dashed with a band for the interval,
and the measured steps as points."""

from matplotlib.ticker import FuncFormatter, NullLocator

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.layout import legend_beside, text_width
from lockstep_report.figures.scaling import labelled_ranks
from lockstep_report.figures.style import SERIES, light_grid, marker_of, plt, rc_settings, short_number


def prediction_figure(rows):
    """Returns the figure of at least one row."""
    groups = {}
    for row in rows:
        basis = row.predicted.basis
        batch = (f"global batch {row.predicted.ranks * basis.batch:,}" if row.is_strong
                 else f"batch {basis.batch:,}")
        groups.setdefault((basis.setting, batch, basis.reducer), []).append(row)
    labels = [f"{batch}, {reducer}" for _, batch, reducer in groups]
    ranks = sorted({row.predicted.ranks for row in rows})
    network = rows[0].predicted.network
    with plt.rc_context(rc_settings()):
        figure, axes = plt.subplots(figsize=(5.4 + max(map(text_width, labels)) + 1.2, 4.2))
        for index, (group, label) in enumerate(zip(groups.values(), labels)):
            draw(axes, sorted(group, key=lambda row: row.predicted.ranks), label, index)
        axes.set_xscale("log", base=2)
        axes.set_xticks(labelled_ranks(ranks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        axes.set_ylim(0, None)
        axes.set_xlabel("ranks N")
        axes.set_ylabel("step, ms")
        light_grid(axes, "both")
        legend_beside(axes)
        arrange(figure, f"Predicted step time: {network.label}, network {network.name}",
                ["Dashed line and band: predicted, with the 95 % interval. Points: measured.",
                 *dict.fromkeys(text for row in rows for text in row.warnings)])
        return figure


def draw(axes, rows, label, index):
    colour = SERIES[index % len(SERIES)]
    counts = [row.predicted.ranks for row in rows]
    low, high = ([1e3 * row.predicted.step[i] for row in rows] for i in (1, 2))
    axes.fill_between(counts, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(counts, [1e3 * row.predicted.step[0] for row in rows], color=colour,
              linestyle=(0, (4, 3)), linewidth=1.4, marker="_", markersize=8,
              label=f"{label}, predicted")
    measured = [(row.predicted.ranks, 1e3 * row.measured) for row in rows if row.measured]
    if measured:
        axes.plot(*zip(*measured), color=colour, linestyle="none", markersize=6,
                  marker=marker_of(index), label=f"{label}, measured")
