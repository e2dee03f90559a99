# SPDX-License-Identifier: BSD-3-Clause
"""Tests the numbers that sweeps, fits, predictions and roofline bounds show."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from drawn import lines, numbers, ticks, values
from lockstep_report.figures import profile as profile_figure
from lockstep_report.figures.explanation import (
    all_reduce_lines,
    law_curves,
    sweep_figure,
    sweep_notes,
)
from lockstep_report.figures.layout import size_text
from lockstep_report.figures.scaling import prediction_figure
from lockstep_report.models.fits import AlphaBeta, alpha_beta, scaling_fits
from lockstep_report.runfile.read import read_run
from planted import write_sweep
from test_figures import SHORT, point
from test_profile import write_profile


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
    drawn = lines(axes)
    _, sizes, seconds = drawn[0]
    assert (sizes[0], sizes[-1], seconds[0], seconds[-1]) == (1000, 4000, 0.5, 3.5)
    _, sizes, seconds = drawn[1]  # up to four times the largest size of both
    assert (sizes[0], sizes[-1], seconds[-1]) == (4000, 64000, 63.5)
    _, sizes, seconds = drawn[2]  # the times are negative below 500 bytes
    assert 500 < sizes[0] < 530 and sizes[-1] == 1000 and seconds[0] > 0
    assert drawn[3] == ("ring", [1000, 2000, 4000], [0.5, 1.5, 3.5])
    assert drawn[6][1][0] == 250 and [line.get_linestyle() for line in axes.lines[:4]] == [
        "-",
        "--",
        "--",
        "None",
    ]
    assert values(axes)[0] == "ring, 1000 B: 0.5 ms"
    assert axes.get_title(loc="left") == "sweep, 4 ranks"


def test_laws_are_dashed_up_to_four_times_the_ranks():
    # 2 + 8/N.
    strong = [point(n, 64 // n, seconds) for n, seconds in ((1, 10.0), (2, 6.0), (4, 4.0))]
    weak = [
        replace(point(n, 32, seconds), steps=1) for n, seconds in ((1, 10.0), (2, 12.5), (4, 15.0))
    ]
    laws = scaling_fits(strong)[:1]
    (axes,) = law_curves(laws).axes
    ideal, *of_law = lines(axes)
    inside, beyond, measured = of_law
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
