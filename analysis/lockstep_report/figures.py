"""Figures as SVG and PNG. Colours of Okabe and Ito, which colour-blind readers can tell apart."""

import io
import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of the backend)
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: E402

from lockstep_report import metrics  # noqa: E402
from lockstep_report.points import (  # noqa: E402
    IMBALANCE, base_of, independent_of, setting_names, strong_base_of)

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


def title_of(points):
    """The setting of the points, in words."""
    return ", ".join(part for part in points[0].setting[:3] if part)


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
        figure.suptitle("Where the time of an epoch goes: " + title_of(timed), fontsize=11)
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
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    light_grid(axes)


def bar_label(point):
    ranks = "1 rank" if point.ranks == 1 else f"{point.ranks} ranks"
    if point.is_independent:
        how = "no communi-\ncation"
    else:
        how = "" if point.ranks == 1 else point.reducer
    extra = point.gradient_dtype if point.gradient_dtype not in ("", "fp32") else ""
    detail = point.detail.replace(", ", "\n")
    return "\n".join(text for text in (ranks, how, extra, detail) if text)


def weak_series(points):
    """[(label, [(ranks, speedup, efficiency, efficiency against independent replicas)])], one for
    each batch per rank and mode."""
    groups = {}
    for p in points:
        base = base_of(p, points)
        if base is None or p.ranks == 1 or p.is_independent:
            continue
        alone = independent_of(p, points)
        batch = f"batch {p.batch_per_rank} per rank" if p.batch_per_rank else "as given"
        groups.setdefault((batch, p.mode), [(1, 1.0, 1.0, None)]).append(
            scaling_row(p, base, alone and alone.epoch_seconds / p.epoch_seconds))
    several = len({mode for _, mode in groups}) > 1
    return [(f"{batch}, {mode}" if several else batch, rows)
            for (batch, mode), rows in groups.items()]


def strong_series(points):
    """As `weak_series`, for each global batch and mode."""
    groups = {}
    for p in points:
        base = strong_base_of(p, points) if p.batch_per_rank else None
        if base is None or p.ranks == 1 or p.is_independent:
            continue
        groups.setdefault((p.global_batch, p.mode), [(1, 1.0, 1.0, None)]).append(
            scaling_row(p, base))
    several = len({mode for _, mode in groups}) > 1
    return [(f"global batch {batch}, {mode}" if several else f"global batch {batch}", rows)
            for (batch, mode), rows in sorted(groups.items())]


def scaling_row(point, base, against_independent=None):
    return (point.ranks, metrics.speedup(base.epoch_seconds, point.epoch_seconds),
            metrics.strong_efficiency(base.epoch_seconds, point.epoch_seconds, point.ranks),
            against_independent)


def scaling(points, series, title):
    """Speedup and efficiency against the rank count, with the ideal line."""
    if not series:
        return None
    ranks = sorted({row[0] for _, rows in series for row in rows})
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0))
        broken = {"color": "#777777", "linewidth": 1, "linestyle": (0, (4, 3))}
        left.plot([1, ranks[-1]], [1, ranks[-1]], **broken)
        right.axhline(100, **broken)
        ends = []
        for index, (label, rows) in enumerate(series):
            style = {"color": SERIES[index % len(SERIES)], "marker": MARKERS[index % len(MARKERS)],
                     "markersize": 6, "linewidth": 1.4}
            counts = [row[0] for row in rows]
            left.plot(counts, [row[1] for row in rows], **style)
            right.plot(counts, [100 * row[2] for row in rows], **style)
            alone = [(row[0], 100 * row[3]) for row in rows if row[3]]
            if alone:
                right.plot(*zip(*alone), **{**style, "linestyle": ":", "markerfacecolor": "white"})
            ends.append((rows[-1], label, style["color"]))
        finish_scaling(left, right, ranks, series, ends)
        figure.suptitle(f"{title}: {title_of(points)}", fontsize=11)
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


def ladder(rows):
    """Epoch time and images/s for each batch; where memory was full."""
    if not any(row.get("epoch_seconds") for row in rows):
        return None
    keys = [(key, title, form) for key, title, form in (
        ("epoch_seconds", "Epoch time, seconds", "{:.3g}"),
        ("images_per_second", "Images per second", "{:,.0f}"),
    ) if any(row.get(key) for row in rows)]
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1, len(keys), squeeze=False, figsize=((1.4 + 0.75 * len(rows)) * len(keys), 3.4))
        for axes, (key, title, form) in zip(panels[0], keys):
            draw_ladder(axes, rows, key, form)
            axes.set_title(title)
        return render(figure)


def draw_ladder(axes, rows, key, form):
    for place, row in enumerate(rows):
        value = row.get(key)
        axes.bar(place, value or 0, color=SERIES[0], width=0.62)
        text = form.format(value) if value else "\n".join(row["status"].rsplit(" ", 1))
        axes.annotate(text, (place, value or 0), ha="center", va="bottom", xytext=(0, 3),
                      textcoords="offset points", color="black" if value else SERIES[1])
    axes.set_xticks(range(len(rows)), [f"{row['batch_per_rank']:,}" for row in rows])
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylim(0, 1.1 * max(row.get(key) or 0 for row in rows))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel("batch")
    light_grid(axes)


def all_figures(points, ladder_table):
    """{name: {suffix: bytes}} of every figure that has data; one of each kind for each setting."""
    made = {}
    names = setting_names(p.setting for p in points)
    for setting, name in names.items():
        group = [p for p in points if p.setting == setting]
        ending = file_ending(name)
        made[f"phases{ending}"] = phase_bars(group)
        made[f"scaling{ending}"] = scaling(
            group, weak_series(group), "Scaling at fixed batch per rank")
        made[f"strong-scaling{ending}"] = scaling(
            group, strong_series(group), "Strong scaling, fixed global batch")
    for name in dict.fromkeys(row["setting"] for row in ladder_table.rows):
        rows = [row for row in ladder_table.rows if row["setting"] == name]
        if len(rows) > 1:
            made[f"batch-ladder{file_ending(name)}"] = ladder(rows)
    return {name: images for name, images in made.items() if images}


def file_ending(name):
    """"-resnet18-cifar" and the like: letters, digits and '-' only."""
    return re.sub("[^a-z0-9]+", "-", f"-{name}".lower()).rstrip("-") if name else ""
