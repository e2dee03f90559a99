# SPDX-License-Identifier: BSD-3-Clause
"""Tests predictions from the profile of the operations of a step."""

from typing import NamedTuple

import h5py
import numpy as np
import pytest
from lockstep_report.models.prediction.basis import best_bases
from lockstep_report.models.prediction.predict import predict
from lockstep_report.runfile.read import read_run
from planted import write_training
from predictions import ring_network, trained
from synthetic import dataset, write_run


class Operation(NamedTuple):
    """An operation of a step. Parameters: linear 10 x 4 weights (4 FLOPs per weight and image,
    batch 8) and 4 biases; batch norm 2 x 10; convolution 9 x 5 x 10."""

    name: str
    kind: str
    phase: str
    flops: float
    seconds: float  # of the backward pass


OPERATIONS = [
    Operation("loss", "loss, 4x1x1", "backward", 0, 1e-3),
    Operation("fc", "linear, 10x1x1", "backward", 4 * 8 * 40, 2e-3),
    Operation("bn", "batch norm, add, ReLU, 10x8x8", "backward", 0, 1e-3),
    Operation("bn1", "batch norm, ReLU, 5x16x16", "recompute", 0, 1e-3),
    Operation("conv", "convolution 3x3 stride 2, 5x16x16 -> 10x8x8", "backward data", 0, 1e-3),
    Operation("conv", "convolution 3x3 stride 2, 5x16x16 -> 10x8x8", "backward weights", 0, 4e-3),
    Operation("update", "SGD with momentum", "update", 0, 5e-3),
]
PARAMETERS = 44 + 20 + 450


def write_profiled(path, parameters=PARAMETERS, ranks=1):
    """Writes a run of 4 timed steps: 10 ms forward, 20 ms backward, 5 ms update, batch 8."""
    made = np.tile([0.0, 0, 0.010, 0.020, 0, 0.005], (8, ranks, 1))
    write_run(
        path,
        made,
        8 * ranks,
        batch=8,
        epochs=2,
        reducer="overlap",
        config={"bucket-mib": str(200 / 2**20)},
    )
    add_profile(path, parameters, ranks)
    return path


def add_profile(path, parameters, ranks):
    with h5py.File(path, "r+") as file:
        count = len(OPERATIONS)
        dataset(file, "/operation", np.arange(count))
        seconds = np.array([operation.seconds for operation in OPERATIONS])
        traffic = [0.0] * (count - 1) + [20.0 * parameters]
        for name, values in {
            "name": [operation.name for operation in OPERATIONS],
            "kind": [operation.kind for operation in OPERATIONS],
            "phase": [operation.phase for operation in OPERATIONS],
            "flops": [operation.flops for operation in OPERATIONS],
            "bytes": traffic,
            "calls": np.ones(count),
            "implementation": [""] * count,
            "ceiling": ["none"] * count,
            "bound_seconds": np.zeros(count),
            "seconds": np.repeat(seconds[:, None], ranks, axis=1),
        }.items():
            dataset(file, f"/profile/{name}", np.array(values))


def test_a_profile_of_one_rank_gives_the_times_of_the_gradients(tmp_path):
    """The operations end at 1, 3, 4, 5, 6 and 10 of 10 ms, which are scaled to the backward pass of
    20 ms. Their 2,056 bytes are in buckets of 200 bytes: 176 are final after 3 ms, 256 after 4 ms,
    all after 10 ms."""
    (basis,) = best_bases(trained([read_run(write_profiled(tmp_path / "a.h5"))]))
    assert basis.sizes.sum() == 4 * PARAMETERS
    assert basis.sizes.tolist() == [200.0] * 10 + [56.0]
    assert basis.ready[0, 0] == pytest.approx([0.018] + [0.030] * 10)
    assert basis.backward_end[0, 0] == pytest.approx(0.030)
    # The update of a bucket, 0.49 ms, hides its successor's all-reduce of 0.2 ms.
    found = predict(basis, ring_network(1e-4, 0.0), 2)
    assert found.step[0] == pytest.approx(0.030 + 0.005)


def test_a_profile_without_some_parameters_is_no_basis(tmp_path):
    assert best_bases(trained([read_run(write_profiled(tmp_path / "a.h5", 2 * PARAMETERS))])) == []


def test_measured_buckets_are_preferred_to_a_profile(tmp_path):
    sizes = (4e6, 2e6, 1e6)
    path = write_training(tmp_path / "a.h5", np.random.default_rng(1), sizes=sizes, sigma=0)
    add_profile(path, PARAMETERS, 4)
    (basis,) = best_bases(trained([read_run(path)]))
    assert basis.sizes.tolist() == list(sizes)
