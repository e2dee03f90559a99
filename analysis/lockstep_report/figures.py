"""Figures as SVG and PNG. The colours are those of Okabe and Ito, which colour-blind readers can
distinguish."""

import io
import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is selected)
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: E402

from lockstep_report import metrics, settings, validity  # noqa: E402
from lockstep_report.comparison import base_of, independent_of, strong_base_of  # noqa: E402
from lockstep_report.figure_layout import arrange, text_width  # noqa: E402
from lockstep_report.points import IMBALANCE  # noqa: E402
from lockstep_report.scaling import weak_efficiency  # noqa: E402
from lockstep_report.settings import (  # noqa: E402
    SETTING_PARTS, file_ending, setting_names, setting_texts)

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
    "figure.dpi": 160,
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
LINE_HEIGHT = 0.17  # height of a line of 10-point text, inches
ROW_WIDTH = 11.0  # width of the bars in one row of panels, inches
AXIS_WIDTH = 3.4  # width of a panel with curves, inches; used only to select rank labels


def render(figure):
    """Renders a figure and closes it. Returns {suffix: bytes}; equal input gives equal bytes."""
    images = {}
    with plt.rc_context(STYLE):
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
    """Returns a text that describes the setting of the points."""
    setting = points[0].setting
    texts = setting_texts(setting) if len(setting) == len(SETTING_PARTS) else setting
    return ", ".join(text for text in texts if text)


def short_number(value):
    """Formats with three significant digits, from 1,000 on as an integer without exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def phase_bars(points, letters=None):
    """Returns a figure with the phases of each rank count as stacked bars, one panel per batch per
    rank; None if no point has phases. Panels that do not fit in one row continue in further rows.
    `letters`: {validity note: letter}, as in the tables."""
    letters = letters or validity.letters(points)
    timed = [p for p in points if p.phase_seconds]
    if not timed:
        return None
    batches = sorted({p.batch_per_rank for p in timed})
    panels = [[p for p in timed if p.batch_per_rank == batch] for batch in batches]
    titles = [f"batch {batch:,} per rank" for batch in batches]
    labels = [bar_label(p, letters) for p in timed]
    unit = max(0.95, *(text_width(label) + 0.15 for label in labels))
    widths = [max(unit * len(panel), text_width(title) + 0.2)
              for panel, title in zip(panels, titles)]
    rows = rows_of(widths)
    height = 3.3 + LINE_HEIGHT * max(label.count("\n") + 1 for label in labels)
    longest = max(sum(widths[i] for i in row) for row in rows)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(longest + 3.1, 0.4 + height * len(rows)))
        axes = add_panels(figure, rows, widths)
        for place, panel in enumerate(panels):
            draw_stack(axes[place], panel, letters)
            axes[place].set_title(titles[place])
        for row in rows:
            axes[row[0]].set_ylabel("seconds per epoch\n(mean over the ranks)")
        add_phase_legend(axes, axes[rows[0][-1]])
        arrange(figure, "Time of an epoch by phase: " + title_of(timed),
                [f"({letters[note]}) {note}" for note in notes_of(timed, letters)])
        return figure


def rows_of(widths):
    """Distributes panels of these widths over rows of at most `ROW_WIDTH`. Returns the indices of
    the panels per row: [[index, ...], ...]."""
    rows, filled = [[]], 0.0
    for index, width in enumerate(widths):
        if rows[-1] and filled + width > ROW_WIDTH:
            rows.append([])
            filled = 0.0
        rows[-1].append(index)
        filled += width
    return rows


def add_panels(figure, rows, widths):
    """Returns the axes of all panels; the right end of a row that is not full stays empty."""
    longest = max(sum(widths[i] for i in row) for row in rows)
    axes = []
    for row, place in zip(rows, figure.add_gridspec(len(rows), 1)):
        ratios = [widths[i] for i in row]
        rest = longest - sum(ratios)
        if rest > 0.01 * longest:
            ratios.append(rest)
        grid = place.subgridspec(1, len(ratios), width_ratios=ratios)
        axes += [figure.add_subplot(grid[0, column]) for column in range(len(row))]
    return axes


def add_phase_legend(panels, axes):
    """Adds one legend for the phases of all panels, to the right of `axes`."""
    handles = {}
    for panel in panels:
        for handle, name in zip(*panel.get_legend_handles_labels()):
            handles.setdefault(name, handle)
    order = [NAMES.get(n, n) for n in COLOURS if NAMES.get(n, n) in handles][::-1]
    axes.legend([handles[n] for n in order], order, loc="center left", bbox_to_anchor=(1.02, 0.5),
                handlelength=1.0, handleheight=1.0)


def notes_of(points, letters):
    """Returns the validity notes of the points, in the order of their letters."""
    return [note for note in letters if any(note in p.notes for p in points)]


def draw_stack(axes, points, letters):
    bottom = [0.0] * len(points)
    whole = max(p.epoch_seconds for p in points)
    for name, colour in COLOURS.items():
        heights = [p.phase_seconds.get(name, 0.0) for p in points]
        if max(heights) < 0.002 * whole:
            continue
        axes.bar(range(len(points)), heights, bottom=bottom, color=colour, width=0.66,
                 edgecolor="white", linewidth=0.6, label=NAMES.get(name, name))
        bottom = [b + h for b, h in zip(bottom, heights)]
    for place, point in enumerate(points):
        axes.annotate(f"{short_number(point.epoch_seconds)} s", (place, point.epoch_seconds),
                      ha="center", va="bottom", xytext=(0, 2), textcoords="offset points")
    axes.set_xticks(range(len(points)), [bar_label(p, letters) for p in points])
    axes.set_xlim(-0.6, len(points) - 0.4)
    axes.set_ylim(0, 1.15 * whole)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    light_grid(axes)


def bar_label(point, letters):
    ranks = "1 rank" if point.ranks == 1 else f"{point.ranks} ranks"
    if point.is_independent:
        how = "no communi-\ncation"
    else:
        how = "" if point.ranks == 1 else point.reducer
    extra = point.gradient_dtype if point.gradient_dtype not in ("", "fp32") else ""
    detail = point.detail.replace(", ", "\n")
    marks = ", ".join(letters[note] for note in point.notes)
    return "\n".join(text for text in (ranks, how, extra, detail, marks and f"({marks})") if text)


def weak_series(points):
    """Returns one curve per batch per rank and mode: [(label, [(ranks, speedup, efficiency,
    efficiency against independent replicas)])], with the efficiencies of the weak-scaling table."""
    groups = {}
    for p in points:
        base = base_of(p, points)
        if base is None or p.ranks == 1 or p.is_independent:
            continue
        alone = independent_of(p, points)
        batch = f"batch {p.batch_per_rank} per rank" if p.batch_per_rank else "as given"
        groups.setdefault((batch, p.mode), [(1, 1.0, 1.0, None)]).append(
            (p.ranks, metrics.speedup(base.epoch_seconds, p.epoch_seconds),
             weak_efficiency(base, p), alone and weak_efficiency(alone, p)))
    several = len({mode for _, mode in groups}) > 1
    return [(f"{batch}, {mode}" if several else batch, rows)
            for (batch, mode), rows in groups.items()]


def strong_series(points):
    """Returns curves as `weak_series` does, one per global batch and mode."""
    groups = {}
    for p in points:
        base = strong_base_of(p, points) if p.batch_per_rank else None
        if base is None or p.ranks == 1 or p.is_independent:
            continue
        groups.setdefault((p.global_batch, p.mode), [(1, 1.0, 1.0, None)]).append(
            (p.ranks, metrics.speedup(base.epoch_seconds, p.epoch_seconds),
             metrics.strong_efficiency(base.epoch_seconds, p.epoch_seconds, p.ranks), None))
    several = len({mode for _, mode in groups}) > 1
    return [(f"global batch {batch}, {mode}" if several else f"global batch {batch}", rows)
            for (batch, mode), rows in sorted(groups.items(), key=lambda item: item[0][0])]


def scaling(points, series, title, efficiency, letters=None):
    """Returns a figure of speedup and efficiency over the rank count, with the ideal line; None if
    `series` is empty. `letters`: {validity note: letter}, as in the tables."""
    if not series:
        return None
    letters = letters or validity.letters(points)
    ranks = sorted({row[0] for _, rows in series for row in rows})
    names = max(text_width(label) for label, _ in series)
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9.0 + max(names, 1.5), max(4.0, 2.0 + 0.21 * len(series))))
        dashed = {"color": "#777777", "linewidth": 1, "linestyle": (0, (4, 3))}
        left.plot([1, ranks[-1]], [1, ranks[-1]], **dashed)
        right.axhline(100, label="ideal", **dashed)
        has_replicas = False
        for index, (label, rows) in enumerate(series):
            marker = MARKERS[(index + index // len(SERIES)) % len(MARKERS)]
            style = {"color": SERIES[index % len(SERIES)], "marker": marker,
                     "markersize": 6, "linewidth": 1.4}
            counts = [row[0] for row in rows]
            left.plot(counts, [row[1] for row in rows], **style)
            right.plot(counts, [100 * row[2] for row in rows], label=label, **style)
            alone = [(row[0], 100 * row[3]) for row in rows if row[3]]
            if alone:
                has_replicas = True
                right.plot(*zip(*alone), **{**style, "linestyle": ":", "markerfacecolor": "white"})
        if has_replicas:
            right.plot([], [], color="#777777", linestyle=":", marker="o", markerfacecolor="white",
                       label="against independent\nreplicas")
        finish_scaling(left, right, ranks, series)
        left.set_title("Epoch speedup T(1)/T(N)")
        right.set_title(f"{efficiency}, per cent")
        arrange(figure, f"{title}: {title_of(points)}",
                [f"({letters[note]}) {places_of(note, points)}: {note}"
                 for note in notes_of(points, letters)])
        return figure


def places_of(note, points):
    """Returns a text that names the points with a note: "batch 32 on 2 and 4 ranks"."""
    batches = {}
    for p in points:
        if note in p.notes:
            batches.setdefault(p.batch_per_rank, set()).add(p.ranks)
    texts = []
    for batch, counts in sorted(batches.items()):
        counts = sorted(counts)
        ranks = " and ".join(filter(None, (", ".join(map(str, counts[:-1])), str(counts[-1]))))
        texts.append((f"batch {batch:,} on " if batch else "") + settings.plural(ranks, "rank"))
    return ", ".join(texts)


def finish_scaling(left, right, ranks, series):
    shown = labelled_ranks(ranks)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(shown))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("ranks N")
        light_grid(axes, "both")
    left.set_yscale("log", base=2)
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    top = max(100.0, *(100 * row[2] for _, rows in series for row in rows),
              *(100 * (row[3] or 0) for _, rows in series for row in rows))
    right.set_ylim(0, 1.1 * top)
    right.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def labelled_ranks(ranks):
    """Returns the rank counts whose labels do not overlap on a logarithmic axis, in ascending
    order. The largest count has the highest priority, then powers of two."""
    span = math.log2(ranks[-1] / ranks[0]) or 1.0
    shown = []
    for count in sorted(ranks, key=lambda n: (n != ranks[-1], n & (n - 1) != 0, -n)):
        place = AXIS_WIDTH * math.log2(count / ranks[0]) / span
        if all(abs(place - other) > (text_width(str(count)) + text_width(str(n))) / 2 + 0.08
               for n, other in shown):
            shown.append((count, place))
    return sorted(count for count, _ in shown)


def ladder(rows, title):
    """Returns a figure of epoch time and images/s for each batch, with the status of batches that
    were not measured (out of memory); None if no row has a time."""
    keys = [(key, heading) for key, heading in (
        ("epoch_seconds", "Epoch time, seconds"), ("images_per_second", "Images per second"),
    ) if any(row.get(key) for row in rows)]
    if not any(row.get("epoch_seconds") for row in rows):
        return None
    texts = [batch_text(row) for row in rows] + [
        text for key, _ in keys for text in (value_text(row, key) for row in rows)]
    unit = max(0.75, *(text_width(text) + 0.15 for text in texts))
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1, len(keys), squeeze=False,
            figsize=(max(1.4 + unit * len(rows), 2.6) * len(keys), 3.7))
        for axes, (key, heading) in zip(panels[0], keys):
            draw_ladder(axes, rows, key)
            axes.set_title(heading)
        arrange(figure, title)
        return figure


def batch_text(row):
    """Returns the label of a row: the batch, the file or mode if rows of one batch differ in it,
    and "extrapolated" if the times are scaled from part of an epoch."""
    texts = [f"{row['batch_per_rank']:,}", row.get("source"), row.get("mode"),
             "extrapolated" if row.get("is_extrapolated") else None]
    return "\n".join(text for text in texts if text)


def value_text(row, key):
    value = row.get(key)
    return short_number(value) if value else "\n".join(row["status"].rsplit(" ", 1))


def draw_ladder(axes, rows, key):
    for place, row in enumerate(rows):
        value = row.get(key)
        axes.bar(place, value or 0, color=SERIES[0], width=0.62)
        axes.annotate(value_text(row, key), (place, value or 0), ha="center", va="bottom",
                      xytext=(0, 3), textcoords="offset points",
                      color="black" if value else SERIES[1])
    axes.set_xticks(range(len(rows)), [batch_text(row) for row in rows])
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylim(0, 1.15 * max(row.get(key) or 0 for row in rows))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel("batch per rank")
    light_grid(axes)


def all_figures(points, ladder_tables):
    """Returns {name: {suffix: bytes}} of all figures that have data; each kind of figure is made
    once per setting."""
    made = {}
    letters = validity.letters(points)
    names = setting_names(p.setting for p in points)
    for setting, name in names.items():
        group = [p for p in points if p.setting == setting]
        ending = file_ending(name)
        made[f"phases{ending}"] = phase_bars(group, letters)
        made[f"scaling{ending}"] = scaling(
            group, weak_series(group), "Scaling at fixed batch per rank",
            "Weak efficiency t(1)/t(N)", letters)
        made[f"strong-scaling{ending}"] = scaling(
            group, strong_series(group), "Strong scaling, fixed global batch",
            "Efficiency T(1)/(N·T(N))", letters)
    for table in ladder_tables:
        if len(table.rows) > 1:
            made[table.name] = ladder(table.rows, table.title)
    return {name: render(figure) for name, figure in made.items() if figure}
