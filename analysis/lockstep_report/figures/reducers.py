# SPDX-License-Identifier: BSD-3-Clause
"""The figure that compares gradient reducers."""

from lockstep_report.figures.arrange import arrange
from lockstep_report.figures.canvas import length
from lockstep_report.figures.layout import chunks, share_limits, text_width
from lockstep_report.figures.marks import text_above
from lockstep_report.figures.phases import COLOURS, add_phase_legend, stack_phases
from lockstep_report.figures.style import light_grid, plt, short_number, title_of
from lockstep_report.runfile.settings import measured_on, plural
from lockstep_report.tables.phases import hosts_of


def reducer_bars(points):
    """Returns a figure of the points of one setting and batch per rank: above, the phases of a step
    as stacked bars; below, the bytes that the rank with the most messages sends in a step (omitted
    if no point has them). Points must be in the order of the bars."""
    labels = [bar_text(p, points) for p in points]
    has_bytes = any(p.sent_bytes is not None for p in points)
    unit = max(length(0.75), *(text_width(label) + length(0.1) for label in labels))
    parts = chunks(points, 1.4 * unit)  # with the gaps
    heights = [3, 2][:1 + has_bytes]
    places = [bar_places(part) for part in parts]
    figure, panels = plt.subplots(
        len(heights) * len(parts), 1, squeeze=False, height_ratios=heights * len(parts),
        figsize=(max(unit * (max(map(max, places)) + 1.2), 3.0) + 3.1,
                 (6.4 if has_bytes else 4.0) * len(parts)))
    panels = panels[:, 0]
    shown = shown_phases(points)
    for i, (part, of_part) in enumerate(zip(parts, places)):
        own = panels[len(heights) * i:len(heights) * (i + 1)]
        draw_phases(own[0], of_part, part, shown)
        if has_bytes:
            draw_bytes(own[1], of_part, part)
            own[0].set_xticks(of_part, [""] * len(part))
        own[-1].set_xticks(of_part, [bar_text(p, points) for p in part])
        for axes in own:
            axes.set_xlim(-0.6, max(places, key=max)[-1] + 0.6)
    for place in range(len(heights)):
        share_limits(panels[place::len(heights)])
    add_phase_legend(panels[::len(heights)], panels[0])
    arrange(figure, f"Gradient reducers, batch {points[0].batch_per_rank:,} per rank: "
                    + title_of(points), [measured_on(points)])
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


def shown_phases(points):
    longest = max(p.epoch_seconds / p.steps for p in points)
    return [name for name in COLOURS if max(
        p.phase_seconds.get(name, 0.0) / p.steps for p in points) >= 0.002 * longest]


def draw_phases(axes, places, points, shown):
    times = [1e3 * p.epoch_seconds / p.steps for p in points]
    stack_phases(axes, places, points, "ms", {
        name: [1e3 * p.phase_seconds.get(name, 0.0) / p.steps for p in points] for name in shown})
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
        text_above(axes, text, place, value, 2)
    axes.set_ylim(0, 1.15 * (max(values) or 1.0))
    light_grid(axes)
