# SPDX-License-Identifier: BSD-3-Clause
"""Checks that predicted intervals contain the mean step."""

from functools import cache, partial

import numpy as np
from checks import PREDICTED, Check
from lockstep_report.models.prediction.basis import Basis
from lockstep_report.models.prediction.predict import predict
from predictions import ring_network
from systems import deviations

SPREADS = ("normal", "skewed", "AR(1) 0.6")


def work_of(random, kind, steps, ranks):
    scale = 0.1 if kind == "skewed" else 0.05
    return 0.05 * (
        1 + scale * deviations(random, {"normal": "independent"}.get(kind, kind), steps, ranks)
    )


@cache
def mean_maximum(kind, ranks):
    """Returns the mean of the longest work of `ranks` ranks in a step."""
    random = np.random.default_rng(3)
    return np.mean([work_of(random, kind, 500, ranks).max(axis=1).mean() for _ in range(40)])


def predicted_step(random, kind, ranks, measured):
    """Returns whether the predicted interval covers the mean step, from 10 pairs per predicted
    rank, or 40 correlated ones."""
    steps = 10 * ranks // measured * (4 if kind.startswith("AR") else 1)
    work = work_of(random, kind, steps, measured)
    zero = np.zeros_like(work)
    basis = Basis(
        "a",
        None,
        32,
        "allreduce",
        "MPI",
        "ring",
        work[:, :, None],
        zero,
        work,
        zero + 1e-3,
        np.array([1e3]),
        False,
        0.0,
    )
    found = predict(basis, ring_network(1e-9, 1e-12), ranks, seed=int(random.integers(1 << 30)))
    return found.step[1] <= mean_maximum(kind, ranks) + 1e-3 <= found.step[2]


def prediction_checks():
    for kind in SPREADS:
        for ranks, measured in ((8, 2), (64, 1), (64, 4)):
            truth = f"{ranks} ranks from {measured}, {kind}, 10 independent pairs per rank"
            simulate = partial(predicted_step, kind=kind, ranks=ranks, measured=measured)
            yield Check("Predicted step", truth, PREDICTED, simulate, 40)


CHECKS = list(prediction_checks())
