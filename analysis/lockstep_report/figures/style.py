# SPDX-License-Identifier: BSD-3-Clause
"""Style of all figures, and their rendering as SVG, PNG and PDF. The colours are those of Okabe and
Ito, which colour-blind readers can distinguish. The SVG, for files and for the HTML page, is the
output of Matplotlib with the values of bars and markers as titles, which browsers show under the
pointer, and without style attributes, which the security policy of the page forbids."""

import io
import json
import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lockstep_report.escaping import one_line, printable
from lockstep_report.figures.canvas import current, length, text_size
from lockstep_report.runfile.settings import measured_on, plural, setting_texts

SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vPX"
STYLE = {
    "text.parse_math": False,  # names may contain dollar signs
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # the default has the same effect without ticks above, and takes longer
    "axes.axisbelow": True,
    "axes.formatter.limits": (-12, 12),  # a power of ten above the axis would overlap the title
    "axes.formatter.useoffset": False,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType: texts are embedded and can be searched
    "figure.constrained_layout.use": True,
}
DASHED = (0, (4, 3))
IDEAL_LINE = {"color": "#777777", "linewidth": 1, "linestyle": DASHED}
SVG = "{http://www.w3.org/2000/svg}"
VALUES = "values "  # beginning of the identifier of an artist that shows values
FONTS = (  # the layout is that of the first; the others are not wider
    "DejaVu Sans, Verdana, sans-serif"
)
ElementTree.register_namespace("", SVG[1:-1])
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


def rc_settings():
    return {
        **STYLE,
        "font.size": text_size(),
        "axes.titlesize": text_size(),
        "legend.fontsize": text_size(),
        "figure.dpi": current().dpi,
        "lines.linewidth": length(1.5),
    }


mpl.rcdefaults()  # a matplotlibrc of the user must not change the figures
mpl.rcParams.update(rc_settings())


def new_figure(width, height):
    """Returns an empty figure of this size in inches. pyplot, which takes long to import and keeps
    all figures, is not needed."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)  # which measures texts
    return figure


def render(figure, formats=("svg", "png"), name="figure"):
    """Renders a figure in the `formats` (svg, png, pdf). Returns {suffix: bytes}; equal input gives
    equal bytes. The identifiers in the SVG of figures with different names differ."""
    images = {}
    with mpl.rc_context({"svg.hashsalt": name}):
        for suffix in formats:
            if suffix == "svg":
                images[suffix] = svg_of(figure).encode()
                continue
            buffer = io.BytesIO()
            figure.savefig(
                buffer, format=suffix, metadata={"CreationDate": None} if suffix == "pdf" else None
            )
            images[suffix] = buffer.getvalue()
    return images


def light_grid(axes, axis="y"):
    axes.grid(axis=axis, color="#E5E5E5", linewidth=0.8)
    axes.tick_params(length=0)


def title_of(points):
    return ", ".join(filter(None, setting_texts(points[0].setting)))


def name_of(point):
    """Returns "1 rank", "4 ranks, overlap"."""
    return point.mode if point.ranks == 1 else f"{plural(point.ranks, 'rank')}, {point.mode}"


def short_number(value):
    """Formats with three significant digits, from 1,000 on as an integer without exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def notes_of(points, letters, place_of=lambda note: ""):
    """Returns the validity notes of the points and where they were measured; none on a canvas
    without notes."""
    if not current().has_notes:
        return []
    return [
        *(
            f"({letters[note]}){place_of(note)} {note}"
            for note in letters
            if any(note in p.notes for p in points)
        ),
        measured_on(points),
    ]


def show_values(artists, texts):
    """Gives each marker of a line, or each of several artists, its text."""
    if isinstance(artists, Line2D):  # which draws no marker at a point without a value
        is_drawn = np.isfinite(artists.get_xydata()).all(axis=1)
        require_texts(len(is_drawn), texts)
        texts = [text for text, drawn in zip(texts, is_drawn) if drawn]
        artists.set_gid(VALUES + json.dumps(texts))
    else:
        require_texts(len(artists), texts)
        for artist, text in zip(artists, texts):
            artist.set_gid(VALUES + json.dumps([text]))


def require_texts(count, texts):
    if len(texts) != count:
        raise ValueError(f"{len(texts)} texts for {count} markers")


def svg_of(figure):
    """Returns the figure as the element svg. Identifiers are made from the contents and from
    `svg.hashsalt`; the text alternative is the label of the figure."""
    stream, resolution = io.StringIO(), figure.dpi
    FigureCanvasSVG(figure).print_svg(
        stream, metadata={"Date": None}
    )  # `savefig` takes longer for the same bytes
    figure.set_dpi(resolution)  # which `print_svg` changes
    text = printable(stream.getvalue())  # XML permits no control characters
    referenced = set(re.findall(r'(?:\(|href=")#(\w+)', text))
    root = ElementTree.fromstring(text)
    for unused in (f"{SVG}metadata", f"{SVG}defs[{SVG}style]"):
        root.remove(root.find(unused))
    for element in list(root.iter()):
        finish_element(element, referenced)
    root.attrib |= {
        "role": "img",
        "aria-label": one_line(figure.get_label()),
        "font-family": FONTS,
        "stroke-linejoin": "round",
    }
    return ElementTree.tostring(root, encoding="unicode")


def finish_element(element, referenced):
    """Replaces the style by attributes, and the identifier by titles; keeps it if another element
    refers to it."""
    identifier = element.attrib.pop("id", "")
    for name, value in re.findall(r"([\w-]+):\s*([^;]+)", element.attrib.pop("style", "")):
        if name in ("font", "font-size"):  # the second since Matplotlib 3.11
            name, value = "font-size", re.search(r"[\d.]+(?=px)", value)[0]
        if name != "font-family":  # that of the root
            element.set(name, value)
    for name, value in element.items():
        element.set(name, value.replace("\n", ""))
    element.text, element.tail = (element.text or "").strip("\n "), None
    if identifier in referenced:
        element.set("id", identifier)
    if identifier.startswith(VALUES):
        texts = json.loads(identifier.removeprefix(VALUES))
        places = [element] if len(texts) == 1 else list(element.iter(f"{SVG}use"))
        if len(places) == len(texts):  # otherwise a logarithmic axis has left out a point
            for place, text in zip(places, texts):
                title = ElementTree.Element(f"{SVG}title")
                title.text = one_line(text)
                place.insert(0, title)
