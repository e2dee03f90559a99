# SPDX-License-Identifier: BSD-3-Clause
"""Converts weights with lockstep-weights, and starts the program."""

import os
import subprocess

import numpy as np
import pytest
from lockstep_weights.cli import main
from lockstep_weights.networks import NETWORKS

NEEDS_PYTORCH = pytest.mark.requires("PYTORCH")
LARGE = ("vgg16-imagenet",)  # 553 MB


def networks(names=NETWORKS):
    return [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in names]


def lockstep(*arguments):
    """Runs the program on the CPU with one thread and returns its output."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("LOCKSTEP_")
    }
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = subprocess.run(
        [os.environ["LOCKSTEP_BIN"], *map(str, arguments), "--threads=1"],
        env=environment | variables,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def convert(*arguments):
    return main([str(argument) for argument in arguments])


def random_state(name, classes=10, seed=1):
    """Returns a state of the network with values that a trained network could have, and in which no
    two tensors are equal."""
    random, state = np.random.default_rng(seed), {}
    for tensor, shape in NETWORKS[name].tensors(3, classes).items():
        values = random.standard_normal(shape, np.float32)
        if len(shape) > 1:
            values *= np.float32(np.sqrt(2 / np.prod(shape[1:])))
        elif tensor.endswith(("running_var", "weight")):
            values = 1 + np.abs(values) / 4
        state[tensor] = values
    return state


def with_prefix(prefix, state):
    return {f"{prefix}{name}": array for name, array in state.items()}
