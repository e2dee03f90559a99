# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests of offline planning with the newest cuDNN that was tested (jobs/setup
--cuda-newest), as it is loaded if a Python package or a module of a cluster puts it in the search
path of a program that was built with another version.
"""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def pinned_version():
    """Returns the version in packaging/cuda-newest.txt as cudnnGetVersion() returns it: 92801 for
    9.28.1."""
    pins = (ROOT / "packaging/cuda-newest.txt").read_text(encoding="utf-8")
    major, minor, patch = map(
        int, re.search(r"^nvidia-cudnn-cu13==(\d+)\.(\d+)\.(\d+)\.", pins, re.MULTILINE).groups()
    )
    return 10000 * major + 100 * minor + patch


@pytest.mark.requires("CUDNN_NEWEST")
def test_every_graph_is_planned_with_the_newest_cudnn():
    libraries = ROOT / "build/newest/nvidia/cudnn/lib"
    assert libraries.is_dir(), "cuDNN is missing; run jobs/setup --cuda-newest"
    program = pathlib.Path(os.environ["LOCKSTEP_BUILD"], "tests/backend/cuda_plan_test")
    # Half of the time is for two models whose operations the other tests plan too.
    selected = "--gtest_filter=-*WholeModels*rtx8000_resnet18*:*WholeModels*imagenet*"
    result = subprocess.run(
        [program, "--gtest_brief=1", selected],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
    )
    assert result.returncode == 0, result.stdout[-10000:] + result.stderr[-2000:]
    assert f"planned with cuDNN {pinned_version()}\n" in result.stdout
