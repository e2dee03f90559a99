# SPDX-License-Identifier: BSD-3-Clause
"""Tests predictions of the step time."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from lockstep_report.errors import USAGE, ReportError
from lockstep_report.measure.points import point_of
from lockstep_report.models.prediction.basis import basis_of, best_bases, with_bucket_bytes
from lockstep_report.models.prediction.predict import predict, spread_of
from lockstep_report.models.prediction.sweep_fit import network_of_sweeps
from lockstep_report.runfile.read import read_run
from lockstep_report.tables.prediction import prediction_table, prediction_values
from planted import check_coverage, write_sweep, write_training
from predictions import predicted, ring_network, trained
from synthetic import dataset, write_run

MEASURED = json.loads(
    Path(__file__).with_name("data").joinpath("emulated-hosts.json").read_text(encoding="utf-8")
)
SIZES = (4e6, 2e6, 1e6)


def basis_in(path):
    run = read_run(path)
    return basis_of(run, point_of(run))


def test_a_basis_has_the_measured_times(tmp_path):
    basis = basis_in(write_training(tmp_path / "a.h5", np.random.default_rng(1), sigma=0, steps=4))
    assert basis.ready[0, 0] == pytest.approx(0.05 * (0.3 + 0.7 * np.array([1, 2, 3]) / 3))
    assert basis.backward_end == pytest.approx(np.full((4, 4), 0.05))
    assert basis.update == pytest.approx(np.full((4, 4), 0.002))
    assert (basis.batch, basis.ranks, basis.library) == (32, 4, "MPI")


def test_equal_ranks_by_hand(tmp_path):
    """Ring of 2 without latency: 7 MB, 1 ns per byte. Buckets final at 26.67, 38.33 and 50 ms take
    4, 2 and 1 ms: the step ends at 50 + 1 + 2 ms."""
    basis = basis_in(write_training(tmp_path / "a.h5", np.random.default_rng(1), sigma=0))
    found = predict(basis, ring_network(0), 2)
    assert found.step == pytest.approx([0.053] * 3)
    assert found.all_reduce == pytest.approx([0.007] * 3)
    assert found.straggler == pytest.approx([0] * 3, abs=1e-12)


def test_the_interval_contains_the_ranges_of_the_network(tmp_path):
    """8 ranks: 14 messages of 1 ms ± 20 % for each bucket: 3 · 14 ms ± 20 % in 95 % of the draws of
    a uniform distribution: ± 19 %."""
    basis = basis_in(write_training(tmp_path / "a.h5", np.random.default_rng(1), sigma=0))
    _, low, high = predict(basis, ring_network(1e-3, 0.0, 0.2), 8).all_reduce
    assert 0.042 * 0.80 < low < 0.042 * 0.83
    assert 0.042 * 1.17 < high < 0.042 * 1.20


def test_spread_of_ranks_is_not_biased():
    """The deviations from the mean of few ranks have the variance of independent ranks."""
    random = np.random.default_rng(2)
    for ranks in (2, 3, 8):
        _, deviations = spread_of(random.standard_normal((4000, ranks, 1)))
        assert deviations.std() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("reducer", ["overlap", "allreduce"])
@pytest.mark.parametrize("sigma", [0.02, 0.1])
def test_left_out_rank_counts_of_planted_runs_are_predicted(tmp_path, reducer, sigma):
    """The basis has 4 ranks; 16 ranks are measured in another run of the same process, with the
    ring of the network. 2 % is three times the standard error of a mean of 80 steps at the larger
    noise."""
    alpha, beta = 1e-4, 2e-9
    factor = {n: (2 * (n - 1) * alpha, 2 * (n - 1) / n * beta) for n in (4, 16)}
    random = np.random.default_rng(3)
    options = {"sizes": SIZES, "sigma": sigma, "reducer": reducer, "steps": 80}
    paths = {
        n: write_training(tmp_path / f"{n}.h5", random, ranks=n, alpha=a, beta=b, **options)
        for n, (a, b) in factor.items()
    }
    found = predict(basis_in(paths[4]), ring_network(alpha, beta), 16)
    measured = basis_in(paths[16]).measured_step
    assert found.step[0] == pytest.approx(measured, rel=0.02)
    exposed = read_run(paths[16]).phase_seconds[1:, :, 4].mean()
    assert found.exposed[0] == pytest.approx(exposed, rel=0.1)


def test_planted_mean_is_within_the_interval(tmp_path):
    """The mean step of the process, from a run of 1,000 steps, is in the interval that follows from
    20 steps in 95 % of the repeats. The interval has the steps of one run, which draws of a
    finite sample make a little too narrow: the test permits 90 %."""
    random = np.random.default_rng(4)
    options = {"alpha": 1e-4, "beta": 1e-9, "ranks": 4, "reducer": "allreduce"}
    true = basis_in(write_training(tmp_path / "long.h5", random, steps=1000, **options))
    net = ring_network(1e-4 / 6, 1e-9 / 1.5)
    repeats, hits = 30, 0
    for _ in range(repeats):
        found = predict(
            basis_in(write_training(tmp_path / "short.h5", random, steps=20, **options)), net, 4
        )
        hits += found.step[1] <= true.measured_step <= found.step[2]
    check_coverage(hits, repeats, 0.9, exact=False)


def test_the_same_seed_gives_the_same_prediction(tmp_path):
    basis = basis_in(write_training(tmp_path / "a.h5", np.random.default_rng(1)))
    net = ring_network(spread=0.5)
    assert predict(basis, net, 64) == predict(basis, net, 64)
    assert predict(basis, net, 64, seed=2).step != predict(basis, net, 64).step


def test_more_ranks_have_a_slower_last_rank(tmp_path):
    basis = basis_in(write_training(tmp_path / "a.h5", np.random.default_rng(1), sigma=0.1))
    excess = [predict(basis, ring_network(), n).straggler[0] for n in (2, 8, 64, 4096)]
    assert excess == sorted(excess)
    assert not predict(basis, ring_network(), 16).is_tail_extrapolated  # 40 steps x 4 ranks
    assert predict(basis, ring_network(), 17).is_tail_extrapolated


def test_other_buckets_are_interpolated(tmp_path):
    """Buckets of 4, 2 and 1 MB are final at 1/3, 2/3 and 1 of the backward pass, which begins at
    15 ms and takes 35 ms. Buckets of 3 MB end at 3 MB (1/4 of the pass), 6 MB (2/3) and 7 MB."""
    basis = basis_in(write_training(tmp_path / "a.h5", np.random.default_rng(1), sigma=0))
    made = with_bucket_bytes(basis, 3e6)
    assert made.sizes == pytest.approx([3e6, 3e6, 1e6])
    assert made.ready[0, 0] == pytest.approx(0.015 + 0.035 * np.array([0.25, 2 / 3, 1]))
    whole = with_bucket_bytes(basis, 1e9)
    assert whole.sizes.tolist() == [7e6]
    assert whole.ready[0, 0] == pytest.approx([0.05])


def test_the_basis_is_the_run_with_the_most_ranks(tmp_path):
    random = np.random.default_rng(5)
    runs = [read_run(write_training(tmp_path / f"{n}.h5", random, ranks=n)) for n in (4, 2)]
    (basis,) = best_bases(trained(runs))
    assert basis.ranks == 4


@pytest.mark.parametrize("options", [{"sizes": ()}, {"reducer": "none"}])
def test_runs_without_buckets_are_no_basis(tmp_path, options):
    path = write_training(tmp_path / "a.h5", np.random.default_rng(1), **options)
    with pytest.raises(ReportError, match="nor one with a profile"):
        predicted([read_run(path)], ring_network(), [8])


def test_steps_with_nccl_and_networks_of_mpi_are_named(tmp_path):
    path = write_training(
        tmp_path / "a.h5",
        np.random.default_rng(1),
        environment={"all_reduce": "NCCL 2.19", "transport": "NCCL 2.19"},
    )
    table = prediction_table(predicted([read_run(path)], ring_network(), [8]))
    assert table.rows[0]["model"] == "MPI ring (predicted)"
    assert any(
        "measured with NCCL, the all-reduce is modelled for MPI" in n for n in table.footnotes
    )
    assert any("upper bounds" in n for n in table.footnotes)


def strong_runs(tmp_path):
    """Batch 8 and 32 per rank on 4 ranks: the work is 20 ms and 50 ms, so 30 ms at batch 16."""
    random = np.random.default_rng(8)
    return [
        read_run(
            write_training(
                tmp_path / f"{batch}.h5", random, sigma=0, work=work, images=640, batch=batch
            )
        )
        for batch, work in ((8, 0.02), (32, 0.05))
    ]


def test_strong_scaling_interpolates_the_work_over_the_batch(tmp_path):
    """Ring without latency, buckets of 4, 2 and 1 MB, 2(N-1)/N ns per byte. On 4 ranks with batch
    16: final at 16, 23 and 30 ms; 6, 3 and 1.5 ms: until 31.5 ms, and 2 ms of update."""
    rows = predicted(strong_runs(tmp_path), ring_network(0), [2, 4, 8], global_batch=64)
    assert [row.predicted.basis.batch for row in rows] == [32, 16, 8]
    assert rows[1].predicted.step[0] == pytest.approx(0.0335)
    assert "interpolated between batch 8" in rows[1].predicted.basis.notes[-1]
    assert [row.efficiency for row in rows] == [None] * 3  # no 1-rank run at batch 64
    assert [row.source for row in rows] == [""] * 3
    assert "fixed global batch" in prediction_table(rows).title


@pytest.mark.parametrize("batch, ranks", [(64, 16), (64, 1), (64, 3)])
def test_batches_that_were_not_measured_are_refused(tmp_path, batch, ranks):
    with pytest.raises(ReportError, match="the runs measured batch 8, 32") as error:
        predicted(strong_runs(tmp_path), ring_network(), [ranks], global_batch=batch)
    assert error.value.status == USAGE


def test_strong_efficiency_by_hand(tmp_path):
    """One rank at batch 64: 102 ms. On 4 ranks 33.5 ms: 102 / (4 · 33.5) = 0.761."""
    alone = write_training(
        tmp_path / "1.h5",
        np.random.default_rng(9),
        ranks=1,
        sigma=0,
        sizes=(),
        work=0.1,
        images=640,
        batch=64,
    )
    rows = predicted(
        [*strong_runs(tmp_path), read_run(alone)], ring_network(0), [4], global_batch=64
    )
    assert rows[0].efficiency[0] == pytest.approx(0.102 / (4 * 0.0335))


def sweep_runs(tmp_path, beta=1e-9, ranks=(2, 4), **options):
    random = np.random.default_rng(6)
    return [
        read_run(
            write_sweep(
                tmp_path / f"sweep-{n}.h5",
                random,
                n,
                2 * (n - 1) * 1e-5,
                2 * (n - 1) / n * beta,
                4096 * 4 ** np.arange(6),
                **options,
            )
        )
        for n in ranks
    ]


def test_sweeps_on_several_rank_counts_give_the_parameters_of_a_link(tmp_path):
    net = network_of_sweeps(sweep_runs(tmp_path), "ring")
    (level,) = net.levels
    assert level.alpha.low <= 1e-5 <= level.alpha.high
    assert level.beta.low <= 1e-9 <= level.beta.high
    assert net.label == "MPI ring"


def test_exact_sweeps_have_no_spread(tmp_path):
    net = network_of_sweeps(sweep_runs(tmp_path, sigma=0), "ring")
    ((alpha, beta),) = net.draw(np.random.default_rng(1), 5)
    assert alpha == pytest.approx(np.full(5, 1e-5))
    assert beta == pytest.approx(np.full(5, 1e-9))


def test_sweeps_that_determine_nothing_are_refused(tmp_path):
    with pytest.raises(ReportError, match="fewer than 3 measured sizes"):
        network_of_sweeps(sweep_runs(tmp_path), "direct")
    with pytest.raises(ReportError, match="no model to fit"):
        network_of_sweeps(sweep_runs(tmp_path), "gather-scatter")
    with pytest.raises(ReportError, match="several ranks on several hosts"):
        network_of_sweeps(sweep_runs(tmp_path, ranks=(4,), hosts=["a", "a", "b", "b"]), "ring")
    with pytest.raises(ReportError, match="not distinguishable from 0"):
        network_of_sweeps(sweep_runs(tmp_path, beta=1e-16), "ring")


def write_measured(folder, run):
    """Writes a run of the measured data."""
    path = folder / f"{run['reducer']}-{run['ranks']}.h5"
    steps = len(run["phase_seconds"])
    write_run(
        path,
        run["phase_seconds"],
        2 * run["ranks"],
        batch=2,
        reducer=run["reducer"],
        bucket_bytes=run["bucket_bytes"],
        bucket_start=np.array(run["bucket_start"]),
        bucket_end=np.array(run["bucket_end"]),
        epoch_of_step=np.ones(steps, dtype=int),
        attributes={"part": 1, "steps_per_epoch": run["steps_per_epoch"], "images_per_epoch": 192},
        config={"train-samples": "192"},
        environment={"all_reduce": "ring", "transport": "Open MPI v4.1.4"},
        ranks_of={"hostname": [f"host{i}" for i in range(run["ranks"])]},
    )
    with h5py.File(path, "r+") as file:
        dataset(file, "/clock_reading", ["begin", "end"])
        dataset(file, "/steps/start_seconds", np.array(run["start_seconds"]))
        for name in ("offset", "error"):
            dataset(file, f"/epochs/clock_{name}_seconds", run[f"clock_{name}_seconds"])
    return path


def write_measured_sweep(folder, sweep):
    path = folder / f"sweep-{sweep['ranks']}.h5"
    write_sweep(
        path,
        np.random.default_rng(1),
        sweep["ranks"],
        1.0,
        0.0,
        sweep["bytes"],
        repeats=len(sweep["seconds"][0]),
    )
    with h5py.File(path, "r+") as file:
        file["allreduce/seconds"][...] = sweep["seconds"]
    return path


@pytest.mark.parametrize("reducer", ["overlap", "allreduce"])
@pytest.mark.parametrize("basis_ranks", [2, 3])
def test_measured_runs_that_were_left_out_are_predicted(tmp_path, reducer, basis_ranks):
    """Emulated hosts (data/README.md). The steps on 4 hosts are neither part of the basis nor of
    the fit of the network, which uses the sweeps on 2 and 3 hosts."""
    runs = {
        run["ranks"]: write_measured(tmp_path, run)
        for run in MEASURED["training"]
        if run["reducer"] == reducer
    }
    sweeps = [
        read_run(write_measured_sweep(tmp_path, sweep))
        for sweep in MEASURED["sweeps"]
        if sweep["ranks"] < 4
    ]
    found = predict(basis_in(runs[basis_ranks]), network_of_sweeps(sweeps, "ring"), 4)
    measured = basis_in(runs[4]).measured_step
    assert found.step[1] <= measured <= found.step[2]
    assert found.step[0] == pytest.approx(measured, rel=0.10)
    assert found.step[2] - found.step[1] < 0.4 * measured


def measured_on_two(tmp_path, work, alone=0.05):
    """Returns the rows of 2 and 64 ranks: 2 ranks were measured with `work` seconds per step, 1
    rank with `alone`."""
    random = np.random.default_rng(3)
    one = write_training(
        tmp_path / "1.h5", random, ranks=1, sizes=(), reducer="none", work=alone, sigma=0.001
    )
    two = write_training(
        tmp_path / "2.h5", random, ranks=2, work=work, sigma=0.001, alpha=0.0, beta=1e-12
    )
    return predicted([read_run(one), read_run(two)], ring_network(0.0, 1e-12), [2, 64])


def test_an_efficiency_above_one_is_marked_in_every_output(tmp_path):
    rows = measured_on_two(tmp_path, 0.04)
    assert all(row.efficiency[0] > 1 for row in rows)
    (letter,) = {row["warnings"] for row in prediction_table(rows).rows}
    (note,) = (n for n in prediction_table(rows).footnotes if n.startswith(f"({letter}) "))
    assert "an efficiency above 1 is no speedup: the step on 1 rank (1.h5: 5" in note
    assert all("above 1" in one["warnings"][0] for one in prediction_values(rows)["predicted"])
    assert not measured_on_two(tmp_path, 0.05)[1].warnings


def test_a_measured_step_outside_of_the_interval_is_a_warning(tmp_path):
    """The network of the prediction takes 11 ms for an all-reduce that took nothing."""
    random = np.random.default_rng(3)
    path = write_training(tmp_path / "2.h5", random, ranks=2, sigma=0.001, alpha=0.0, beta=1e-12)
    two, four = predicted([read_run(path)], ring_network(5e-3, 1e-12), [2, 4])
    assert two.error > 0.15 and not two.predicted.step[1] <= two.measured <= two.predicted.step[2]
    (text,) = two.warnings
    assert text.startswith("the measured step (2.h5: ") and f"{two.error:.0%} too long" in text
    assert not four.warnings  # not measured
    table = prediction_table([two, four])
    assert [row["warnings"] for row in table.rows] == ["a", None]
    assert any(note == f"(a) {text}" for note in table.footnotes)
    (good,) = predicted([read_run(path)], ring_network(0.0, 1e-12), [2])
    assert not good.warnings
