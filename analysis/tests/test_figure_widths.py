# SPDX-License-Identifier: BSD-3-Clause
"""Draws every figure with 1, 2, 7 and 40 points for the screen, for one and two columns of a paper
and for the page: no text is cut off, overlaps another one, or is smaller than 6 points, and the
figure has the width of the column."""

import numpy as np
import pytest
from every_figure import FIGURES, alpha_beta_lines, drawn, phases, scaled, sweeps, waiting_panels
from html_study import write_study
from lockstep_report.cli import parser
from lockstep_report.figures import (
    all_figures,
    canvas,
    layout as figure_layout,
    phases as phase_figure,
    style as figure_style,
)
from lockstep_report.material import Material
from matplotlib.text import Text
from test_figures import faults, point

COUNTS = (1, 2, 7, 40)
# Second drawings of a figure, with many panels instead of many points; 40 take long.
PANELS = (waiting_panels, sweeps, alpha_beta_lines)
SIZES = [(count, width) for count in COUNTS for width in ("one-column", "screen")]
CASES = [
    (make, count, width)
    for make in FIGURES
    for count, width in SIZES
    if make not in PANELS or count < 40 and (width, count) != ("screen", 7)
] + [(make, 7, width) for width in ("two-column", "page") for make in FIGURES if make not in PANELS]
# The other cases are slow: 7 points have labels in all places, and 40 do not fit without a change.
FAST = ((7, "one-column"), (7, "page"), (40, "screen"))


@pytest.mark.parametrize(
    "make, count, width",
    [
        pytest.param(
            make,
            count,
            width,
            id=f"{make.__name__}-{count}-{width}",
            marks=() if (count, width) in FAST else pytest.mark.slow,
        )
        for make, count, width in CASES
    ],
)
def test_texts_of_every_figure(make, count, width, tmp_path, monkeypatch):
    with canvas.canvas(width):
        figure = drawn(make, count, tmp_path, monkeypatch)
        sizes = [
            text.get_fontsize()
            for text in figure.findobj(Text)
            if text.get_visible() and text.get_text().strip()
        ]
        given = canvas.current().width
        if given:
            assert figure.get_figwidth() == given
        assert min(sizes) >= canvas.SMALLEST_TEXT
        assert faults(figure) == []


def figures_of_a_page(folder, counts, repeats, monkeypatch):
    """Returns {name: figure} of the page of a study; the canvas is that of the page."""
    options = parser().parse_args(["html", str(write_study(folder, counts, repeats)), "-o", "x"])
    options.skipped = []
    found = Material(options)
    monkeypatch.setattr(all_figures, "render", lambda figure, formats, name: figure)
    made = all_figures.all_figures(found.points, found.runs, None, found.explanation, ("svg",))
    return {name: entry.images for name, entry in made.items()}


@pytest.mark.parametrize("counts", [(1, 2), (1, 2, 4, 8)], ids=["few bars", "many bars"])
def test_axes_of_figures_beside_each_other_on_the_page_are_aligned(counts, tmp_path, monkeypatch):
    """The highest and the lowest axes end at the same distance, in inches, from the upper end."""
    with canvas.canvas("page"):
        figures = figures_of_a_page(tmp_path / "s", counts, 1, monkeypatch)
        ends = []
        for name in ("scaling", "phases", "efficiency-causes"):
            figure = figures[name]
            boxes = [axes.get_position() for axes in figure.axes]
            sides = (max(box.y1 for box in boxes), min(box.y0 for box in boxes))
            ends.append([figure.get_figheight() * (1 - side) for side in sides])
            assert figure.get_figheight() == pytest.approx(canvas.PAGE.height, abs=0.5)
            assert faults(figure) == []
    assert np.ptp(ends, axis=0).max() < 0.05


def test_tick_labels_that_become_wider_stay_inside(tmp_path, monkeypatch):
    """Alignment changes the heights of the axes, and with them the digits of the tick labels."""
    with canvas.canvas("page"):
        figures = figures_of_a_page(tmp_path / "s", (1, 2, 8), 2, monkeypatch)
        assert {name: faults(figure) for name, figure in figures.items() if faults(figure)} == {}
    labels = [label for axes in figures["phases"].axes for label in axes.get_xticklabels()]
    assert {label.get_rotation() for label in labels} == {0}  # they have room


def test_panels_fill_rows():
    figure = figure_layout.panel_figure([6.0, 6.0, 3.0], 3.0, "abc", "label", is_shared=True)
    assert figure.get_size_inches().tolist() == [9.9, 6]
    figure.draw_without_rendering()
    first, second, third = (axes.get_position() for axes in figure.axes)
    assert (
        first.width == pytest.approx(second.width, rel=0.1)
        and 1.7 < second.width / third.width < 2.4
    )
    assert first.y0 > second.y1 and second.y0 == pytest.approx(third.y0)
    assert [(axes.get_title(loc="left"), axes.get_ylabel()) for axes in figure.axes] == [
        ("a", "label"),
        ("b", "label"),
        ("c", ""),
    ]
    for panel, text in zip(figure.axes, "aba"):
        panel.plot([0, 1], [0, 1], label=text)
    figure.axes[0].set_ylim(0, 7)
    assert [axes.get_ylim() for axes in figure.axes] == [(0, 7)] * 3
    figure_layout.legend_beside(figure.axes, ["a", "b", "c"])
    assert [text.get_text() for text in figure.axes[-1].get_legend().get_texts()] == ["b", "a"]


def test_the_pdf_embeds_truetype_fonts_and_has_no_date():
    with canvas.canvas("one-column"):
        first, second = (figure_style.render(phases(2, None), ("pdf",))["pdf"] for _ in range(2))
    assert first == second
    assert b"/FontFile2" in first and b"/Type3" not in first and b"CreationDate" not in first
    assert b"/MediaBox [ 0 0 241.2 " in first  # 3.35 inches


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_times_that_are_not_numbers_are_left_out(value):
    good = scaled(1)
    bad = point(2, 32, value)
    assert phase_figure.phase_bars([bad]) is None
    assert faults(phase_figure.phase_bars([good, bad])) == []
