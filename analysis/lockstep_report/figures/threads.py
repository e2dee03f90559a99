# SPDX-License-Identifier: BSD-3-Clause
"""Figure of thread scaling: speedup of the passes of a step over the threads per rank."""

import math

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.layout import legend_beside
from lockstep_report.figures.marks import curve
from lockstep_report.figures.style import IDEAL_LINE, light_grid, plt, short_number
from lockstep_report.figures.ticks import rank_axis
from lockstep_report.runfile.settings import measured_on, plural
from lockstep_report.tables.threads import PASSES, name_of, row_of, thread_groups, title_of


def thread_figures(points):
    """Returns {name: figure} with one figure per group of `thread_groups`."""
    groups = thread_groups(points)
    return {name_of(group, groups): thread_figure(group) for group in groups}


def thread_figure(group):
    base = group[0]
    rows = [row_of(point, base) for point in group]
    threads = [row["threads"] for row in rows]
    figure, axes = plt.subplots(figsize=(6.6, 4.2))
    axes.plot(threads, [n / base.threads for n in threads], label="ideal", **IDEAL_LINE)
    for index, name in enumerate(("", *PASSES)):
        values = [row[f"{name}_speedup" if name else "speedup"] or math.nan for row in rows]
        curve(axes, index, threads, values, [
            f"{name or 'epoch'}, {plural(count, 'thread')}: {short_number(value)}"
            for count, value in zip(threads, values)], label=name or "epoch")
    if base.processors:
        axes.axvline(base.processors, color="#777777", linewidth=1, linestyle=":",
                     label=f"{base.processors} processors")
    rank_axis(axes, threads)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("threads per rank")
    axes.set_ylabel("speedup")
    light_grid(axes, "both")
    legend_beside(axes)
    arrange(figure, title_of(group), [measured_on(group)])
    return figure
