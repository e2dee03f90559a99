# SPDX-License-Identifier: BSD-3-Clause
"""Tests the numbers that curves of speedups and of accuracies show."""

from dataclasses import replace

import numpy as np
import pytest
from drawn import lines, numbers, ticks, values
from lockstep_report.figures import accuracy as accuracy_figure
from lockstep_report.figures.layout import labelled_ranks, text_width
from lockstep_report.figures.scaling import (
    places_of,
    scaling,
    strong_series,
    thread_figure,
    weak_series,
)
from lockstep_report.measure.accuracy import AccuracyCurve
from lockstep_report.measure.inference import Interval
from test_figures import SHORT, point


def repeated(ranks, seconds, low, high, **options):
    return replace(
        point(ranks, 32, seconds, **options), epoch_interval=Interval(low, high, 0.97, 6)
    )


def test_scaling_shows_speedup_interval_and_efficiencies():
    found = [
        repeated(1, 8.0, 7.0, 9.0),
        repeated(2, 5.0, 4.5, 6.0),
        point(4, 32, 2.5),
        point(2, 32, 4.5, reducer="none"),
    ]
    found = [replace(p, steps=int(64 / p.ranks)) for p in found]
    left, right = scaling(found, weak_series(found), "Scaling", "Efficiency").axes
    assert lines(left) == [
        (None, [1, 4], [1, 4]),
        (None, [1, 2, 4], [1, 1.6, 3.2]),
        (None, [2, 2], numbers([7 / 6, 9 / 4.5])),
    ]
    assert lines(right) == [
        ("ideal", [0, 1], [100, 100]),
        ("batch 32 per rank", [1, 2, 4], [100, 80, 80]),
        (None, [2], [90]),
        ("against independent\nreplicas", [], []),
    ]
    assert values(left) == [
        f"batch 32 per rank, {text}" for text in ("1 rank: 1", "2 ranks: 1.6", "4 ranks: 3.2")
    ]
    assert values(right)[2:] == [
        "batch 32 per rank, 4 ranks: 80 %",
        "batch 32 per rank, against independent replicas, 2 ranks: 90 %",
    ]
    assert numbers(right.get_ylim()) == [0, 110]
    assert (left.get_xscale(), left.get_yscale(), right.get_xscale(), right.get_yscale()) == (
        "log",
        "log",
        "log",
        "linear",
    )
    assert ticks(left.xaxis) == ticks(right.xaxis) == [(1, "1"), (2, "2"), (4, "4")]


def test_strong_scaling_divides_by_the_ranks():
    found = [
        point(1, 64, 8.0),
        point(2, 32, 5.0),
        point(4, 16, 1.0),
        point(1, 32, 9.0),
        point(2, 16, 6.0),
    ]
    left, right = scaling(found, strong_series(found), "Strong scaling", "Efficiency").axes
    assert lines(left)[1:] == [(None, [1, 2], [1, 1.5]), (None, [1, 2, 4], [1, 1.6, 8])]
    assert lines(right)[1:] == [
        ("global batch 32", [1, 2], [100, 75]),
        ("global batch 64", [1, 2, 4], [100, 80, 200]),
    ]
    assert numbers(right.get_ylim()) == [0, 220]


def test_curves_of_several_modes_are_named_by_them():
    found = [point(1, 32, 8.0), point(2, 32, 5.0), point(2, 32, 6.0, reducer="allreduce")]
    assert [label for label, _ in weak_series(found)] == [
        "batch 32 per rank, overlap",
        "batch 32 per rank, allreduce",
    ]
    one = weak_series(found[:2])
    assert [label for label, _ in one] == ["batch 32 per rank"]
    assert [
        label for label, _ in weak_series([replace(p, batch_per_rank=0) for p in found[:2]])
    ] == ["as given"]


def test_labels_of_ranks_do_not_overlap():
    assert labelled_ranks([1, 2, 3, 4]) == [1, 2, 3, 4]
    shown = labelled_ranks(list(range(1, 65)))
    assert {1, 2, 4, 8, 16, 32, 64} <= set(shown) and 63 not in shown and len(shown) < 20
    gaps = np.diff(3.4 * np.log2(np.array(labelled_ranks(list(range(32, 65)))) / 32))  # inches
    assert text_width("64") + 0.08 < gaps.min() and gaps.max() < 2 * (text_width("64") + 0.08)
    notes = [point(n, 32, notes=("a",)) for n in (1, 2)] + [point(4, 8)]
    notes.append(replace(notes[0], batch_per_rank=0))
    assert places_of("a", notes) == "1 rank, batch 32 on 1 and 2 ranks"


def test_threads_show_speedups_of_the_passes():
    def threaded(threads, seconds, forward, backward, update):
        phases = {"forward": forward, "backward": backward, "update": update}
        return replace(
            point(
                1,
                32,
                seconds,
                threads=threads,
                processors=6,
                setting=(*SHORT, "AMD EPYC", "lockstep", "2 threads per rank"),
            ),
            phase_seconds=phases,
        )

    (axes,) = thread_figure([threaded(2, 9.0, 3.0, 5.0, 1.0), threaded(4, 6.0, 1.5, 4.0, 0.0)]).axes
    assert lines(axes)[:4] == [
        ("ideal", [2, 4], [1, 2]),
        ("epoch", [2, 4], [1, 1.5]),
        ("forward", [2, 4], [1, 2]),
        ("backward", [2, 4], [1, 1.25]),
    ]
    assert lines(axes)[4][1] == [2, 4] and lines(axes)[4][2][0] == 1
    assert lines(axes)[5] == ("6 processors", [6, 6], [0, 1])
    assert values(axes)[1:3] == ["epoch, 4 threads: 1.5", "forward, 2 threads: 1"]
    assert values(axes)[-1] == "update, 2 threads: 1"  # an update of 0 s has no speedup
    assert axes.get_xscale() == axes.get_yscale() == "log"


@pytest.fixture
def curve():
    """A learning curve of three seeds and three epochs."""
    return AccuracyCurve(
        "cifar10",
        "resnet18-cifar",
        32,
        1,
        "lr 0.1",
        np.arange(1, 4),
        10,
        np.array([[0.1, 0.5, np.nan], [0.2, 0.6, 0.7], [0.4, 0.9, 0.8]]),
        np.array([[10.0, 20, 30], [11, 22, 33], [15, 30, 45]]),
        np.ones(3),
        ("a", "b", "c"),
    )


def test_learning_curves_show_medians_and_the_range_of_the_seeds(curve, monkeypatch):
    accuracy, seconds = curve.accuracy, curve.seconds
    alone = replace(
        curve, global_batch=64, ranks=2, accuracy=accuracy[2:], seconds=seconds[2:], labels=("d",)
    )
    monkeypatch.setattr(accuracy_figure, "accuracy_curves", lambda runs: [curve, alone])
    left, right = accuracy_figure.accuracy_figure([]).axes
    assert lines(left) == [
        ("batch 32, 1 rank", [1, 2], [20, 60]),
        ("batch 64, 2 ranks", [1, 2, 3], [40, 90, 80]),
    ]
    assert lines(right) == [
        ("batch 32, 1 rank", [11, 22], [20, 60]),
        ("batch 64, 2 ranks", [15, 30, 45], [40, 90, 80]),
    ]
    (band,) = left.collections
    assert {tuple(numbers(vertex)) for vertex in band.get_paths()[0].vertices} == {
        (1, 10),
        (1, 40),
        (2, 50),
        (2, 90),
    }
    assert values(left)[1] == values(right)[1] == "batch 32, 1 rank, epoch 2, 22 s: 60.00 %"


def test_learning_curves_of_two_seeds_are_means_and_one_epoch_is_no_curve(curve, monkeypatch):
    accuracy, seconds = curve.accuracy, curve.seconds
    two = replace(curve, accuracy=accuracy[:2], seconds=seconds[:2], labels=("a", "b"))
    monkeypatch.setattr(accuracy_figure, "accuracy_curves", lambda runs: [two])
    left, _ = accuracy_figure.accuracy_figure([]).axes
    assert lines(left) == [("batch 32", [1, 2], [15, 55])] and len(left.collections) == 1
    once = replace(curve, accuracy=np.where(np.arange(3) == 1, accuracy, np.nan))
    monkeypatch.setattr(accuracy_figure, "accuracy_curves", lambda runs: [once])
    assert accuracy_figure.accuracy_figure([]) is None  # one evaluated epoch is no curve
