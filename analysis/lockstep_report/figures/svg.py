# SPDX-License-Identifier: BSD-3-Clause
"""The figures as SVG, for files and for the HTML page: the output of Matplotlib with the values of bars and markers as
titles, which browsers show under the pointer, and without style attributes, which the security policy of the page forbids."""

import io
import json
import re
from xml.etree import ElementTree

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.lines import Line2D

from lockstep_report.escaping import one_line, printable

SVG = "{http://www.w3.org/2000/svg}"
VALUES = "values "  # beginning of the identifier of an artist that shows values
FONTS = "DejaVu Sans, Verdana, sans-serif"  # the layout is that of the first; the others are not wider
ElementTree.register_namespace("", SVG[1:-1])
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


def show_values(artists, texts):
    """Gives each marker of a line, or each of several artists, its text."""
    if isinstance(artists, Line2D):  # which draws no marker at a point without a value
        is_drawn = np.isfinite(artists.get_xydata()).all(axis=1)
        texts = [text for text, drawn in zip(texts, is_drawn, strict=True) if drawn]
        artists.set_gid(VALUES + json.dumps(texts))
    else:
        for artist, text in zip(artists, texts, strict=True):
            artist.set_gid(VALUES + json.dumps([text]))


def svg_of(figure):
    """Returns the figure as the element svg. Identifiers are made from the contents and from
    `svg.hashsalt`; the text alternative is the label of the figure."""
    stream, resolution = io.StringIO(), figure.dpi
    FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None})  # `savefig` takes longer for the same bytes
    figure.set_dpi(resolution)  # which `print_svg` changes
    text = printable(stream.getvalue())  # XML permits no control characters
    referenced = set(re.findall(r'(?:\(|href=")#(\w+)', text))
    root = ElementTree.fromstring(text)
    for unused in (f"{SVG}metadata", f"{SVG}defs[{SVG}style]"):
        root.remove(root.find(unused))
    for element in list(root.iter()):
        finish(element, referenced)
    root.attrib |= {"role": "img", "aria-label": one_line(figure.get_label()), "font-family": FONTS,
                    "stroke-linejoin": "round"}
    return ElementTree.tostring(root, encoding="unicode")


def finish(element, referenced):
    """Replaces the style by attributes, and the identifier by titles; keeps it if another element refers to it."""
    identifier = element.attrib.pop("id", "")
    for name, value in re.findall(r"([\w-]+):\s*([^;]+)", element.attrib.pop("style", "")):
        if name == "font":
            name, value = "font-size", re.search(r"[\d.]+(?=px)", value)[0]
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
