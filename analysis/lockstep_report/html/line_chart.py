"""Line charts: series of marked points, curves of models, and reference lines."""

from dataclasses import dataclass, field

from lockstep_report.html import axes
from lockstep_report.html.figure import Entry, Panel, mark_path
from lockstep_report.html.markup import element

WIDTH, HEIGHT = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 48, 14, 10, 40


@dataclass(frozen=True)
class Mark:
    """A measured point. `text` has its values with the digits of the table."""

    x: float
    y: float
    text: str = ""  # no marker without a text
    low: float = None  # interval of y
    high: float = None


@dataclass(frozen=True)
class Series:
    """A line through marks. `style`: "" (solid), "dashed" or "dotted"; `index` selects colour and
    marker; series of equal `group` are hidden together."""

    name: str
    marks: tuple
    index: int
    style: str = ""
    group: str = ""


@dataclass(frozen=True)
class LineChart:
    """One panel. `x_ticks`: the values to label [round values]."""

    title: str
    x_label: str
    x_axis: axes.Axis
    y_axis: axes.Axis
    series: list
    x_ticks: tuple = ()
    x_text: object = axes.plain
    references: list = field(default_factory=list)  # [((x, y), (x, y))]

    def entries(self):
        """Returns the entries of the legend."""
        return [Entry(s.group or s.name, s.name, s.index, s.style, bool(drawn_marks(s)))
                for s in self.series]

    def panel(self):
        return Panel(self.title, element(
            "svg", *self.grid(), *(self.reference(*line) for line in self.references),
            *map(self.line, self.series), viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img",
            aria_label=alternative(self), class_="chart"))

    def place(self, x, y):
        return (LEFT + self.x_axis.place(x) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - self.y_axis.place(y) * (HEIGHT - TOP - BOTTOM))

    def grid(self):
        width = WIDTH - LEFT - RIGHT
        ticks = axes.given_ticks(self.x_axis, self.x_ticks or ticks_of(self.x_axis), width,
                                 self.x_text)
        for value in ticks:
            x, _ = self.place(value, self.y_axis.low)
            yield element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="grid")
            yield element("text", self.x_text(value), x=x, y=HEIGHT - BOTTOM + 15, class_="middle")
        for value in ticks_of(self.y_axis):
            _, y = self.place(self.x_axis.low, value)
            yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
            yield element("text", axes.plain(value), x=LEFT - 6, y=y + 4, class_="end")
        yield element("text", self.x_label, x=LEFT + width / 2, y=HEIGHT - 6, class_="middle")

    def reference(self, first, last):
        (x1, y1), (x2, y2) = self.place(*first), self.place(*last)
        return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="ideal")

    def line(self, series):
        kept = [m for m in series.marks if self.x_axis.accepts(m.x) and self.y_axis.accepts(m.y)
                and (m.text or self.y_axis.low <= m.y <= self.y_axis.high)]
        places = [self.place(m.x, m.y) for m in kept]
        parts = [element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places))]
        for mark, (x, y) in zip(kept, places):
            if mark.low is not None and self.y_axis.accepts(mark.low):
                top, bottom = (self.place(mark.x, end)[1] for end in (mark.high, mark.low))
                parts.append(element("path", d=f"M{x - 4:.1f} {top:.1f}h8m-4 0V{bottom:.1f}m-4 0h8",
                                     class_="interval"))
            if mark.text:
                parts.append(mark_path(series.index, x, y, element("title", mark.text)))
        return element("g", *parts, data_series=series.group or series.name,
                       class_=f"series s{series.index % 7} {series.style}".strip())


def ticks_of(axis):
    return axes.power_ticks(axis) if axis.base else axes.linear_ticks(axis)


def drawn_marks(series):
    return [m for m in series.marks if m.text]


def alternative(chart):
    """Returns the text alternative of a chart: its first and last values."""
    texts = [chart.title]
    for series in chart.series:
        marks = drawn_marks(series)
        if marks:
            ends = [marks[0].text] + ([marks[-1].text] if len(marks) > 1 else [])
            texts.append(" to ".join(ends))
    return "; ".join(texts)
