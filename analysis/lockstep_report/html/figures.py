"""The figures of the page: those of `lockstep-report figures --width one-column`, which are readable on a phone, with
captions and links to the tables of their values."""

from lockstep_report.errors import ReportError
from lockstep_report.figures.canvas import canvas
from lockstep_report.figures.captions import caption, tables_of
from lockstep_report.figures.loading import figure_module
from lockstep_report.html.markup import Markup, element, join


def figure_elements(material):
    """Returns the figures; a sentence with the reason if they cannot be drawn."""
    try:
        figures = figure_module("all_figures")  # which needs Matplotlib
    except ReportError as error:
        return [element("p", f"The figures are missing: {error}.")]
    with canvas("one-column"):
        made = figures.all_figures(material.points, material.runs, material.link_gbit,
                                   material.explanation, ("svg",))
    found = [figure_element(name, images["svg"].decode(), tables_of(name, material.tables))
             for name, images in made.items()]
    return [element("div", *found, class_="figures")] if found else []


def figure_element(name, svg, tables):
    links = [element("a", table.title, href=f"#table-{table.name}") for table in tables]
    values = join([" Values: ", join(links, ", "), "."]) if links else None
    return element("figure", Markup(svg), element("figcaption", caption(name), values), id=f"figure-{name}")
