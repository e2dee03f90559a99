"""Figures as SVG and PNG. Colours of Okabe and Ito, which colour-blind readers can tell apart."""

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of the backend)
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: E402

from lockstep_report import metrics  # noqa: E402
from lockstep_report.points import (  # noqa: E402
    IMBALANCE, base_of, independent_of, strong_base_of)

COLOURS = {
    "data_wait": "#999999",
    "upload": "#F0E442",
    "forward": "#56B4E9",
    "backward": "#0072B2",
    "exposed_communication": "#D55E00",
    "update": "#009E73",
    IMBALANCE: "#DDDDDD",
}
NAMES = {
    "data_wait": "data wait",
    "exposed_communication": "exposed communication",
    IMBALANCE: "imbalance",
}
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vPX"
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "lockstep",
    "figure.constrained_layout.use": True,
}
MAXIMUM_PANELS = 4


def render(figure):
    """{suffix: bytes} of a figure, which is closed; the same input gives the same bytes."""
    images = {}
    for suffix, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 160})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, **options)
        images[suffix] = buffer.getvalue()
    plt.close(figure)
    return images


def light_grid(axes, axis="y"):
    axes.grid(axis=axis, color="#E5E5E5", linewidth=0.8)
    axes.tick_params(length=0)


def several_titles(points):
    """The one setting of all points in words, or nothing."""
    settings = {p.setting for p in points}
    if len(settings) != 1 or "csv" in next(iter(settings)):
        return ""
    model, device, precision, _ = next(iter(settings))
    return ", ".join(part for part in (model, device, precision) if part)


def phase_bars(points):
    """Stacked bars of the phases for each rank count, one panel for each batch per rank."""
    timed = [p for p in points if p.phase_seconds]
    batches = sorted({p.batch_per_rank for p in timed})[:MAXIMUM_PANELS]
    if not batches:
        return None
    columns = [sum(p.batch_per_rank == b for p in timed) for b in batches]
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1, len(batches), squeeze=False, figsize=(2.6 + 0.95 * sum(columns) + 0.5, 3.9),
            gridspec_kw={"width_ratios": columns})
        for axes, batch in zip(panels[0], batches):
            draw_stack(axes, [p for p in timed if p.batch_per_rank == batch])
            axes.set_title(f"batch {batch} per rank")
        panels[0][0].set_ylabel("seconds per epoch (mean over the ranks)")
        handles = {}
        for axes in panels[0]:
            for handle, name in zip(*axes.get_legend_handles_labels()):
                handles.setdefault(name, handle)
        order = [NAMES.get(n, n) for n in COLOURS if NAMES.get(n, n) in handles][::-1]
        panels[0][-1].legend([handles[n] for n in order], order, loc="center left",
                             bbox_to_anchor=(1.02, 0.5), handlelength=1.0, handleheight=1.0)
        if several_titles(timed):
            figure.suptitle("Where the time of an epoch goes: " + several_titles(timed),
                            fontsize=11)
        return render(figure)


def draw_stack(axes, points):
    floor = [0.0] * len(points)
    whole = max(p.epoch_seconds for p in points)
    for name, colour in COLOURS.items():
        heights = [p.phase_seconds.get(name, 0.0) for p in points]
        if max(heights) < 0.002 * whole:
            continue
        axes.bar(range(len(points)), heights, bottom=floor, color=colour, width=0.66,
                 edgecolor="white", linewidth=0.6, label=NAMES.get(name, name))
        floor = [f + h for f, h in zip(floor, heights)]
    for place, point in enumerate(points):
        axes.annotate(f"{point.epoch_seconds:.3g} s", (place, point.epoch_seconds), ha="center",
                      va="bottom", xytext=(0, 2), textcoords="offset points")
    axes.set_xticks(range(len(points)), [bar_label(p) for p in points])
    axes.set_xlim(-0.6, len(points) - 0.4)
    axes.set_ylim(0, 1.1 * whole)
    light_grid(axes)


def bar_label(point):
    ranks = "1 rank" if point.ranks == 1 else f"{point.ranks} ranks"
    if point.is_independent:
        return f"{ranks}\nno commu-\nnication"
    return ranks if point.ranks == 1 or not point.reducer else f"{ranks}\n{point.reducer}"


def scaling_series(points):
    """[(label, [(ranks, speedup, efficiency, efficiency against independent replicas)])]."""
    groups = {}
    for p in points:
        base = base_of(p, points)
        if base is None or p.is_independent:
            continue
        alone = independent_of(p, points)
        row = (p.ranks, metrics.speedup(base.epoch_seconds, p.epoch_seconds),
               metrics.strong_efficiency(base.epoch_seconds, p.epoch_seconds, p.ranks),
               alone and alone.epoch_seconds / p.epoch_seconds)
        batch = f"batch {p.batch_per_rank} per rank" if p.batch_per_rank else "given times"
        groups.setdefault((p.setting, p.batch_per_rank, batch), {}).setdefault(
            "" if p.ranks == 1 else p.mode, []).append(row)
    series = []
    for (_, _, batch), modes in groups.items():
        first = modes.pop("", [])
        for mode, rows in modes.items():
            label = batch if len(modes) == 1 else f"{batch}, {mode}"
            series.append((label, sorted(first[:1] + rows)))
    return series + strong_series(points)


def strong_series(points):
    groups = {}
    for p in points:
        base = strong_base_of(p, points) if p.batch_per_rank else None
        if base is None or p.is_independent:
            continue
        row = (p.ranks, metrics.speedup(base.epoch_seconds, p.epoch_seconds),
               metrics.strong_efficiency(base.epoch_seconds, p.epoch_seconds, p.ranks), None)
        groups.setdefault((p.setting, p.global_batch), []).append(row)
    return [(f"global batch {batch} (strong)", sorted(rows))
            for (_, batch), rows in groups.items() if len({r[0] for r in rows}) > 1]


def scaling(points):
    """Speedup and efficiency against the rank count, with the ideal line."""
    series = scaling_series(points)
    if not series:
        return None
    ranks = sorted({row[0] for _, rows in series for row in rows})
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0))
        left.plot([1, ranks[-1]], [1, ranks[-1]], color="#777777", linewidth=1, linestyle=(0, (4, 3)))
        right.axhline(100, color="#777777", linewidth=1, linestyle=(0, (4, 3)))
        ends = []
        for index, (label, rows) in enumerate(series):
            style = {"color": SERIES[index % len(SERIES)], "marker": MARKERS[index % len(MARKERS)],
                     "markersize": 6, "linewidth": 1.4}
            counts = [row[0] for row in rows]
            left.plot(counts, [row[1] for row in rows], label=label, **style)
            right.plot(counts, [100 * row[2] for row in rows], **style)
            alone = [(row[0], 100 * row[3]) for row in rows if row[3]]
            if alone:
                right.plot(*zip(*alone), **{**style, "linestyle": ":", "markerfacecolor": "white"})
            ends.append((rows[-1], label, style["color"]))
        finish_scaling(left, right, ranks, series, ends)
        if several_titles(points):
            figure.suptitle("Scaling of " + several_titles(points), fontsize=11)
        return render(figure)


def finish_scaling(left, right, ranks, series, ends):
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(ranks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("ranks N")
        light_grid(axes, "both")
    left.set_yscale("log", base=2)
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.set_title("Epoch speedup T(1)/T(N)")
    right.set_title("Efficiency T(1)/(N·T(N)), per cent")
    top = max(100.0, *(100 * row[2] for _, rows in series for row in rows),
              *(100 * (row[3] or 0) for _, rows in series for row in rows))
    right.set_ylim(0, 1.1 * top)
    left.annotate("ideal", (ranks[-1], ranks[-1]), ha="right", va="bottom", color="#555555",
                  xytext=(-8, 0), textcoords="offset points")
    right.annotate("ideal", (ranks[0], 100), ha="left", va="bottom", color="#555555",
                   xytext=(2, 2), textcoords="offset points")
    label_ends(right, ends)
    if any(row[3] for _, rows in series for row in rows):
        right.annotate("dotted: against as many independent replicas", (0.02, 0.03),
                       xycoords="axes fraction", color="#555555", fontsize=9)


def label_ends(axes, ends):
    """Names each line at its end, moved apart where they would touch."""
    low, high = axes.get_ylim()
    gap = 0.062 * (high - low)
    previous = None
    for row, label, colour in sorted(ends, key=lambda end: end[0][2]):
        place = 100 * row[2]
        if previous is not None:
            place = max(place, previous + gap)
        previous = place
        axes.annotate(label, (row[0], 100 * row[2]), xytext=(1.04, place),
                      textcoords=("axes fraction", "data"), color=colour, va="center",
                      annotation_clip=False)


def ladder(table):
    """Epoch time and images/s against the batch; where memory was full."""
    rows = [row for row in table.rows if row.get("epoch_seconds")]
    full = [row for row in table.rows if row["status"] == "out of memory"]
    if not rows:
        return None
    batches = [row["batch_per_rank"] for row in rows]
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(1, 2, figsize=(9.0, 3.6))
        for axes, key, title, form in (
            (panels[0], "epoch_seconds", "Epoch time, seconds", "{:.3g}"),
            (panels[1], "images_per_second", "Images per second", "{:,.0f}"),
        ):
            values = [row.get(key) for row in rows]
            if None in values:
                axes.set_visible(False)
                continue
            axes.plot(batches, values, color=SERIES[0], marker="o", linewidth=1.4)
            for batch, value in zip(batches, values):
                axes.annotate(form.format(value), (batch, value), ha="center", va="bottom",
                              xytext=(0, 5), textcoords="offset points")
            finish_ladder(axes, batches, full, max(values))
            axes.set_title(title)
        return render(figure)


def finish_ladder(axes, batches, full, highest):
    places = batches + [row["batch_per_rank"] for row in full]
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(min(places) / 1.6, max(places) * 1.6)
    axes.set_ylim(0, 1.18 * highest)
    for row in full:
        axes.plot(row["batch_per_rank"], 0, marker="x", color=SERIES[1], markersize=9,
                  markeredgewidth=2, clip_on=False)
        axes.annotate("out of\nmemory", (row["batch_per_rank"], 0), ha="center", va="bottom",
                      color=SERIES[1], xytext=(0, 8), textcoords="offset points")
    axes.set_xlabel("batch")
    light_grid(axes)


def all_figures(points, ladder_table):
    """{name: {suffix: bytes}} of every figure that has data."""
    made = {
        "phases": phase_bars(points),
        "scaling": scaling(points),
        "batch-ladder": ladder(ladder_table) if len(ladder_table.rows) > 1 else None,
    }
    return {name: images for name, images in made.items() if images}
