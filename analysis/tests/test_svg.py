# SPDX-License-Identifier: BSD-3-Clause
"""Tests the SVG of figures: values as titles, identifiers, names that are shown literally, and
equal bytes."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from lockstep_report.figures.style import SVG, VALUES, new_figure, render, show_values

pytestmark = pytest.mark.filterwarnings("ignore:Glyph")  # of control characters
NAME = "</text><script>\"&'\x1b\u202e"
SHOWN = "</text><script>\"&'\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"


def drawn(name="figure", scale="linear", formats=("svg",), first=3.0):
    """Renders a line of three points, one of them without a value, and two bars."""
    figure = new_figure(6.4, 4.8)
    axes = figure.subplots()
    (line,) = axes.plot([1, 2, 4], [first, np.nan, 5], marker="o", label=NAME)
    show_values(line, ["a", "b", f"c{NAME}"])
    show_values(axes.bar([1, 2], [1, 2], label="bars"), ["d", "e"])
    axes.set_xscale(scale)
    axes.set_yscale(scale)
    axes.set_title(NAME)
    axes.legend()
    figure.set_label(f"title {NAME}")
    return render(figure, formats, name)


def elements(images):
    return list(ElementTree.fromstring(images["svg"]).iter())


def test_markers_and_bars_have_their_values():
    found = {
        title.text: parent
        for parent in elements(drawn())
        for title in parent.findall(f"{SVG}title")
    }
    assert list(found) == ["d", "e", "a", f"c{SHOWN}"]  # a point without a value has no marker
    assert [parent.tag.removeprefix(SVG) for parent in found.values()] == ["g", "g", "use", "use"]
    assert float(found["a"].get("x")) < float(found[f"c{SHOWN}"].get("x"))


def test_a_point_that_the_axis_cannot_show_leaves_the_others_without_values():
    titles = [e.text for e in elements(drawn(scale="log", first=0.0)) if e.tag == f"{SVG}title"]
    assert titles == ["d", "e"]


def test_names_are_shown_literally():
    root, *rest = elements(drawn())
    assert root.attrib | {"role": "img", "aria-label": f"title {SHOWN}"} == root.attrib
    texts = [e.text for e in rest if e.tag == f"{SVG}text"]
    assert texts.count(SHOWN) == 2 and not [
        e for e in rest if e.tag.endswith(("script", "style", "metadata"))
    ]
    assert not [e for e in rest if "style" in e.attrib or (e.get("id") or "").startswith(VALUES)]
    assert {e.get("font-size") for e in rest if e.tag == f"{SVG}text"} == {"10"}


def test_identifiers_are_referenced_and_differ_between_figures():
    texts = [drawn(name)["svg"].decode() for name in ("a", "b")]
    assert texts[0] == drawn("a")["svg"].decode()
    known = [re.findall(r'\bid="([^"]*)"', text) for text in texts]
    for text, ids in zip(texts, known):
        assert len(ids) == len(set(ids)) > 2 and set(ids) == set(
            re.findall(r'(?:\(|href=")#(\w+)', text)
        )
    assert not set(known[0]) & set(known[1])


def test_the_resolution_of_images_does_not_depend_on_the_svg():
    assert drawn(formats=("svg", "png"))["png"] == drawn(formats=("png",))["png"]


def test_each_bar_needs_a_text():
    with pytest.raises(ValueError):
        show_values(new_figure(6.4, 4.8).subplots().bar([1, 2], [1, 2]), ["a"])
