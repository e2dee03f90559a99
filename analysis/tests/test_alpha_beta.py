# SPDX-License-Identifier: BSD-3-Clause
"""Tests the fits of the all-reduce time."""

import numpy as np
import pytest
from lockstep_report.measure.waiting import Times, timed_run
from lockstep_report.models.fits import BUCKETS, SWEEP, alpha_beta, alpha_beta_fits, bucket_seconds
from lockstep_report.runfile.input_files import load_runs
from planted import check_coverage, write_sweep, write_training

ALPHA, BETA = 50e-6, 2e-9
SIZES = 4096 * 4 ** np.arange(6)


def fits_of(paths):
    runs = load_runs(paths).runs
    return alpha_beta_fits(runs, list(filter(None, map(timed_run, runs))))


def test_exact_times_are_recovered():
    *found, _, notes = alpha_beta(SIZES, ALPHA + BETA * SIZES)
    assert [each.value for each in found] == pytest.approx([ALPHA, BETA])
    assert notes == ()


def test_two_sizes_are_refused():
    *found, notes = alpha_beta([4, 4, 8, 8], [1.0, 1.1, 2.0, 2.1])
    assert found == [None, None, None]
    assert "cannot be separated" in notes[0]


def test_an_alpha_below_the_noise_is_marked():
    random = np.random.default_rng(1)
    sizes = np.array([10, 11, 12, 13]) * 1e6
    seconds = (1e-9 + BETA * sizes) * np.exp(0.05 * random.standard_normal(4))
    *_, notes = alpha_beta(sizes, seconds)
    assert any("alpha is not distinguishable" in note for note in notes)


def test_a_bend_is_marked():
    seconds = np.where(SIZES < 1e5, 1e-5, 1e-3) + BETA * SIZES
    assert any("does not describe all sizes" in note for note in alpha_beta(SIZES, seconds)[3])


def test_planted_parameters_of_sweeps_are_recovered(tmp_path):
    random = np.random.default_rng(2)
    repeats, hits = 100, np.zeros(2, dtype=int)
    for _ in range(repeats):
        (found,) = fits_of([write_sweep(tmp_path / "sweep.h5", random, 2, ALPHA, BETA, SIZES)])
        assert (found.origin, found.algorithm, found.ranks) == (SWEEP, "ring (MPI)", 2)
        hits += [found.alpha.contains(ALPHA), found.beta.contains(BETA)]
    for count in hits:
        check_coverage(count, repeats)


def test_planted_parameters_of_buckets_are_recovered(tmp_path):
    """Buckets of runs with different --bucket-mib are fitted together."""
    random = np.random.default_rng(3)
    alpha, beta = 2e-3, 2e-9
    repeats, hits = 50, np.zeros(2, dtype=int)
    for _ in range(repeats):
        paths = [
            write_training(
                tmp_path / f"{i}.h5",
                random,
                ranks=2,
                sizes=sizes,
                alpha=alpha,
                beta=beta,
                steps=15,
                reducer="allreduce",
            )
            for i, sizes in enumerate(((4e6, 2e6, 1e6), (8e6, 5e5)))
        ]
        (found,) = fits_of(paths)
        assert (found.origin, len(found.sizes)) == (BUCKETS, 5)
        hits += [found.alpha.contains(alpha), found.beta.contains(beta)]
    for count in hits:
        check_coverage(count, repeats, exact=False)


def test_time_of_a_bucket_begins_with_the_last_rank_or_the_end_of_the_previous_bucket():
    """Bucket 0 starts at 1 s and 3 s and ends at 5 s: 2 s. Bucket 1 has started at 4 s but waits
    for the end of bucket 0 and ends at 6 s: 1 s."""
    start = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    end = np.array([[[5.0, 6.0], [4.5, 5.5]]])
    times = Times(np.zeros((1, 2)), start, end, 0.0)
    assert bucket_seconds(times).tolist() == [[2.0, 1.0]]


def test_libraries_and_algorithms_have_separate_fits(tmp_path):
    random = np.random.default_rng(4)
    paths = [
        write_sweep(tmp_path / "a.h5", random, 2, ALPHA, BETA, SIZES),
        write_sweep(tmp_path / "b.h5", random, 2, ALPHA, BETA, SIZES, algorithm="direct"),
        write_sweep(
            tmp_path / "c.h5",
            random,
            2,
            ALPHA,
            BETA,
            SIZES,
            algorithm="NCCL 2.19",
            config={"transport": "nccl"},
        ),
        write_sweep(tmp_path / "d.h5", random, 4, ALPHA, BETA, SIZES),
    ]
    labels = [(found.algorithm, found.ranks) for found in fits_of(paths)]
    assert labels == [("direct (MPI)", 2), ("ring (MPI)", 2), ("NCCL", 2), ("ring (MPI)", 4)]


def test_repeated_sweeps_have_the_mean_of_their_fits(tmp_path):
    random = np.random.default_rng(5)
    paths = [
        write_sweep(tmp_path / f"{i}.h5", random, 2, ALPHA, factor * BETA, SIZES, sigma=1e-6)
        for i, factor in enumerate((0.9, 1.1))
    ]
    (found,) = fits_of(paths)
    assert found.sources == ("0.h5", "1.h5")
    assert found.fit.dof == 1
    assert found.beta.value == pytest.approx(BETA, rel=1e-4)
    assert found.beta.high - BETA == pytest.approx(12.706 * 0.1 * BETA, rel=1e-3)  # t(1)
    assert np.abs(found.fit.residuals).max() == pytest.approx(
        0.1 * BETA * SIZES[-1] / (ALPHA + BETA * SIZES[-1]), rel=1e-3
    )
    (one,) = fits_of(paths[:1])
    assert any("one job" in note for note in one.notes)


def test_sizes_of_several_jobs_together_have_no_interval():
    """The size of one job says nothing about the difference between the jobs."""
    *found, _, notes = alpha_beta([1e6, 2e6, 4e6], [1.1, 2.1, 4.1], ["a", "b", "c"])
    assert [each.value for each in found] == pytest.approx([0.1, 1e-6])
    assert not found[0].has_interval
    assert "no interval: a job alone" in notes[0]
