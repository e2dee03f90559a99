"""A figure of the page: panels with a legend, a caption and a link to the table of its values."""

from dataclasses import dataclass

from lockstep_report.html.markup import Markup, element, join

SHAPES = (  # relative paths around a centre, in the order of the series
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "m-3.6-3.6h7.2v7.2h-7.2z", "m0-5l5 5l-5 5l-5-5z",
    "m0-4.6l4.6 8h-9.2z", "m0 4.6l4.6-8h-9.2z", "m-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
    "m0-5l4.8 3.5l-1.8 5.6h-6l-1.8-5.6z")


@dataclass(frozen=True)
class Entry:
    """An entry of a legend. `kind`: "line", or "fill" for bars and cells."""

    key: str
    name: str
    index: int
    style: str = ""
    has_marks: bool = True
    kind: str = "line"


@dataclass(frozen=True)
class Panel:
    """A drawing with its heading."""

    title: str
    drawing: Markup


def figure_element(name, title, panels, entries, caption, tables=(), measured=""):
    """Returns the figure. `tables`: the names of the tables that have its values; `measured`: the
    machine and the number of runs."""
    links = [element("a", text, href=f"#table-{table}") for table, text in tables]
    values = join(["Values: ", join(links, ", "), "."]) if links else None
    seen = {}
    for entry in entries:
        seen.setdefault(entry.key, entry)
    legend = element("ul", *map(legend_entry, seen.values()), class_="legend")
    layout = "panels pairs" if len(panels) == 4 else "panels"
    return element(
        "figure", element("h3", title, id=f"figure-{name}-title"),
        element("div", *(element("div", element("h4", panel.title), panel.drawing, class_="panel")
                         for panel in panels), class_=layout),
        legend if seen else None,
        element("figcaption", f"{caption} {measured}.".rstrip(" .") + ".",
                " " if values else None, values),
        id=f"figure-{name}", aria_labelledby=f"figure-{name}-title")


def fill_class(key):
    """Returns the class of a phase or cause in the style sheet."""
    return f"fill-{key.replace('_', '-')}"


def fill_entry(key, name):
    return Entry(key, name, 0, fill_class(key), kind="fill")


def legend_entry(entry):
    if entry.kind == "fill":
        sample = element("rect", x=1, y=1, width=22, height=12, class_=entry.style)
    else:
        sample = join([element("polyline", points="0,7 24,7"),
                       mark_path(entry.index, 12, 7) if entry.has_marks else None])
    group = "" if entry.kind == "fill" else f"series s{entry.index % 7} {entry.style}".strip()
    return element("li", element("svg", element("g", sample, class_=group or None), width=24,
                                 height=14, viewBox="0 0 24 14", aria_hidden="true"),
                   element("span", entry.name), data_series=entry.key)


def mark_path(index, x, y, *children):
    shape = SHAPES[(index + index // 7) % len(SHAPES)]
    return element("path", *children, d=f"M{x:.1f} {y:.1f}{shape}", class_="mark")
