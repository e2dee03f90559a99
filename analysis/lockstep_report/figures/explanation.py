# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the explanation: causes of lost efficiency, scaling laws, all-reduce times; and
the bus bandwidth of all-reduce sweeps over the message size. Fits are drawn as solid lines within
the data and dashed beyond them.
"""

from typing import NamedTuple

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import current, length, text_size
from lockstep_report.figures.layout import (
    chunks,
    curve,
    fit_line,
    legend_beside,
    log_axis,
    panel_figure,
    rank_axis,
    size_text,
    stack,
    text_width,
    vertical_log_axis,
)
from lockstep_report.figures.style import (
    DASHED,
    IDEAL_LINE,
    light_grid,
    name_of,
    new_figure,
    short_number,
    title_of,
)
from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.models.causes import CAUSES, LABELS, SMALLEST_DRAWN, WEAK
from lockstep_report.models.fits import AMDAHL, SWEEP
from lockstep_report.runfile.settings import measured_on, plural
from lockstep_report.tables.machines import machine_text
from lockstep_report.tables.sweep import sweep_table, times_text, wrong_text

EXTENSION = 4  # a law is drawn up to this multiple of the largest number of ranks
EFFICIENT = "#DDDDDD"
COLOURS = dict(
    zip(
        (name for name, _ in CAUSES),
        (
            "#E69F00",
            "#CC79A7",
            "#D55E00",
            "#8C510A",
            "#882255",
            "#F0E442",
            "#999933",
            "#661100",
            "#56B4E9",
            "#0072B2",
            "#009E73",
            "#000000",
            "#777777",
            "#444444",
        ),
    )
)


class CausePanel(NamedTuple):
    title: str
    losses: list


def cause_bars(losses):
    """Returns efficiency and causes as stacked shares of the epoch, one panel per scaling, setting
    and batch, with bars in ascending order of ranks."""
    if not losses:
        return None
    unit = max(
        length(0.5), *(text_width(bar_text(loss), text_size(9)) + length(0.15) for loss in losses)
    )
    panels = cause_panels(losses, unit)
    used = [
        name for name, _ in CAUSES if any(abs(loss.share(name)) > SMALLEST_DRAWN for loss in losses)
    ]
    figure = panel_figure(
        [unit * len(panel.losses) for panel in panels],
        3.6,
        [panel.title for panel in panels],
        "per cent of the epoch",
    )
    for axes, panel in zip(figure.axes, panels):
        draw_causes(axes, panel.losses, used)
    legend_beside(figure.axes, ["efficiency", *LABELS.values()])
    points = [loss.point for loss in losses]
    notes = [measured_on(points)] if current().has_notes else []
    return arrange(figure, "Causes of lost efficiency" + setting_text(points), notes)


def cause_panels(losses, unit):
    """Returns the panels of bars of the width `unit`."""
    groups = grouped(losses, panel_of_loss)
    return [
        CausePanel(f"{scaling},\n{batch}", part)
        for (_, scaling, batch), group in groups.items()
        for part in chunks(sorted(group, key=ranks_of), unit)
    ]


def panel_of_loss(loss):
    return (loss.point.setting, loss.scaling, batch_of_loss(loss))


def ranks_of(loss):
    return loss.point.ranks


def batch_of_loss(loss):
    if loss.scaling == WEAK:
        return f"batch {loss.point.batch_per_rank:,} per rank"
    return f"global batch {loss.point.global_batch:,}"


def setting_text(points):
    return f": {title_of(points)}" if len({p.setting for p in points}) == 1 else ""


def bar_text(loss):
    return f"{loss.point.ranks}\n" + loss.point.mode.replace(", ", ",\n").replace(" (", "\n(")


def draw_causes(axes, group, used):
    places = range(len(group))
    parts = [
        ("efficiency", EFFICIENT, [100 * loss.efficiency for loss in group]),
        *(
            (LABELS[name], COLOURS[name], [100 * loss.share(name) for loss in group])
            for name in used
        ),
    ]
    below, above = stack(
        axes,
        places,
        parts,
        lambda i, label, value: f"{name_of(group[i].point)}, {label}: {value:.3g} %",
        width=0.7,
    )
    axes.axhline(100, **IDEAL_LINE)
    axes.set_xticks(places, map(bar_text, group), fontsize=text_size(9))
    axes.set(xlabel="ranks", ylim=(min(0, 1.1 * below.min()), 1.1 * max(100, above.max())))
    light_grid(axes)


def law_curves(laws):
    laws = [law for law in laws if law.fit is not None]
    if not laws:
        return None
    groups = grouped(enumerate(laws), lambda pair: pair[1].law)
    figure = new_figure(4.6, 3.4 * len(groups))
    panels = figure.subplots(len(groups), 1, squeeze=False)
    for panel, (kind, group) in zip(panels.flat, groups.items()):
        draw_laws(panel, group)
        panel.set_title("Amdahl: T(1)/T(N)" if kind == AMDAHL else "Gustafson: N·t(1)/t(N)")
    points = [point for law in laws for point in law.points]
    return arrange(
        figure,
        "Scaling laws" + setting_text(points),
        [
            (
                "Dashed: beyond the measured numbers of ranks; not measured. A law that does not "
                "describe the times is not drawn there."
            ),
            measured_on(points),
        ],
    )


def batch_of_law(law, point):
    if law == AMDAHL:
        return f"global batch {point.global_batch:,}"
    return f"batch {point.batch_per_rank:,}" if point.batch_per_rank else "as given"


def draw_laws(axes, laws):
    most = EXTENSION * max(int(law.ranks.max()) for _, law in laws)
    axes.plot([1, most], [1, most], label="ideal", **IDEAL_LINE)
    for index, law in laws:
        point, last = law.points[-1], int(law.ranks.max())
        batch = batch_of_law(law.law, point)
        serial = law.serial.times(100)
        interval = f" ({serial.low:.3g} to {serial.high:.3g})" if serial.has_interval else ""
        fit_line(axes, index, law.speedup, 1, last)
        if law.describes_times:
            fit_line(axes, index, law.speedup, last, EXTENSION * last, DASHED)
        speedup = law.speedup(law.ranks, law.seconds)
        curve(
            axes,
            index,
            law.ranks,
            speedup,
            [
                f"{batch}, {point.mode}, {plural(ranks, 'rank')}: {short_number(value)}"
                for ranks, value in zip(law.ranks, speedup)
            ],
            linestyle="none",
            label=f"{batch}, {point.mode}: s = {serial.value:.3g} %{interval}",
        )
    rank_axis(axes, sorted({int(n) for _, law in laws for n in law.ranks} | {most}))
    vertical_log_axis(axes, 2)
    legend_beside([axes])


def all_reduce_lines(fits):
    """Returns time over size with the fitted lines, one panel per origin, number of ranks and
    hosts."""
    fits = [found for found in fits if found.fit is not None]
    if not fits:
        return None
    panels = grouped(fits, lambda found: (found.origin, found.ranks, found.hosts))
    names = list(dict.fromkeys(found.algorithm for found in fits))
    titles = [
        f"{origin}, {ranks} ranks" + (f" on {hosts} hosts" if hosts > 1 else "")
        for origin, ranks, hosts in panels
    ]
    figure = panel_figure([length(3.8)] * len(panels), 3.5, titles, "all-reduce, ms")
    for panel, group in zip(figure.axes, panels.values()):
        draw_all_reduces(panel, group, names)
    legend_beside(figure.axes)
    return arrange(
        figure,
        "All-reduce time: alpha + beta · bytes",
        [
            "Dashed: beyond the measured sizes; not measured. A line ends where it would be"
            " negative."
        ],
    )


def draw_all_reduces(axes, group, names):
    most = max(found.sizes.max() for found in group)
    for found in group:
        index = names.index(found.algorithm)
        low, high = found.sizes.min(), found.sizes.max()
        for first, last, style in (
            (low, high, "-"),
            (high, 4 * most, DASHED),
            (low / 4, low, DASHED),
        ):
            fit_line(axes, index, milliseconds_of(found), first, last, style)
        curve(
            axes,
            index,
            found.sizes,
            1e3 * found.seconds,
            [
                f"{found.algorithm}, {size_text(size)}: {short_number(1e3 * seconds)} ms"
                for size, seconds in zip(found.sizes, found.seconds)
            ],
            linestyle="none",
            markersize=4,
            label=found.algorithm,
        )
    log_axis(axes, "bytes of each rank", size_text)
    vertical_log_axis(axes)
    axes.tick_params(axis="x", rotation=45)


def milliseconds_of(fit):
    """Returns a function: sizes in bytes -> the times of a fit in ms."""

    def milliseconds(sizes):
        return 1e3 * fit.predicted(sizes)

    return milliseconds


def sweep_figure(runs, link_gbit=None, fits=()):
    """Returns one panel per file with the link [that of each run] and the `fits`; None if no run is
    a sweep between ranks."""
    rows = [row for row in sweep_table(runs).rows if row["busbw"]]
    if not rows:
        return None
    links = {run.file_name: run.link_rate(link_gbit) for run in runs}
    panels = grouped(rows, lambda row: (row["source"], row["ranks"]))
    names = list(dict.fromkeys(row["algorithm"] for row in rows))
    titles = [
        f"{ranks} ranks" + (f"\n{source}" if len(panels) > 1 else "") for source, ranks in panels
    ]
    figure = panel_figure(
        [length(4.2)] * len(panels), 3.4, titles, "bus bandwidth, GB/s", is_shared=True
    )
    for axes, ((source, ranks), group) in zip(figure.axes, panels.items()):
        draw_sweep(axes, group, names, links[source])
        own = [fit for fit in fits if fit.origin == SWEEP and source in fit.sources]
        for fit in own:
            if fit.ranks == ranks and fit.fit is not None:
                draw_fitted_bandwidth(axes, fit, names)
    vertical_log_axis(figure.axes[0])
    legend_beside(figure.axes)
    return arrange(
        figure,
        "All-reduce: bus bandwidth 2(N−1)/N · bytes / time over message size",
        sweep_notes([run for run in runs if run.allreduce], link_gbit, fits),
    )


def draw_fitted_bandwidth(axes, fit, names):
    """Draws the bandwidth that follows from alpha and beta, if the algorithm is among the shown
    `names`."""
    name = fit.algorithm.removesuffix(" (MPI)")
    if name not in names:
        return

    def bandwidth(sizes):
        return 1e-9 * metrics.ring_bytes(sizes, fit.ranks) / fit.predicted(sizes)

    fit_line(axes, names.index(name), bandwidth, fit.sizes.min(), fit.sizes.max(), ":", 0.8)


def sweep_notes(runs, link_gbit, fits):
    notes = []
    for run in runs:
        machine = f"{run.label}: {machine_text(run)}, {link_of(run, link_gbit)}"
        texts = (machine, times_text(run), wrong_text(run))
        notes.append("; ".join(filter(None, texts)))
    if any(fit.fit is not None and fit.origin == SWEEP for fit in fits):
        notes.append("Lines without markers: fits of the time, alpha + beta · bytes")
    return notes


def link_of(run, link_gbit):
    rate = run.link_rate(link_gbit)
    if rate:
        return f"link {rate:g} Gbit/s"
    return "one host, no link" if run.host_count == 1 else "rate of the link not given"


def draw_sweep(axes, rows, names, link_gbit):
    for name, own in grouped(rows, lambda row: row["algorithm"]).items():
        sizes, rates = zip(*sorted((row["bytes"], row["busbw"]) for row in own))
        curve(
            axes,
            names.index(name),
            sizes,
            rates,
            [
                f"{name}, {size_text(size)}: {short_number(rate)} GB/s"
                for size, rate in zip(sizes, rates)
            ],
            label=name,
            markersize=4,
        )
    if link_gbit:
        axes.axhline(link_gbit / 8, label=f"link, {link_gbit:g} Gbit/s", **IDEAL_LINE)
    log_axis(axes, "message size", size_text)
