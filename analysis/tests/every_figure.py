# SPDX-License-Identifier: BSD-3-Clause
"""Draws every figure from a chosen number of points."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from lockstep_report.figures import (
    accuracy as accuracy_figure,
    explanation as explanation_figures,
    layers as layer_figures,
    phases as phase_figure,
    profile as profile_figure,
    scaling as scaling_figure,
    telemetry as telemetry_figure,
)
from lockstep_report.figures.scaling import prediction_figure
from lockstep_report.measure.accuracy import AccuracyCurve
from lockstep_report.measure.choices import REDUCERS
from lockstep_report.measure.waiting import Split
from lockstep_report.models.causes import losses
from lockstep_report.models.fits import AlphaBeta, alpha_beta, scaling_fits
from lockstep_report.runfile.read import read_run
from planted import write_sweep
from test_figures import LONG, SHORT, point
from test_profile import write_profile
from test_telemetry import write as write_telemetry

MACHINE = (*SHORT, "AMD EPYC 9654", "lockstep", "4 threads per rank")
LAYERS = "conv2d:3x3@64x128x56x56 relu batch-norm"


def scaled(ranks, batch=32, **options):
    """A point of a scaling study with 95 % parallel work."""
    return point(ranks, batch, 100 * (0.05 + 0.95 / ranks), **options)


def runs_of(count, **options):
    return [scaled(n, **options) for n in range(1, count + 1)]


def phases(count, folder):
    return phase_figure.phase_bars(
        runs_of(count, setting=LONG, notes=("scaled from 3 of 8 steps",))
    )


def weak(count, folder):
    found = runs_of(count + 1)
    return scaling_figure.scaling(
        found,
        scaling_figure.weak_series(found),
        "Scaling at fixed batch per rank",
        "Weak efficiency t(1)/t(N)",
    )


def many_batches(count, folder):
    found = [scaled(n, 8 * (batch + 1)) for batch in range(count) for n in (1, 2)]
    return scaling_figure.scaling(
        found,
        scaling_figure.weak_series(found),
        "Scaling at fixed batch per rank",
        "Weak efficiency t(1)/t(N)",
    )


def waiting(count, folder):
    split = Split((0.5,) * count, (1.5,) * count, (1 / count,) * count, 1e-6)
    return phase_figure.waiting_bars([point(count, 32, 2.0, split=split)])


def waiting_panels(count, folder):
    split = Split((0.5, 0.1), (1.5, 1.5), (0.5, 0.5), 1e-6)
    return phase_figure.waiting_bars(
        [point(2, 8 * (n + 1), 2.0, split=split) for n in range(count)]
    )


def reducers(count, folder):
    return phase_figure.reducer_bars(
        [
            point(
                2 + n // 5,
                32,
                1.0 + n,
                reducer=REDUCERS[n % len(REDUCERS)],
                sent_bytes=1e6 * n or None,
            )
            for n in range(count)
        ]
    )


def ladder(count, folder):
    points = [
        {
            "batch_per_rank": 8 * (n + 1),
            "status": "complete",
            "epoch_seconds": 1234.5 / (n + 1),
            "images_per_second": 12345.6 * (n + 1),
        }
        for n in range(count)
    ]
    for point_without_memory in points[39:]:
        point_without_memory.update(status="out of memory", epoch_seconds=None)
    return layer_figures.ladder(points, "Batch ladder: " + ", ".join(LONG))


def threads(count, folder):
    times = dict.fromkeys(
        ("forward", "backward", "update", "upload", "data_wait", "exposed_communication"), 1.0
    )
    return scaling_figure.thread_figure(
        [
            replace(
                point(1, 32, 10.0 / n, threads=n, processors=16, setting=MACHINE),
                phase_seconds=dict.fromkeys(times, 1.0 / n),
            )
            for n in range(1, count + 1)
        ]
    )


def learning(count, folder, monkeypatch):
    epochs = max(2, count)
    curves = [
        AccuracyCurve(
            "cifar10",
            "resnet18-cifar",
            32 << n,
            1 << n,
            "lr 0.1, lr-schedule cosine",
            np.arange(1, epochs + 1),
            10,
            np.tile(np.linspace(0.1, 0.9, epochs), (3, 1)),
            np.tile(np.arange(1.0, epochs + 1) * 100, (3, 1)),
            np.ones(3),
            ("a", "b", "c"),
        )
        for n in range(min(count, 7))
    ]
    monkeypatch.setattr(accuracy_figure, "accuracy_curves", lambda runs: curves)
    return accuracy_figure.accuracy_figure([])


def sweep(count, folder):
    sizes = np.unique(np.geomspace(4, 2**28, count).astype(int))
    run = read_run(write_sweep(folder / "sweep.h5", np.random.default_rng(1), 4, 1e-4, 1e-9, sizes))
    return explanation_figures.sweep_figure([run], 10.0)


def sweeps(count, folder):
    runs = [
        read_run(
            write_sweep(
                folder / f"a-sweep-on-node-{n}.h5",
                np.random.default_rng(1),
                2 + n,
                1e-4,
                1e-9,
                [1024, 2**16, 2**24],
            )
        )
        for n in range(min(count, 7))
    ]
    return explanation_figures.sweep_figure(runs)


def alpha_beta_lines(count, folder):
    sizes = np.repeat(np.geomspace(1024, 2**26, max(3, count)), 5)
    seconds = (1e-4 + 1e-9 * sizes) * (
        1 + 0.01 * np.random.default_rng(1).standard_normal(len(sizes))
    )
    found = [
        AlphaBeta(
            f"{name} (Open MPI 4.1.4)",
            "sweep",
            2 << i,
            1 + i,
            ("a.h5",),
            sizes,
            seconds,
            *alpha_beta(sizes, seconds),
        )
        for i in range(min(count, 7))
        for name in ("ring", "tree")
    ]
    return explanation_figures.all_reduce_lines(found)


def causes(count, folder):
    return explanation_figures.cause_bars(losses(runs_of(count + 1)))


def laws(count, folder):
    found = [
        scaled(n, 8 * (batch + 1))
        for batch in range(min(count, 7))
        for n in range(1, 3 + max(2, count))
    ]
    return explanation_figures.law_curves(scaling_fits(found))


def layers(count, folder):
    rows = [
        {
            "layer": f"{LAYERS} {n}",
            "pass": name,
            "median_ms": 1.23456 * n,
            "copy_percent": 10.0 * n,
            "product_percent": 7.0,
        }
        for n in range(count)
        for name in ("forward", "backward")
    ]
    return layer_figures.layer_figure(rows, "Single layers: " + ", ".join(LONG))


def stacks(count, folder):
    rows = [
        {
            "layer": f"linear:{n}-8@2",
            "devices": 1 + n % 4,
            "status": "fits",
            "depth": 1234 + n,
            "estimated_depth": 1200,
        }
        for n in range(count)
    ]
    return layer_figures.stack_figure(rows, "Deepest stacks")


def pipelines(count, folder):
    rows = [
        {
            "source": f"run-{n}.h5",
            "stage": stage,
            "schedule": ("gpipe", "1f1b")[n % 2],
            "micro_batches": 4 + n,
            "replicas": 1 + n % 2,
            "ideal_percent": 20.0,
            "busy_percent": 70.0,
            "transfer_percent": 10.0,
            "idle_percent": 20.0,
        }
        for n in range(count)
        for stage in range(4)
    ]
    return phase_figure.pipeline_figure(SimpleNamespace(rows=rows))


def profile(count, folder):
    return profile_figure.profile_figure(read_run(write_profile(folder / "run.h5")))


def telemetry(count, folder):
    (figure,) = telemetry_figure.telemetry_figures(
        [read_run(write_telemetry(folder / "run.h5"))]
    ).values()
    return figure


def prediction(count, folder):
    basis = SimpleNamespace(setting=SHORT, batch=32, reducer="overlap")
    network = SimpleNamespace(label="ring (NCCL)", name="InfiniBand NDR, 400 Gbit/s")
    warning = (
        "the measured step (run.h5: 51.20 ms) is outside of the predicted interval, which is 28 %"
        " too long: the model or the network does not describe these runs"
    )
    rows = [
        SimpleNamespace(
            measured=0.1 if n < 3 else None,
            is_strong=False,
            warnings=[warning][n:],
            predicted=SimpleNamespace(
                basis=basis, network=network, ranks=n + 1, step=(0.1, 0.09, 0.12)
            ),
        )
        for n in range(count)
    ]
    return prediction_figure(rows)


FIGURES = (
    phases,
    weak,
    many_batches,
    waiting,
    waiting_panels,
    reducers,
    ladder,
    threads,
    learning,
    sweep,
    sweeps,
    alpha_beta_lines,
    causes,
    laws,
    layers,
    stacks,
    pipelines,
    profile,
    telemetry,
    prediction,
)


def drawn(make, count, folder, monkeypatch):
    return make(count, folder, monkeypatch) if make is learning else make(count, folder)
