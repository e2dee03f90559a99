# SPDX-License-Identifier: BSD-3-Clause
"""Installations of the build directory that CTest names in LOCKSTEP_BUILD."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def build():
    """Returns the build directory."""
    path = os.environ.get("LOCKSTEP_BUILD")
    if not path:
        pytest.skip("LOCKSTEP_BUILD is not set to the build directory (CTest sets it)")
    return pathlib.Path(path)


@pytest.fixture(scope="session")
def install(build):
    """Returns a function that installs a component of the build directory under a prefix."""

    def install_component(component, prefix, **variables):
        result = subprocess.run(
            ["cmake", "--install", build, "--prefix", prefix, "--component", component],
            text=True,
            capture_output=True,
            env=os.environ | variables,
        )
        assert result.returncode == 0, result.stderr
        return prefix

    return install_component
