# SPDX-License-Identifier: BSD-3-Clause
"""Tests the numbers that bars show, and their places."""

from dataclasses import replace

import pytest
from drawn import bars, lines, notes, numbers, ticks, values
from lockstep_report.figures.explanation import cause_bars
from lockstep_report.figures.layers import ladder, layer_figure, stack_figure
from lockstep_report.figures.phases import phase_bars, pipeline_figure, reducer_bars, waiting_bars
from lockstep_report.figures.profile import draw_bars
from lockstep_report.figures.style import new_figure
from lockstep_report.measure.waiting import Split
from lockstep_report.models.causes import WEAK, Loss
from lockstep_report.tables.table import Table
from test_figures import LONG, point


def phased(ranks, batch, seconds, forward, backward, exposed, **options):
    """A point with these phases in seconds, and 0.5 s of update."""
    phases = {
        "data_wait": 0.01,
        "upload": 0.02,
        "forward": forward,
        "backward": backward,
        "exposed_communication": exposed,
        "update": 0.5,
        "imbalance": 0.0,
    }
    return replace(point(ranks, batch, seconds, **options), phase_seconds=phases)


def test_phases_are_stacked_in_the_order_of_a_step():
    one, wide = phase_bars(
        [
            phased(1, 32, 8.0, 3, 4, 0),
            phased(2, 32, 5.0, 1.5, 2, 1),
            phased(1, 64, 2000.0, 900, 1000, 0),
        ]
    ).axes
    assert bars(one) == {  # data wait is less than 0.2 % of the longest epoch
        "upload": [[-0.33, 0, 0.66, 0.02], [0.67, 0, 0.66, 0.02]],
        "forward": [[-0.33, 0.02, 0.66, 3], [0.67, 0.02, 0.66, 1.5]],
        "backward": [[-0.33, 3.02, 0.66, 4], [0.67, 1.52, 0.66, 2]],
        "exposed communication": [[-0.33, 7.02, 0.66, 0], [0.67, 3.52, 0.66, 1]],
        "update": [[-0.33, 7.02, 0.66, 0.5], [0.67, 4.52, 0.66, 0.5]],
    }
    assert list(bars(wide)) == ["forward", "backward"]  # of 2000 s
    assert notes(one) == [("8 s", 0, 8), ("5 s", 1, 5)] and notes(wide) == [("2,000 s", 0, 2000)]
    assert ticks(one.xaxis) == [(0, "1 rank"), (1, "2 ranks\noverlap")]
    assert numbers((*one.get_xlim(), *one.get_ylim())) == [-0.6, 1.6, 0, 9.2]
    assert numbers(wide.get_ylim()) == [0, 2300]
    assert values(one)[2:4] == ["1 rank, forward: 3 s", "2 ranks, overlap, forward: 1.5 s"]
    legend = [text.get_text() for text in wide.get_legend().get_texts()]
    assert legend == ["update", "exposed communication", "backward", "forward", "upload"]


def test_phases_continue_in_a_further_row():
    found = [phased(n, 32, 10.0 / n, 3 / n, 4 / n, 0.1) for n in range(1, 14)]
    first, *_, last = phase_bars(found).axes
    assert last.get_title(loc="left") == "batch 32 per rank, continued"
    assert numbers(last.get_ylim()) == numbers(first.get_ylim()) == [0, 11.5]


def test_waiting_is_on_top_of_the_transfer_of_each_rank():
    split = Split((0.5, 0.0), (1.5, 2.5), (0.5, 0.5), 1e-6)
    other = Split((0.25, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, 0.5, 0.0), 1e-6)
    two, three = waiting_bars(
        [point(2, 32, 5.0, split=split), point(3, 32, 4.0, split=other), point(1, 32)]
    ).axes
    assert bars(two) == {
        "transfer, at most": [[-0.35, 0, 0.7, 1.5], [0.65, 0, 0.7, 2.5]],
        "waiting for the last rank": [[-0.35, 1.5, 0.7, 0.5], [0.65, 2.5, 0.7, 0]],
    }
    assert numbers((*three.get_xlim(), *three.get_ylim())) == [-0.6, 2.6, 0, 2.875]
    assert numbers(two.get_ylim()) == [0, 2.875]
    assert two.get_title(loc="left") == "batch 32 per rank\n2 ranks\noverlap"
    assert values(two)[2] == "2 ranks, overlap, rank 0, waiting for the last rank: 0.5 s"


def test_reducers_have_gaps_between_numbers_of_ranks():
    def reduced(ranks, reducer, seconds, sent):
        return replace(
            phased(ranks, 32, seconds, 2, 1, 0.002, reducer=reducer), steps=100, sent_bytes=sent
        )

    above, below = reducer_bars(
        [
            reduced(2, "overlap", 5.0, 2.5e6),
            reduced(2, "allreduce", 4.0, None),
            reduced(4, "overlap", 3.0, 1e6),
        ]
    ).axes
    places = [-0.33, 0.67, 2.27]
    assert bars(
        above
    ) == {  # ms per step; exposed communication is less than 0.2 % of the longest step
        "data wait": [[x, 0, 0.66, 0.1] for x in places],
        "upload": [[x, 0.1, 0.66, 0.2] for x in places],
        "forward": [[x, 0.3, 0.66, 20] for x in places],
        "backward": [[x, 20.3, 0.66, 10] for x in places],
        "update": [[x, 30.3, 0.66, 5] for x in places],
    }
    assert bars(below) == {None: [[-0.33, 0, 0.66, 2.5], [0.67, 0, 0.66, 0], [2.27, 0, 0.66, 1]]}
    assert notes(above) == [("50 ms", 0, 50), ("40 ms", 1, 40), ("30 ms", 2.6, 30)]
    assert notes(below) == [("2.5", 0, 2.5), ("not known", 1, 0), ("1", 2.6, 1)]
    assert numbers((*above.get_xlim(), *above.get_ylim())) == [-0.6, 3.2, 0, 57.5]
    assert numbers(below.get_ylim()) == [0, 2.875]
    assert ticks(below.xaxis) == [
        (0, "2 ranks\noverlap"),
        (1, "2 ranks\nallreduce"),
        (2.6, "4 ranks\noverlap"),
    ]
    assert [label for _, label in ticks(above.xaxis)] == ["", "", ""]
    assert values(above)[-3] == "2 ranks, overlap, update: 5 ms"


def test_reducers_in_several_rows_have_equal_axes():
    found = [
        replace(
            phased(
                2, 32, 1.0 + n, 2, 1, 0.002, reducer="overlap", detail=f"a rather long option {n}"
            ),
            steps=100,
            sent_bytes=None if n else 1e6,
        )
        for n in range(9)
    ]
    panels = reducer_bars(found).axes
    above, below = panels[::2], panels[1::2]
    assert len(above) == 3 and numbers(above[0].get_ylim()) == numbers(above[2].get_ylim()) == [
        0,
        103.5,
    ]
    assert numbers(below[0].get_ylim()) == numbers(below[1].get_ylim()) == [0, 1.15]
    assert numbers(panels[0].get_xlim()) == numbers(panels[5].get_xlim()) == [-0.6, 2.6]
    assert ticks(below[0].xaxis)[0] == (0, "2 ranks\noverlap\na rather long option 0")
    assert [bool(panel.get_legend()) for panel in panels] == [False] * 4 + [True, False]
    assert reducer_bars(found[1:2]).axes[0].get_ylim()[1] == pytest.approx(
        23
    )  # one panel without bytes
    assert len(reducer_bars(found[1:2]).axes) == 1


def test_ladder_names_what_was_not_measured():
    rows = [
        {
            "batch_per_rank": 1024,
            "status": "complete",
            "epoch_seconds": 40.0,
            "images_per_second": 1250.0,
        },
        {
            "batch_per_rank": 2048,
            "status": "complete",
            "epoch_seconds": 20.0,
            "images_per_second": 2500.0,
            "is_extrapolated": True,
        },
        {"batch_per_rank": 4096, "status": "out of memory"},
    ]
    seconds, rate = ladder(rows, "Batch ladder").axes
    assert bars(seconds) == {None: [[-0.31, 0, 0.62, 40], [0.69, 0, 0.62, 20], [1.69, 0, 0.62, 0]]}
    assert notes(seconds) == [("40", 0, 40), ("20", 1, 20), ("out of\nmemory", 2, 0)]
    assert notes(rate)[:2] == [("1,250", 0, 1250), ("2,500", 1, 2500)]
    assert ticks(rate.xaxis) == [(0, "1,024"), (1, "2,048\nextrapolated"), (2, "4,096")]
    assert numbers((*rate.get_xlim(), *rate.get_ylim())) == [-0.6, 2.6, 0, 2875]
    assert numbers(seconds.get_ylim()) == [0, 46]
    assert ladder(rows[2:], "Batch ladder") is None


def test_causes_above_and_below_zero():
    def loss(ranks, seconds, **causes):
        return Loss(point(ranks, 32, seconds), point(1, 32, 12.0), WEAK, causes)

    figure = cause_bars(
        [
            loss(2, 8.0, transfer=3.0, slower_compute=-1.0, upload=0.001, data_wait=0.04),
            loss(4, 4.0, transfer=-0.25, slower_compute=1.0, upload=0.0),
        ]
    )
    (axes,) = figure.axes
    assert bars(axes) == {  # upload is less than 0.05 % everywhere
        "efficiency": [[-0.35, 0, 0.7, 75], [0.65, 0, 0.7, 75]],
        "exposed: transfer": [[-0.35, 75, 0.7, 37.5], [0.65, 0, 0.7, -6.25]],
        "input: data wait": [[-0.35, 112.5, 0.7, 0.5], [0.65, 75, 0.7, 0]],
        "slower computation at the same batch": [[-0.35, 0, 0.7, -12.5], [0.65, 75, 0.7, 25]],
    }
    assert numbers(axes.get_ylim()) == [-13.75, 124.3]
    assert lines(axes) == [(None, [0, 1], [100, 100])]
    assert ticks(axes.xaxis) == [(0, "2\noverlap"), (1, "4\noverlap")]
    assert axes.get_title(loc="left") == "fixed batch per rank,\nbatch 32 per rank"
    assert figure.get_label() == "Causes of lost efficiency: resnet18-cifar, cpu, fp32, synthetic"
    assert values(axes)[2:4] == [
        "2 ranks, overlap, exposed: transfer: 37.5 %",
        "4 ranks, overlap, exposed: transfer: -6.25 %",
    ]
    other = Loss(point(2, 32, 6.0, setting=LONG), point(1, 32, 12.0), WEAK, {})
    descending = cause_bars([loss(4, 3.0), loss(2, 6.0)]).axes[0]
    assert [text.split("\n")[0] for _, text in ticks(descending.xaxis)] == ["2", "4"]
    several = cause_bars([loss(2, 6.0), other])
    assert [numbers(panel.get_ylim()) for panel in several.axes] == [[0, 110]] * 2
    assert several.get_label() == "Causes of lost efficiency"


def test_stages_of_pipelines_with_their_ideal():
    def stage(source, number, busy, transfer, idle, replicas=1):
        return {
            "source": source,
            "stage": number,
            "schedule": "1f1b",
            "micro_batches": 4,
            "replicas": replicas,
            "busy_percent": busy,
            "transfer_percent": transfer,
            "idle_percent": idle,
            "ideal_percent": 20.0,
        }

    (axes,) = pipeline_figure(
        Table(
            "pipeline-stages",
            "",
            [],
            [stage("a", 0, 70, 10, 20), stage("a", 1, 60, 5, 35), stage("b", 0, 50, 20, 30, 2)],
            extra=tuple(stage("a", 0, 0, 0, 0)),
        )
    ).axes
    assert bars(axes) == {
        "busy": [[-0.4, 0, 0.8, 70], [0.6, 0, 0.8, 60], [2.3, 0, 0.8, 50]],
        "copies": [[-0.4, 70, 0.8, 10], [0.6, 60, 0.8, 5], [2.3, 50, 0.8, 20]],
        "idle": [[-0.4, 80, 0.8, 20], [0.6, 65, 0.8, 35], [2.3, 70, 0.8, 30]],
    }
    ideals = [numbers(segment) for lines in axes.collections for segment in lines.get_segments()]
    assert ideals == [[-0.45, 80, 1.45, 80], [2.25, 80, 3.15, 80]]
    assert notes(axes) == [("1f1b\nM = 4", 0.5, 100), ("1f1b\nM = 4\n2 replicas", 2.7, 100)]
    assert ticks(axes.xaxis) == [(0, "0"), (1, "1"), (2.7, "0")]
    assert numbers((*axes.get_xlim(), *axes.get_ylim())) == [-0.7, 3.4, 0, 118]
    assert values(axes)[:2] == ["stage 0, busy: 70 %", "stage 1, busy: 60 %"]


def test_layers_have_bars_for_both_passes():
    def row(layer, name, copy, product, median):
        return {
            "layer": layer,
            "pass": name,
            "copy_percent": copy,
            "product_percent": product,
            "median_ms": median,
        }

    copy, product = layer_figure(
        [
            row("relu", "forward", 80, 1, 0.5),
            row("relu", "backward", 120, 2, 2000),
            row("linear", "forward", 40, 90, 1.25),
        ],
        "Layers",
    ).axes
    assert bars(copy) == {
        "forward": [[0, -0.37, 80, 0.36], [0, 0.63, 40, 0.36]],
        "backward": [[0, 0.01, 120, 0.36], [0, 1.01, 0, 0.36]],
    }
    assert notes(copy) == [
        ("80 % (0.5 ms)", 80, -0.19),
        ("40 % (1.25 ms)", 40, 0.81),
        ("120 % (2,000 ms)", 120, 0.19),
    ]
    assert numbers((*copy.get_xlim(), *product.get_xlim())) == [0, 198, 0, 165]
    assert lines(copy) == [(None, [100, 100], [0, 1])] and copy.yaxis_inverted()
    assert ticks(copy.yaxis) == [(0, "relu"), (1, "linear")]


def test_stacks_show_the_depth_and_its_estimate():
    def row(layer, devices, depth, status="fits"):
        return {
            "layer": layer,
            "devices": devices,
            "status": status,
            "depth": depth,
            "estimated_depth": 100,
        }

    (axes,) = stack_figure(
        [
            row("relu", 2, 120),
            row("relu", 1, 60),
            row("linear", 1, 80),
            row("linear", 2, 0, "fails"),
        ],
        "Stacks",
    ).axes
    assert bars(axes) == {None: [[-0.3, 0, 0.6, 60], [0.7, 0, 0.6, 120], [1.7, 0, 0.6, 80]]}
    assert lines(axes) == [
        ("estimate", [-0.36, 0.36], [100, 100]),
        (None, [0.64, 1.36], [100, 100]),
        (None, [1.64, 2.36], [100, 100]),
    ]
    assert notes(axes) == [("60", 0, 100), ("120", 1, 120), ("80", 2, 100)]
    assert ticks(axes.xaxis) == [
        (0, "relu\n1 device"),
        (1, "relu\n2 devices"),
        (2, "linear\n1 device"),
    ]
    assert numbers((*axes.get_xlim(), *axes.get_ylim())) == [-0.6, 2.6, 0, 138]


def test_operations_beyond_the_longest_are_added_up():
    rows = [
        {"kind": f"k{n}", "phase": "forward" if n else "", "calls": n, "milliseconds": 20.0 - n}
        for n in range(14)
    ]
    axes = new_figure(6.4, 4.8).subplots()
    draw_bars(axes, rows)
    heights = [20.0 - n for n in range(12)] + [8 + 7]
    assert bars(axes) == {None: [[0, 11.625 - n, height, 0.75] for n, height in enumerate(heights)]}
    assert notes(axes) == [(f"{height:.2f}", height, 12 - n) for n, height in enumerate(heights)]
    labels = [label for _, label in ticks(axes.yaxis)]
    assert labels[:3] == ["k0", "k1, forward", "k2, forward (2×)"] and labels[-1] == "2 other rows"
    assert numbers(axes.get_xlim()) == [0, 25]
