# SPDX-License-Identifier: BSD-3-Clause
"""Tests the fits of Amdahl's and Gustafson's laws."""

import csv

import numpy as np
import pytest
from lockstep_report.cli import main
from lockstep_report.figures.explanation import law_curves
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_run
from lockstep_report.models.fits import AMDAHL, GUSTAFSON, fit_law, scaling_fits
from lockstep_report.runfile.input_files import load_runs
from planted import check_coverage, noise
from synthetic import phases, write_run

RANKS = np.array([1, 2, 4, 8])


def test_amdahl_of_exact_times():
    """T(1) = 10 s, s = 0.2: 10, 6, 4, 3 s."""
    _, serial = fit_law(AMDAHL, RANKS, [10.0, 6.0, 4.0, 3.0])
    assert (serial.value, serial.low, serial.high) == pytest.approx((0.2, 0.2, 0.2))


def test_gustafson_of_exact_times():
    """s = 0.2: N t(1)/t(N) = N - 0.2 (N-1) = 1, 1.8, 3.4, 6.6 with t(1) = 1 s."""
    seconds = RANKS / np.array([1, 1.8, 3.4, 6.6])
    _, serial = fit_law(GUSTAFSON, RANKS, seconds)
    assert (serial.value, serial.low, serial.high) == pytest.approx((0.2, 0.2, 0.2))


@pytest.mark.parametrize("law", [AMDAHL, GUSTAFSON])
def test_repeats_of_one_session_do_not_narrow_the_interval(law):
    """Ideal scaling, and the session of the runs on 4 ranks was 4 % slower."""
    random = np.random.default_rng(1)
    ranks = np.repeat(RANKS, 20)
    seconds = np.where(ranks == 4, 1.04, 1.0) * noise(random, 0.002, len(ranks))
    _, serial = fit_law(law, ranks, seconds / (ranks if law == AMDAHL else 1))
    assert serial.contains(0)


@pytest.mark.parametrize("serial, note", [(0.0, "not distinguishable from 0"), (-0.1, "below 0")])
def test_a_fraction_that_is_not_above_0_is_named(tmp_path, serial, note):
    paths = write_runs(tmp_path, np.random.default_rng(8), GUSTAFSON, serial, sigma=0.001)
    (found,) = fit_files(paths, GUSTAFSON)
    assert any(text.startswith(note) for text in found.notes)
    assert found.limit is None


def test_equal_rank_counts_determine_nothing():
    assert fit_law(AMDAHL, [2, 2, 2], [1.0, 1.1, 1.2]) is None


def steps_of(random, steps, ranks, seconds, sigma):
    """Returns phases (step, rank, phase) whose steps take `seconds`. The noise is common to the
    steps of a run."""
    phases = np.zeros((steps, ranks, 6))
    phases[:, :, 3] = seconds * noise(random, sigma)
    return phases


def write_runs(folder, random, law, serial, sigma=0.01, repeats=2, ranks=(1, 2, 4, 8)):
    """Writes runs with a planted serial fraction; a step of one rank takes 0.1 s."""
    paths = []
    for count in ranks:
        if law == AMDAHL:
            batch, steps, seconds = 32 // count, 8, 0.1 * (serial + (1 - serial) / count)
        else:
            batch, steps, seconds = 32, 8 // count, 0.1 * count / (count - serial * (count - 1))
        for repeat in range(repeats):
            paths.append(
                write_run(
                    folder / f"{law}-{count}-{repeat}.h5",
                    steps_of(random, steps, count, seconds, sigma),
                    batch * count,
                    batch=batch,
                    config={"train-samples": "256"},
                    attributes={"part": 1, "steps_per_epoch": steps, "images_per_epoch": 256},
                )
            )
    return paths


def fit_files(paths, law):
    points = merge_repeats([from_run(run) for run in load_runs(paths).runs])
    return [found for found in scaling_fits(points) if found.law == law]


@pytest.mark.parametrize(
    "law, serial", [pytest.param(AMDAHL, 0.15, marks=pytest.mark.slow), (GUSTAFSON, 0.1)]
)
def test_planted_serial_fraction_is_recovered_from_run_files(tmp_path, law, serial):
    random = np.random.default_rng(2)
    repeats, hits = 20, 0
    for _ in range(repeats):
        (found,) = fit_files(write_runs(tmp_path, random, law, serial), law)
        hits += found.serial.contains(serial)
    check_coverage(hits, repeats, exact=False)


def test_degrees_of_freedom_are_those_of_the_rank_counts(tmp_path):
    (found,) = fit_files(write_runs(tmp_path, np.random.default_rng(3), AMDAHL, 0.2), AMDAHL)
    assert found.ranks.tolist() == [1, 1, 2, 2, 4, 4, 8, 8]
    assert found.fit.dof == 2
    assert found.limit == pytest.approx(1 / found.serial.value)
    assert np.abs(found.residuals).max() < 0.05


@pytest.mark.parametrize("law", [AMDAHL, GUSTAFSON])
def test_two_rank_counts_have_no_fit_but_a_reason(tmp_path, law):
    """Every law agrees with two points; repeats of each do not change that."""
    paths = write_runs(tmp_path, np.random.default_rng(4), law, 0.2, repeats=6, ranks=(1, 2))
    assert main(["tables", *map(str, paths), "--out", str(tmp_path / "out")]) == 0
    with open(tmp_path / "out" / "scaling-laws.csv") as file:
        (row,) = [row for row in csv.DictReader(file) if row["law"] == law]
    assert row["remarks"].startswith("no fit: ") and row["runs"] == "12"
    assert not (row["serial_percent"] or row["limit"] or row["residual_percent"])
    assert law_curves(fit_files(paths, law)) is None


def test_a_law_that_does_not_describe_the_times_is_marked(tmp_path):
    paths = []
    for ranks, seconds in ((1, 0.1), (2, 0.8), (4, 0.2)):
        paths += write_runs(tmp_path, np.random.default_rng(5), AMDAHL, 0.2, 0, 1, (ranks,))
        phases = np.zeros((8, ranks, 6))
        phases[:, :, 3] = seconds
        write_run(
            paths[-1],
            phases,
            32,
            batch=32 // ranks,
            config={"train-samples": "256"},
            attributes={"part": 1, "steps_per_epoch": 8, "images_per_epoch": 256},
        )
    (found,) = fit_files(paths, AMDAHL)
    assert any("does not describe" in note for note in found.notes)


def test_one_rank_count_has_no_fit(tmp_path):
    paths = write_runs(tmp_path, np.random.default_rng(6), AMDAHL, 0.2, ranks=(1,))
    assert fit_files(paths, AMDAHL) == []


def test_two_series_of_equal_batches_have_a_fit_each(tmp_path):
    """Both scale perfectly; Winograd's algorithm takes half the time."""
    paths = []
    for name, seconds in (("direct", 0.4), ("winograd", 0.2)):
        for ranks in (1, 2, 4):
            paths.append(
                write_run(
                    tmp_path / f"{name}-{ranks}.h5",
                    phases(8, *[(0, 0, seconds / ranks, 0, 0, 0)] * ranks),
                    32,
                    epochs=2,
                    batch=32 // ranks,
                    config={"conv-algorithm": name},
                )
            )
    fits = scaling_fits(merge_repeats([from_run(run) for run in load_runs(paths).runs]))
    amdahl_fits = [fit for fit in fits if fit.law == AMDAHL]
    assert [fit.points[-1].mode for fit in amdahl_fits] == [
        f"overlap (conv-algorithm {name})" for name in ("direct", "winograd")
    ]
    assert all(
        abs(fit.residuals).max() < 1e-9 and abs(fit.serial.value) < 1e-9 for fit in amdahl_fits
    )
