"""Figure of all-reduce sweeps: bus bandwidth over message size for each algorithm."""

from matplotlib.ticker import FuncFormatter, NullLocator

from lockstep_report.figure_layout import arrange, text_width
from lockstep_report.figure_style import IDEAL_LINE, MARKERS, SERIES, STYLE, light_grid, plt
from lockstep_report.points import link_of
from lockstep_report.sweep import sweep_table

SUFFIXES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def sweep_figure(runs, link_gbit=None):
    """Returns the figure, with one panel per file; None if no run is a sweep between ranks.
    `link_gbit`: rate of the link, drawn as a line, in Gbit/s [that of each run]."""
    panels, links = {}, {run.file_name: link_gbit or link_of(run) for run in runs}
    for row in sweep_table(runs).rows:
        if row["busbw"]:
            curves = panels.setdefault((row["source"], row["ranks"]), {})
            curves.setdefault(row["algorithm"], []).append((row["bytes"], row["busbw"]))
    if not panels:
        return None
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(panels), sharey=True, squeeze=False,
            figsize=(4.2 * len(panels) + 0.6 + max(map(text_width, names)), 4.0))
        for panel, ((source, ranks), curves) in zip(axes[0], panels.items()):
            draw_panel(panel, curves, names, links[source])
            panel.set_title(f"{ranks} ranks" + (f" ({source})" if len(panels) > 1 else ""))
        axes[0][0].set_ylabel("bus bandwidth, GB/s")
        handles = dict(zip(*reversed(axes[0][0].get_legend_handles_labels())))
        for panel in axes[0][1:]:
            handles |= dict(zip(*reversed(panel.get_legend_handles_labels())))
        axes[0][-1].legend(handles.values(), handles.keys(), loc="center left",
                           bbox_to_anchor=(1.02, 0.5))
        arrange(figure, "All-reduce: bus bandwidth 2(N−1)/N · bytes / time over message size")
        return figure


def draw_panel(axes, curves, names, link_gbit):
    for name, values in curves.items():
        index = names.index(name)
        values = sorted(values)
        axes.plot([size for size, _ in values], [rate for _, rate in values], label=name,
                  color=SERIES[index % len(SERIES)], linewidth=1.4, markersize=4,
                  marker=MARKERS[(index + index // len(SERIES)) % len(MARKERS)])
    if link_gbit:
        axes.axhline(link_gbit / 8, label=f"link, {link_gbit:g} Gbit/s", **IDEAL_LINE)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(size_text))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("message size")
    light_grid(axes, "both")


def size_text(value, _=None):
    """Formats a number of bytes: "64 KiB"."""
    for unit, name in SUFFIXES:
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"
