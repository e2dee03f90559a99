"""Stacked horizontal bars: one row per point, so that labels never overlap."""

from dataclasses import dataclass

from lockstep_report.html import axes
from lockstep_report.html.figure import Panel, fill_class
from lockstep_report.html.markup import element

WIDTH = 400
LEFT, RIGHT, TOP, BOTTOM = 8, 14, 4, 38
ROW, BAR = 34, 15  # height of a row with its label, and of the bar
CHARACTERS = 62  # of a label in one line
MOST_BARS = 12  # of one chart


@dataclass(frozen=True)
class Part:
    """A part of a bar. `key`: as for `fill_class`; `text`: its value."""

    key: str
    value: float
    text: str


@dataclass(frozen=True)
class Bar:
    label: str
    parts: tuple
    total: str = ""  # text at the end of the label


@dataclass(frozen=True)
class BarChart:
    title: str
    x_label: str
    bars: list
    axis: axes.Axis
    reference: float = None

    def panel(self):
        bottom = TOP + ROW * len(self.bars)
        parts = [*self.grid(bottom)]
        for row, bar in enumerate(self.bars):
            parts += bar_elements(bar, self.axis, TOP + ROW * row)
        if self.reference is not None:
            x = place(self.axis, self.reference)
            parts.append(element("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="ideal"))
        return Panel(self.title, element(
            "svg", *parts, viewBox=f"0 0 {WIDTH} {bottom + BOTTOM}", role="img",
            aria_label=alternative(self), class_="chart bars"))

    def grid(self, bottom):
        width = WIDTH - LEFT - RIGHT
        for value in axes.given_ticks(self.axis, axes.linear_ticks(self.axis), width, axes.plain):
            x = place(self.axis, value)
            anchor = "middle" if x > LEFT + 14 else None
            yield element("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="grid")
            yield element("text", axes.plain(value), x=x, y=bottom + 14, class_=anchor)
        yield element("text", self.x_label, x=LEFT + width / 2, y=bottom + 31, class_="middle")


def bar_charts(title, x_label, bars, reference=None):
    """Returns charts of at most MOST_BARS bars each, with the same axis."""
    above = [sum(max(0, p.value) for p in bar.parts) for bar in bars]
    below = [sum(min(0, p.value) for p in bar.parts) for bar in bars]
    axis = axes.linear([*above, *below], reference)
    pieces = [bars[first:first + MOST_BARS] for first in range(0, len(bars), MOST_BARS)]
    return [BarChart(title if len(pieces) == 1 else f"{title} ({number} of {len(pieces)})", x_label,
                     piece, axis, reference) for number, piece in enumerate(pieces, 1)]


def place(axis, value):
    return LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)


def bar_elements(bar, axis, top):
    label = bar.label if len(bar.label) <= CHARACTERS else bar.label[:CHARACTERS - 1] + "…"
    made = [element("text", label, f": {bar.total}" if bar.total else None, x=LEFT, y=top + 13)]
    above = below = 0.0
    for part in bar.parts:
        begin = above if part.value >= 0 else below
        end = begin + part.value
        above, below = (end, below) if part.value >= 0 else (above, end)
        left, right = sorted((place(axis, begin), place(axis, end)))
        if right - left >= 0.05:
            made.append(element(
                "rect", element("title", part.text), x=left, width=right - left, y=top + 17,
                height=BAR, class_=f"mark {fill_class(part.key)}", data_series=part.key))
    return made


def alternative(chart):
    """Returns the text alternative of a chart: the totals of its bars."""
    return "; ".join([chart.title, *(f"{bar.label}: {bar.total}" if bar.total else bar.label
                                     for bar in chart.bars)])
