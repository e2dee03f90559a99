"""The figure that compares gradient reducers."""

from lockstep_report.figure_layout import arrange, text_width
from lockstep_report.figure_style import STYLE, light_grid, plt, short_number, title_of
from lockstep_report.phase_figure import COLOURS, NAMES, add_phase_legend
from lockstep_report.reducers import hosts_of
from lockstep_report.settings import plural


def reducer_bars(points):
    """Returns a figure of the points of one setting and batch per rank: above, the phases of a step
    as stacked bars; below, the bytes that the rank with the most messages sends in a step (omitted
    if no point has them). Points must be in the order of the bars."""
    labels = [bar_text(p, points) for p in points]
    has_bytes = any(p.sent_bytes is not None for p in points)
    unit = max(0.75, *(text_width(label) + 0.1 for label in labels))
    places = bar_places(points)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1 + has_bytes, 1, squeeze=False, sharex=True,
            figsize=(max(unit * (places[-1] + 1.2), 3.0) + 3.1, 6.4 if has_bytes else 4.0),
            height_ratios=[3, 2][:1 + has_bytes])
        axes = panels[0][0]
        draw_phases(axes, places, points)
        add_phase_legend([axes], axes)
        if has_bytes:
            draw_bytes(panels[1][0], places, points)
        last = panels[-1][0]
        last.set_xticks(places, labels)
        last.set_xlim(-0.6, places[-1] + 0.6)
        arrange(figure, f"Gradient reducers, batch {points[0].batch_per_rank:,} per rank: "
                        + title_of(points))
        return figure


def bar_places(points):
    """Returns the positions of the bars, with a gap where the ranks or the hosts change."""
    places, gaps = [], 0.0
    for before, point in zip([points[0], *points], points):
        gaps += 0.6 * ((before.ranks, hosts_of(before)) != (point.ranks, hosts_of(point)))
        places.append(len(places) + gaps)
    return places


def bar_text(point, points):
    texts = [f"{point.ranks} ranks", (point.reducer or "synchronous").replace("-", "-\n")]
    if any(hosts_of(p) > 1 for p in points):
        texts.insert(1, plural(hosts_of(point), "host"))
    if point.detail:
        texts.append(point.detail.replace(", ", "\n"))
    return "\n".join(texts)


def draw_phases(axes, places, points):
    times = [1e3 * p.epoch_seconds / p.steps for p in points]
    bottom = [0.0] * len(points)
    for name, colour in COLOURS.items():
        heights = [1e3 * p.phase_seconds.get(name, 0.0) / p.steps for p in points]
        if max(heights) < 0.002 * max(times):
            continue
        axes.bar(places, heights, bottom=bottom, color=colour, width=0.66,
                 edgecolor="white", linewidth=0.6, label=NAMES.get(name, name))
        bottom = [b + h for b, h in zip(bottom, heights)]
    annotate(axes, places, times)
    axes.set_ylabel("ms per step\n(mean over the ranks)")


def draw_bytes(axes, places, points):
    sent = [(p.sent_bytes or 0.0) / 1e6 for p in points]
    axes.bar(places, sent, color="#777777", width=0.66)
    annotate(axes, places, sent, ["not known" if p.sent_bytes is None else short_number(value)
                                  for p, value in zip(points, sent)])
    axes.set_ylabel("MB sent per step\n(rank that sends most)")


def annotate(axes, places, values, texts=None):
    for place, value, text in zip(places, values, texts or map(short_number, values)):
        axes.annotate(text, (place, value), ha="center", va="bottom", xytext=(0, 2),
                      textcoords="offset points")
    axes.set_ylim(0, 1.15 * (max(values) or 1.0))
    light_grid(axes)
