"""Installations of the build directory that CTest names in LOCKSTEP_BUILD.

LOCKSTEP_REQUIRE_PACKAGES=1 turns the skip of a test whose programs are missing into a failure."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def missing(what):
    """Skips the test because `what` is missing, or fails it if LOCKSTEP_REQUIRE_PACKAGES=1."""
    if os.environ.get("LOCKSTEP_REQUIRE_PACKAGES") == "1":
        pytest.fail(f"{what}, and LOCKSTEP_REQUIRE_PACKAGES=1")
    pytest.skip(what)


@pytest.fixture(scope="session")
def install():
    """Returns a function that installs a component of the build directory under a prefix."""
    build = os.environ.get("LOCKSTEP_BUILD")
    if not build:
        missing("LOCKSTEP_BUILD is not set to the build directory (CTest sets it)")

    def install_component(component, prefix):
        result = subprocess.run(["cmake", "--install", build, "--prefix", prefix, "--component", component], text=True,
                                capture_output=True)
        assert result.returncode == 0, result.stderr
        return prefix

    return install_component
