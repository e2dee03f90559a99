"""The figure that compares gradient reducers."""

from lockstep_report.figure_layout import arrange, text_width
from lockstep_report.figure_style import STYLE, light_grid, plt, short_number, title_of
from lockstep_report.phase_figure import COLOURS, NAMES, add_phase_legend
from lockstep_report.reducers import hosts_of


def reducer_bars(points):
    """Returns a figure of the points of one setting and batch per rank: above, the phases of a step
    as stacked bars; below, the bytes that the rank with the most messages sends in a step (omitted
    if no point has them). Points must be in the order of the bars."""
    labels = [bar_text(p, points) for p in points]
    has_bytes = any(p.sent_bytes is not None for p in points)
    unit = max(1.0, *(text_width(label) + 0.15 for label in labels))
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1 + has_bytes, 1, squeeze=False, sharex=True,
            figsize=(max(unit * len(points), 3.0) + 3.1, 6.4 if has_bytes else 4.0),
            height_ratios=[3, 2][:1 + has_bytes])
        axes = panels[0][0]
        draw_phases(axes, points)
        add_phase_legend([axes], axes)
        if has_bytes:
            draw_bytes(panels[1][0], points)
        last = panels[-1][0]
        last.set_xticks(range(len(points)), labels)
        last.set_xlim(-0.6, len(points) - 0.4)
        arrange(figure, f"Gradient reducers, batch {points[0].batch_per_rank:,} per rank: "
                        + title_of(points))
        return figure


def bar_text(point, points):
    texts = [f"{point.ranks} ranks", point.reducer or "synchronous"]
    if len({hosts_of(p) for p in points}) > 1 or hosts_of(point) > 1:
        texts.insert(1, f"{hosts_of(point)} host" + ("s" if hosts_of(point) > 1 else ""))
    if point.detail:
        texts.append(point.detail.replace(", ", "\n"))
    return "\n".join(texts)


def draw_phases(axes, points):
    times = [1e3 * p.epoch_seconds / p.steps for p in points]
    bottom = [0.0] * len(points)
    for name, colour in COLOURS.items():
        heights = [1e3 * p.phase_seconds.get(name, 0.0) / p.steps for p in points]
        if max(heights) < 0.002 * max(times):
            continue
        axes.bar(range(len(points)), heights, bottom=bottom, color=colour, width=0.66,
                 edgecolor="white", linewidth=0.6, label=NAMES.get(name, name))
        bottom = [b + h for b, h in zip(bottom, heights)]
    annotate(axes, times)
    axes.set_ylabel("ms per step\n(mean over the ranks)")


def draw_bytes(axes, points):
    sent = [(p.sent_bytes or 0.0) / 1e6 for p in points]
    axes.bar(range(len(points)), sent, color="#777777", width=0.66)
    annotate(axes, sent, ["not known" if p.sent_bytes is None else short_number(value)
                          for p, value in zip(points, sent)])
    axes.set_ylabel("MB sent per step\n(rank that sends most)")


def annotate(axes, values, texts=None):
    for place, value in enumerate(values):
        axes.annotate(texts[place] if texts else short_number(value), (place, value), ha="center",
                      va="bottom", xytext=(0, 2), textcoords="offset points")
    axes.set_ylim(0, 1.15 * (max(values) or 1.0))
    light_grid(axes)
