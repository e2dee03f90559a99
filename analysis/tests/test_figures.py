# SPDX-License-Identifier: BSD-3-Clause
"""Tests that every text of every figure is inside the canvas and that no two texts overlap."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from lockstep_report.figures import (
    all_figures as figures,
    layers as layer_figures,
    phases as phase_figure,
    scaling as scaling_figure,
    style as figure_style,
)
from lockstep_report.figures.arrange import overlaps
from lockstep_report.figures.canvas import canvas
from lockstep_report.figures.layout import wrap
from lockstep_report.measure import points
from lockstep_report.tables.scaling import weak_table
from matplotlib.text import Text

PHASES = (
    "data_wait",
    "upload",
    "forward",
    "backward",
    "exposed_communication",
    "update",
    "imbalance",
)
SHORT = ("resnet18-cifar", "cpu", "fp32", "synthetic")
LONG = (
    "resnet18-cifar-with-a-long-name-of-its-own",
    "cuda NVIDIA H200 NVL 141GB",
    "bf16",
    "cifar10 50000 images",
)
TOLERANCE = 1.0  # pixels


def point(ranks, batch, seconds=1.0, setting=SHORT, **options):
    steps = max(1, 50_000 // (ranks * batch))
    return points.Point(
        source="run.h5",
        ranks=ranks,
        batch_per_rank=batch,
        epoch_seconds=seconds,
        setting=setting,
        steps=steps,
        images_per_second=50_000 / seconds,
        step_median=seconds / steps,
        phase_seconds=dict.fromkeys(PHASES, seconds / len(PHASES)),
        **{"reducer": "overlap", **options},
    )


def visible_texts(figure):
    """Returns (text, extent in pixels) of every drawn text at the resolution of the PNG file."""
    figure.set_dpi(160)
    figure.draw_without_rendering()
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in itertools.chain(axis.get_major_ticks(), axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    hidden |= {tick.label1, tick.label2}
    return [
        (text.get_text(), text.get_window_extent())
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]


def faults(figure):
    """Returns one message per text that is cut off and per overlapping pair."""
    texts = visible_texts(figure)
    assert len(texts) > 4
    found = [
        f"cut off: {text!r}"
        for text, box in texts
        if box.x0 < -TOLERANCE
        or box.y0 < -TOLERANCE
        or box.x1 > figure.bbox.x1 + TOLERANCE
        or box.y1 > figure.bbox.y1 + TOLERANCE
    ]
    width, height = overlaps(np.array([box.extents for _, box in texts]))
    first, second = np.triu_indices(len(texts), 1)
    for pair in np.flatnonzero((width > TOLERANCE) & (height > TOLERANCE)):
        found.append(f"overlap: {texts[first[pair]][0]!r} and {texts[second[pair]][0]!r}")
    return found


def test_the_check_sees_a_title_that_is_cut_off_and_labels_that_overlap():
    figure = figure_style.new_figure(3, 3)
    figure.subplots()
    figure.suptitle("a title that is much wider than three inches, so that both ends are missing")
    assert any("cut off" in fault for fault in faults(figure))
    figure = figure_style.new_figure(3, 3)
    axes = figure.subplots()
    axes.set_xticks([0, 0.1, 0.2], ["one label", "another label", "a third label"])
    assert any("overlap" in fault for fault in faults(figure))


@pytest.mark.parametrize("setting", [SHORT, LONG])
@pytest.mark.parametrize(
    "ranks, batches",
    [
        ((1,), (32,)),
        ((2,), (32,)),
        ((1, 2), (32,)),
        ((2,), (1, 1_048_576)),
        ((1, 2, 4), (32, 128)),
        (range(1, 13), (32,)),
        ((1, 2, 4), (16, 32, 64, 128, 256)),
    ],
)
def test_phase_bars_of_any_number(setting, ranks, batches):
    found = [point(n, b, 12345.678 / n, setting) for b in batches for n in ranks]
    assert faults(phase_figure.phase_bars(found)) == []


@pytest.mark.parametrize(
    "detail",
    [
        "threads 2",
        "conv-algorithm winograd, all-reduce two_level, threads 16, bucket-mib 25",
        "an-option-of-a-very-long-name and-its-value",
    ],
)
@pytest.mark.parametrize("count", [1, 5])
def test_phase_bars_with_long_labels(detail, count):
    found = [
        point(2, 32, 0.000123456 * (i + 1), detail=detail, gradient_dtype="bf16", reducer=reducer)
        for i in range(count)
        for reducer in ("none", "allreduce")
    ]
    assert faults(phase_figure.phase_bars(found)) == []


NOTES = ("scaled from 5 of 200 steps", "warning: " + 40 * "many words " + "and an end")


@pytest.mark.parametrize("ranks", [(1,), (1, 2, 4, 8)])
def test_validity_notes_are_below_the_axes(ranks):
    found = [point(n, 32, 100.0 / n, notes=NOTES) for n in ranks]
    made = [phase_figure.phase_bars(found)]
    if len(ranks) > 1:
        series = scaling_figure.weak_series(found)
        made.append(scaling_figure.scaling(found, series, "Scaling", "Efficiency"))
    for figure in made:
        texts = " ".join(text.get_text() for text in figure.findobj(Text))
        for note in NOTES:
            assert note in " ".join(texts.split())
        assert faults(figure) == []
    labels = [phase_figure.bar_label(p, {NOTES[0]: "a", NOTES[1]: "b"}) for p in found]
    assert all(label.endswith("(a, b)") for label in labels)


def test_notes_in_the_scaling_figure_name_their_points():
    found = [point(n, 32, notes=NOTES[:1] if n > 1 else ()) for n in (1, 2, 4, 8)]
    assert scaling_figure.places_of(NOTES[0], found) == "batch 32 on 2, 4 and 8 ranks"


def test_phase_bars_show_every_batch():
    batches = [8, 16, 32, 64, 128]
    figure = phase_figure.phase_bars([point(n, b) for b in batches for n in (1, 2)])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"batch {b} per rank" for b in batches]


def test_many_phase_bars_are_divided_over_several_figures(monkeypatch):
    monkeypatch.setattr(figures, "MOST_BARS", 3)
    found = [point(1, 8, detail=f"lr {0.1 * i:.1f}") for i in range(1, 8)]
    with canvas("screen"):
        made = figures.all_figures(found, [], formats=("svg",))
    bars = {
        name: [
            f"lr {0.1 * i:.1f}"
            for i in range(1, 8)
            if f"lr {0.1 * i:.1f}" in figure.images["svg"].decode()
        ]
        for name, figure in made.items()
        if name.startswith("phases")
    }
    assert list(bars) == ["phases", "phases-2", "phases-3"]
    assert sum(bars.values(), []) == [p.detail for p in found]


def test_figures_of_the_page_have_the_batches_with_the_most_bars_first():
    """3 + 4 + 3 bars do not fit: the figures are as high as those beside them."""
    found = [point(n, batch) for batch in (32, 512) for n in (1, 2, 4)]
    found += [point(n, 128) for n in (1, 2, 4, 8)] + [point(2, 2048)]
    with canvas("page"):
        parts = list(figures.bar_parts(found, lambda p: p.batch_per_rank))
        drawn = phase_figure.phase_bars(parts[0][1])
        assert drawn.get_figheight() == pytest.approx(6, abs=0.5)
        assert faults(drawn) == []
    assert [(ending, [(p.batch_per_rank, p.ranks) for p in part]) for ending, part in parts] == [
        ("", [(128, 1), (128, 2), (128, 4), (128, 8), (32, 1), (32, 2), (32, 4)]),
        ("-2", [(512, 1), (512, 2), (512, 4), (2048, 2)]),
    ]
    assert [part for _, part in figures.bar_parts(found, lambda p: p.batch_per_rank)] == [found]


@pytest.mark.parametrize(
    "largest, every, batches, modes",
    [
        (2, False, (32,), ("overlap",)),
        (8, False, (32,), ("none", "allreduce", "overlap")),
        (16, True, (32,), ("overlap",)),
        (1024, False, (16, 32, 64, 128, 256), ("none", "overlap")),
        (8, False, (16, 32, 64, 128, 256), ("none", "allreduce", "overlap")),
    ],
)
def test_scaling_of_any_number(largest, every, batches, modes):
    counts = range(2, largest + 1) if every else [2**i for i in range(1, largest.bit_length())]
    group = [point(1, b, 100.0) for b in batches]
    settings = [(batch, mode) for batch in batches for mode in modes]
    group += [
        point(n, batch, 100.0 / n * (1 + 0.01 * n), reducer=mode)
        for n in counts
        for batch, mode in settings
    ]
    for series in (scaling_figure.weak_series(group), scaling_figure.strong_series(group)):
        figure = scaling_figure.scaling(
            group, series, "Scaling at fixed batch per rank", "Efficiency"
        )
        if series:
            assert faults(figure) == []


@pytest.mark.parametrize("factor", [0.01, 20.0])
def test_scaling_far_from_the_ideal(factor):
    group = [
        point(1, 32, 100.0),
        point(2, 32, 50 / factor),
        point(4, 32, 25 / factor),
        point(4, 32, 25 / factor, reducer="none"),
    ]
    series = scaling_figure.weak_series(group)
    figure = scaling_figure.scaling(group, series, "Scaling", "Weak efficiency")
    assert faults(figure) == []


@pytest.mark.parametrize(
    "largest, last",
    [
        (2, "complete"),
        (2, "out of memory"),
        (4, "not run: the time was up"),
        (9, "complete"),
        (14, "out of memory"),
    ],
)
def test_ladder_of_any_length(largest, last):
    rows = [
        {
            "batch_per_rank": 32 << i,
            "status": "complete",
            "epoch_seconds": 3000.0 / (i + 1),
            "images_per_second": 123456.7 * (i + 1),
        }
        for i in range(largest)
    ]
    if last != "complete":
        rows[-1] = {"batch_per_rank": rows[-1]["batch_per_rank"], "status": last}
    assert faults(layer_figures.ladder(rows, " ".join(LONG))) == []
    for row in rows:
        row["source"] = "ladder-on-one-rank-of-node-17.h5"
    assert faults(layer_figures.ladder(rows, "Batch ladder")) == []


def test_a_long_word_is_broken_and_nothing_is_lost():
    text = "one " + 60 * "x" + " two"
    assert wrap(text, 2.0, 11).replace("\n", "").replace(" ", "") == text.replace(" ", "")
    assert wrap("short", 5.0, 11) == "short"


def test_weak_efficiency_is_the_same_in_the_figure_and_in_the_table():
    """With 2 images per rank, an epoch of 10 images has 5 steps on one rank and 3 on two ranks. The
    efficiency is that of the epochs, 5 / (2 · 3.6)."""
    group = [point(1, 2, 5.0), point(2, 2, 3.6)]
    group = [replace(p, steps=steps) for p, steps in zip(group, (5, 3))]
    ((_, rows),) = scaling_figure.weak_series(group)
    row = weak_table(group).rows[1]
    assert rows[1].efficiency == row["efficiency"] == pytest.approx(5 / 7.2)
