# SPDX-License-Identifier: BSD-3-Clause
"""Draws every figure with 1, 2, 7 and 40 points for the screen and for one and two columns of a
paper: no text is cut off, overlaps another one, or is smaller than 6 points, and the figure has the
width of the column."""

import numpy as np
import pytest
from every_figure import FIGURES, alpha_beta_lines, drawn, phases, scaled, sweeps, waiting_panels
from lockstep_report.figures import (
    canvas,
    layout as figure_layout,
    phases as phase_figure,
    style as figure_style,
)
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
] + [(make, 7, "two-column") for make in FIGURES if make not in PANELS]
# The other cases are slow: 7 points have labels in all places, and 40 do not fit without a change.
FAST = ((7, "one-column"), (40, "screen"))


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
        given = canvas.CANVASES[width].width
        if given:
            assert figure.get_figwidth() == given
        assert min(sizes) >= canvas.SMALLEST_TEXT
        assert faults(figure) == []


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
    figure_style.plt.close(figure)


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
