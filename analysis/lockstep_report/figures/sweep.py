# SPDX-License-Identifier: BSD-3-Clause
"""Figure of all-reduce sweeps: bus bandwidth over message size for each algorithm."""

import numpy as np

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import current, length
from lockstep_report.figures.layout import (
    colour_of, curve, label_decades, legend_beside, panel_figure, share_limits, size_axis, size_text,
    text_width)
from lockstep_report.figures.style import IDEAL_LINE, short_number
from lockstep_report.measure import metrics
from lockstep_report.models.alpha_beta import SWEEP
from lockstep_report.measure.points import link_rate_of
from lockstep_report.models.fits import SWEEP
from lockstep_report.tables.sweep import machine_of, sweep_table, times_text, wrong_text


def sweep_figure(runs, link_gbit=None, fits=()):
    """Returns one panel per file with the link [that of each run] and the `fits`; None if no run is a sweep between ranks."""
    panels, links = {}, {run.file_name: run.link_rate(link_gbit) for run in runs}
    for row in sweep_table(runs).rows:
        if row["busbw"]:
            curves = panels.setdefault((row["source"], row["ranks"]), {})
            curves.setdefault(row["algorithm"], []).append((row["bytes"], row["busbw"]))
    if not panels:
        return None
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    titles = [f"{ranks} ranks" + (f"\n{source}" if len(panels) > 1 else "")
              for source, ranks in panels]
    widths = [min(current().row, max(length(4.2), text_width(title) + 0.2))
              for title in titles]
    figure, rows = panel_figure(widths, 0.6 + max(map(text_width, names)), 3.6, "bus bandwidth, GB/s")
    for panel, title, ((source, ranks), curves) in zip(figure.axes, titles, panels.items()):
        draw_panel(panel, curves, names, links[source])
        draw_fits(panel, [fit for fit in fits if source in fit.sources
                           and fit.ranks == ranks], names)
        panel.set_title(title)
    share_limits(figure.axes)
    for panel in figure.axes:
        label_decades(panel)
    legend_beside(rows[0][-1], figure.axes)
    arrange(figure, "All-reduce: bus bandwidth 2(N−1)/N · bytes / time over message size",
            sweep_notes([run for run in runs if run.allreduce], link_gbit, fits))
    return figure


def sweep_notes(runs, link_gbit, fits):
    notes = []
    for run in runs:
        rate = run.link_rate(link_gbit)
        link = (f"link {rate:g} Gbit/s" if rate else "one host, no link" if run.host_count == 1
                else "rate of the link not given")
        notes.append("; ".join(filter(None, (f"{run.label}: {machine_of(run)}, {link}", times_text(run), wrong_text(run)))))
    if any(fit.fit is not None and fit.origin == SWEEP for fit in fits):
        notes.append("Lines without markers: fits of the time, alpha + beta · bytes")
    return notes


def draw_fits(axes, fits, names):
    """Draws the bandwidth that follows from alpha and beta, within the measured sizes."""
    for found in fits:
        name = found.algorithm.removesuffix(" (MPI)")
        if found.fit is None or found.origin != SWEEP or name not in names:
            continue
        sizes = np.geomspace(found.sizes.min(), found.sizes.max(), 60)
        seconds = found.predicted(sizes)
        known = seconds > 0
        rates = metrics.ring_bytes(sizes[known], found.ranks) / seconds[known] / 1e9
        axes.plot(sizes[known], rates, linewidth=0.8, linestyle=":", color=colour_of(names.index(name)))


def draw_panel(axes, curves, names, link_gbit):
    for name, values in curves.items():
        values = sorted(values)
        curve(axes, names.index(name), *zip(*values), [
            f"{name}, {size_text(size)}: {short_number(rate)} GB/s" for size, rate in values], label=name, markersize=4)
    if link_gbit:
        axes.axhline(link_gbit / 8, label=f"link, {link_gbit:g} Gbit/s", **IDEAL_LINE)
    size_axis(axes, "message size")
