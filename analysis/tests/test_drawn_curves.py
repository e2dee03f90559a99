# SPDX-License-Identifier: BSD-3-Clause
"""Tests the numbers that curves and maps show."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from drawn import lines, numbers, ticks, values
from lockstep_report.figures import (
    accuracy as accuracy_figure,
)
from lockstep_report.figures import (
    profile as profile_figure,
)
from lockstep_report.figures import (
    telemetry as telemetry_figure,
)
from lockstep_report.figures import (
    work as work_figure,
)
from lockstep_report.figures.explanation import (
    all_reduce_lines,
    law_curves,
    sweep_figure,
    sweep_notes,
)
from lockstep_report.figures.layout import labelled_ranks, size_text, text_width
from lockstep_report.figures.scaling import (
    places_of,
    prediction_figure,
    scaling,
    strong_series,
    thread_figure,
    weak_series,
)
from lockstep_report.figures.style import plt
from lockstep_report.measure.accuracy import Curve
from lockstep_report.measure.fitting import Estimate
from lockstep_report.measure.inference import Interval
from lockstep_report.measure.stragglers import Straggler
from lockstep_report.models.fits import AlphaBeta, alpha_beta, scaling_fits
from lockstep_report.runfile.read import read_run
from matplotlib.colors import to_hex
from planted import write_sweep, write_training
from test_figures import SHORT, point
from test_profile import write_profile
from test_telemetry import write as write_telemetry


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


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


def test_learning_curves_show_medians_and_the_range_of_the_seeds(monkeypatch):
    accuracy = np.array([[0.1, 0.5, np.nan], [0.2, 0.6, 0.7], [0.4, 0.9, 0.8]])
    seconds = np.array([[10.0, 20, 30], [11, 22, 33], [15, 30, 45]])
    curve = Curve(
        "cifar10",
        "resnet18-cifar",
        32,
        1,
        "lr 0.1",
        np.arange(1, 4),
        10,
        accuracy,
        seconds,
        np.ones(3),
        ("a", "b", "c"),
    )
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
    two = replace(curve, accuracy=accuracy[:2], seconds=seconds[:2], labels=("a", "b"))
    monkeypatch.setattr(accuracy_figure, "accuracy_curves", lambda runs: [two])
    left, _ = accuracy_figure.accuracy_figure([]).axes
    assert lines(left) == [("batch 32", [1, 2], [15, 55])] and len(left.collections) == 1
    once = replace(curve, accuracy=np.where(np.arange(3) == 1, accuracy, np.nan))
    monkeypatch.setattr(accuracy_figure, "accuracy_curves", lambda runs: [once])
    assert accuracy_figure.accuracy_figure([]) is None  # one evaluated epoch is no curve


def exact_fit(algorithm, origin, ranks, sizes, alpha, beta):
    sizes = np.array(sizes, dtype=float)
    seconds = alpha + beta * sizes
    return AlphaBeta(
        algorithm, origin, ranks, 1, ("s.h5",), sizes, seconds, *alpha_beta(sizes, seconds)
    )


def test_sweeps_show_bandwidth_fit_and_link(tmp_path):
    sizes = [2**10, 2**20, 2**30]
    run = read_run(
        write_sweep(tmp_path / "s.h5", np.random.default_rng(1), 4, 0.0, 1.5e-9, sizes, sigma=0.0)
    )
    fits = [
        exact_fit("ring (MPI)", "sweep", 4, sizes, 1e-3, 1e-9),
        exact_fit("ring", "buckets", 4, sizes, 0, 1e-9),
        exact_fit("ring", "sweep", 2, sizes, 0, 1e-9),
        exact_fit("tree", "sweep", 4, sizes, 0, 1e-9),
    ]
    (axes,) = sweep_figure([run], 10.0, fits).axes
    measured, link, fit = lines(axes)
    assert measured == ("ring", numbers(sizes), [1, 1, 1])  # 2 (N-1)/N / 1.5 ns
    assert link == ("link, 10 Gbit/s", [0, 1], [1.25, 1.25])
    assert len(fit[1]) == 60 and (fit[1][0], fit[1][-1]) == tuple(numbers(sizes[::2]))
    assert (fit[2][0], fit[2][-1]) == tuple(
        numbers([1.5 * size / (1e-3 + 1e-9 * size) / 1e9 for size in sizes[::2]])
    )
    assert values(axes) == ["ring, 1 KiB: 1 GB/s", "ring, 1 MiB: 1 GB/s", "ring, 1 GiB: 1 GB/s"]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    note = "Lines without markers: fits of the time, alpha + beta · bytes"
    assert [
        note in sweep_notes([run], 10.0, some)
        for some in (fits[:1], fits[1:2], [replace(fits[0], fit=None)], [])
    ] == [True, False, False, False]
    assert "link 10 Gbit/s; n = 9 repeats per size" in sweep_notes([run], 10.0, [])[0]
    assert [size_text(size) for size in (1023, 1024, 3 * 2**20, 2**30)] == [
        "1023 B",
        "1 KiB",
        "3 MiB",
        "1 GiB",
    ]


def test_fits_of_all_reduces_are_dashed_beyond_the_sizes():
    found = [
        exact_fit("ring", "sweep", 4, [1000, 2000, 4000], -0.5e-3, 1e-6),
        exact_fit("tree", "sweep", 4, [1000, 16000, 2000], 1e-3, 1e-6),
    ]
    (axes,) = all_reduce_lines([*found, replace(found[0], fit=None)]).axes
    inside, above, below, measured = lines(axes)[:4]
    assert (inside[1][0], inside[1][-1], inside[2][0], inside[2][-1]) == (1000, 4000, 0.5, 3.5)
    assert (above[1][0], above[1][-1], above[2][-1]) == (
        4000,
        64000,
        63.5,
    )  # four times the largest of both
    assert (
        500 < below[1][0] < 530 and below[1][-1] == 1000 and below[2][0] > 0
    )  # negative below 500 bytes
    assert measured == ("ring", [1000, 2000, 4000], [0.5, 1.5, 3.5])
    assert lines(axes)[6][1][0] == 250 and [line.get_linestyle() for line in axes.lines[:4]] == [
        "-",
        "--",
        "--",
        "None",
    ]
    assert values(axes)[0] == "ring, 1000 B: 0.5 ms"
    assert axes.get_title(loc="left") == "sweep, 4 ranks"


def test_laws_are_dashed_up_to_four_times_the_ranks():
    strong = [
        point(n, 64 // n, seconds) for n, seconds in ((1, 10.0), (2, 6.0), (4, 4.0))
    ]  # 2 + 8/N
    weak = [
        replace(point(n, 32, seconds), steps=1) for n, seconds in ((1, 10.0), (2, 12.5), (4, 15.0))
    ]
    laws = scaling_fits(strong)[:1]
    (axes,) = law_curves(laws).axes
    ideal, inside, beyond, measured = lines(axes)
    assert ideal == ("ideal", [1, 16], [1, 16])
    assert (inside[1][0], inside[1][-1], inside[2][-1]) == (1, 4, 2.5)
    assert (beyond[1][0], beyond[1][-1], beyond[2][-1]) == (4, 16, 4)  # 10 / (2 + 8/16) = 4
    assert measured[1:] == ([1, 2, 4], numbers([1, 10 / 6, 2.5]))
    assert values(axes)[1] == "global batch 64, overlap, 2 ranks: 1.67"
    assert ticks(axes.xaxis) == [(1, "1"), (2, "2"), (4, "4"), (16, "16")]
    (law,) = (law for law in scaling_fits(weak) if law.law == "Gustafson")
    assert lines(law_curves([law]).axes[0])[2][2][-1] == numbers(law.speedup([16]))[0]
    short = replace(law, points=law.points[:1], ranks=law.ranks[:2], seconds=law.seconds[:2])
    (panel,) = law_curves([law, short]).axes
    assert lines(panel)[0][1] == [1, 16] and lines(panel)[5][1][-1] == 8  # four times 4 and 2 ranks
    bad = [replace(laws[0], seconds=laws[0].seconds * np.array([1, 2, 1]))]
    assert (
        len(lines(law_curves(bad).axes[0])) == 3
    )  # a law that does not describe the times ends with them


def test_predictions_are_a_band_and_measured_steps_points():
    def row(ranks, measured=None):
        basis = SimpleNamespace(setting=SHORT, batch=32, reducer="overlap")
        network = SimpleNamespace(label="ring", name="Ethernet")
        return SimpleNamespace(
            measured=measured,
            is_strong=ranks > 4,
            warnings=(),
            predicted=SimpleNamespace(
                basis=basis,
                network=network,
                ranks=ranks,
                step=(0.01 * ranks, 0.009 * ranks, 0.012 * ranks),
            ),
        )

    (axes,) = prediction_figure([row(4), row(2, 0.021), row(8)]).axes
    assert lines(axes) == [
        ("batch 32, overlap, predicted", [2, 4], [20, 40]),
        ("batch 32, overlap, measured", [2], [21]),
        ("global batch 256, overlap, predicted", [8], [80]),
    ]
    band, _ = axes.collections
    assert {tuple(numbers(vertex)) for vertex in band.get_paths()[0].vertices} == {
        (2, 18),
        (2, 24),
        (4, 36),
        (4, 48),
    }
    assert axes.get_ylim()[0] == 0 and ticks(axes.xaxis) == [(2, "2"), (4, "4"), (8, "8")]


def test_roofline_of_a_profile(tmp_path):
    _, axes = profile_figure.profile_figure(read_run(write_profile(tmp_path / "run.h5"))).axes
    ((_, x, y),) = lines(axes)
    assert max(y) == 100 and y == pytest.approx(
        np.minimum(100, 5 * np.array(x)), rel=1e-5
    )  # 100 GFLOP/s, 5 GB/s
    rows = [
        row
        for row in profile_figure.operation_rows(read_run(tmp_path / "run.h5"))
        if row["flops"] and row["bytes"]
    ]
    longest = max(row["milliseconds"] for row in rows)
    intensity = [row["flops"] / row["bytes"] for row in rows]
    assert (x[0], x[-1]) == tuple(numbers((min(*intensity, 20) / 2, max(*intensity, 20) * 2)))
    for row, mark, place in zip(rows, axes.collections, intensity):
        assert numbers(mark.get_offsets()) == numbers([place, row["gflop_per_second"]])
        assert mark.get_sizes() == pytest.approx([20 + 180 * row["milliseconds"] / longest])
    assert len(values(axes)) == len(rows) and values(axes)[0].endswith(
        f" GFLOP/s, {longest:.3g} ms"
    )


def test_telemetry_shows_steps_rates_and_ends_of_epochs(tmp_path):
    steps, *panels = telemetry_figure.draw(read_run(write_telemetry(tmp_path / "a.h5"))).axes
    dots, *marks = lines(steps)
    assert dots[1] == numbers(1 + 0.1 * np.arange(1, 31)) and dots[2] == [100] * 30
    assert sorted(mark[1][0] for mark in marks) == [2.5, 4] and steps.get_ylim()[0] == 0
    assert len(panels) == 4 and all(axes.get_ylim()[0] == 0 for axes in panels)
    by_title = {axes.get_title(loc="left"): lines(axes) for axes in panels}
    processors, memory, network = (
        by_title[name] for name in ("Processors in use", "Resident memory", "Network")
    )
    assert processors[1][0] == "user, rank 1" and set(processors[1][2]) == {3}  # 1.5 (rank + 1)
    assert (
        memory[2][0] == "rank 2" and memory[2][1][-1] == 10 and memory[2][2][-1] == 33
    )  # 3 (1 + t) MiB
    assert (
        network[0][0] == "node1 eth0, received"
        and set(network[0][2]) == {2}
        and set(network[1][2]) == {4}
    )


def test_dots_of_long_runs_are_the_longest_of_a_group(monkeypatch):
    monkeypatch.setattr(telemetry_figure, "MOST_STEPS", 2)
    seconds = np.array([1.0, 3, 2, 5, 4.0])
    monkeypatch.setattr(telemetry_figure, "step_seconds", lambda run, steps: seconds[steps])
    _, axes = plt.subplots()
    telemetry_figure.draw_steps(axes, None, np.arange(10.0, 15))
    assert lines(axes) == [(None, [11, 13], [3000, 5000])]
    assert axes.get_title("left") == "Step (slowest rank; the longest of each 3 steps)"


def test_work_is_in_classes_relative_to_the_median_rank():
    work = np.ones((100, 4))
    work[50:, 2] = 1.15
    work[:10, 1] = 1.5  # the limit belongs to the lower class
    work[90:, 3] = 1.75
    classes, edges, ranks = work_figure.work_classes(work, columns=10)
    assert edges.tolist() == list(range(0, 101, 10)) and ranks.tolist() == [0, 1, 2, 3]
    assert classes.tolist() == [[0] * 10, [4] + [0] * 9, [0] * 5 + [3] * 4 + [2], [0] * 9 + [5]]
    classes, edges, ranks = work_figure.work_classes(work[:, :3], columns=60, rows=2)
    assert (
        ranks.tolist() == [0, 1] and classes[1, -1] == 3 and len(edges) == 61 and edges[-1] == 100
    )


def test_work_of_a_run_is_drawn_with_its_slowest_rank(tmp_path):
    random = np.random.default_rng(1)
    runs = [
        read_run(
            write_training(
                tmp_path / f"{name}.h5",
                random,
                ranks=ranks,
                steps=300,
                work=0.1,
                sigma=1e-6,
                slow_rank=slow,
                slow=0.03,
            )
        )
        for name, ranks, slow in (("a", 2, None), ("b", 4, 2), ("c", 4, 2), ("d", 3, None))
    ]
    slow = [
        Straggler(
            run.label,
            run.rank_count,
            2 if run.rank_count == 4 else 0,
            "node2" if run.rank_count == 4 else "",
            Estimate(0.03, 0.029, 0.031) if run.rank_count == 4 else Estimate(0.0),
            0.1,
            run.rank_count == 4,
            0.5,
        )
        for run in runs
    ]
    (axes,) = work_figure.work_figure(
        runs, slow
    ).axes  # a repeat of a slow run and the others are left out
    assert (
        " ".join(axes.get_title(loc="left").split())
        == "b.h5: rank 2 on node2, 30 ms per step more than the others (95 % interval 29.0 to"
        " 31.0 ms)"
    )
    background, *classes, frame = axes.patches
    first, last = background.get_x(), background.get_x() + background.get_width()
    assert (first, last) == (2, 302) and numbers(background.get_bbox().extents) == [
        first,
        -0.5,
        last,
        3.5,
    ]
    assert (
        background.get_label() == "up to 2 % above"
        and to_hex(background.get_facecolor()) == "#eef0f3"
    )
    assert numbers((frame.get_x(), frame.get_y(), frame.get_width(), frame.get_height())) == [
        first,
        1.5,
        last - first,
        1,
    ]
    assert numbers((*axes.get_xlim(), *axes.get_ylim())) == [first, last, 3.5, -0.5]
    cells = {patch.get_label(): patch.get_path().vertices.reshape(-1, 5, 2) for patch in classes}
    assert [len(found) for found in cells.values()] == [0, 0, 0, 60, 0]
    slow_cells = cells["20 to 50 % above"]
    assert numbers(slow_cells[0][:4]) == numbers(
        [(first, 1.5), (first + 5, 1.5), (first + 5, 2.5), (first, 2.5)]
    )
    assert (
        numbers(slow_cells[1:, 0, 0]) == numbers(slow_cells[:-1, 1, 0])
        and slow_cells[-1, 1, 0] == last
    )
    assert classes[3].get_path().codes.tolist() == [1, 2, 2, 2, 79] * 60
    assert [label for _, label in ticks(axes.yaxis)] == [0, 1, 2, 3]
    fast = work_figure.work_figure(runs[:1] + runs[3:], slow[:1] + slow[3:]).axes[0]
    assert fast.get_title(loc="left").startswith("d.h5: rank 0, 0 ms") and fast.get_title(
        loc="left"
    ).endswith("significant")
    assert work_figure.work_figure([], []) is None
    idle, _, _ = work_figure.work_classes(np.zeros((4, 2)))
    assert idle.tolist() == [[0] * 4] * 2  # no work to compare
