# SPDX-License-Identifier: BSD-3-Clause
"""Folders of imports, and fixtures of the tests that need PyTorch."""

import pathlib
import sys
from collections import OrderedDict

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# jobs/setup --dev installs safetensors in the first folder.
sys.path += [str(ROOT / "build" / "python-packages"), str(ROOT / "analysis" / "examples")]
pytest.register_assert_rewrite("conversions")


@pytest.fixture(scope="module")
def torch():
    import torch

    torch.set_num_threads(1)
    return torch


@pytest.fixture(scope="module")
def state(torch):
    from conversions import random_state  # after register_assert_rewrite

    return OrderedDict(
        (name, torch.from_numpy(array)) for name, array in random_state("resnet18-cifar").items()
    )
