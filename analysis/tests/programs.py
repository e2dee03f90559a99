"""Finds and runs the programs that some tests need."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

AS_NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def find_program(name, programs, package, variable=None):
    """Returns the value of the environment variable `variable`, or the path of the first of
    `programs` that is installed. If there is none, skips the test, or fails it if
    LOCKSTEP_REQUIRE_`name`=1. `package`: what contains the program."""
    found = variable and os.environ.get(variable)
    found = found or next(filter(None, map(shutil.which, programs)), None)
    if found:
        return found
    message = f"{programs[0]} is missing; install {package}" + (
        f" or set {variable}" if variable else "")
    if os.environ.get(f"LOCKSTEP_REQUIRE_{name}") == "1":
        pytest.fail(message)
    pytest.skip(message)


def run_report(*arguments, is_privileged=True, environment=(), **options):
    """Runs `lockstep-report` as a process and returns it. With `is_privileged=False`, it does not run
    as root; skips the test if other users cannot read the package. `environment`: further variables.
    `options`: those of `subprocess.run`, for example `stdout`."""
    if not is_privileged and os.geteuid() == 0:
        if not can_be_run_by_nobody():
            pytest.skip("the user nobody cannot read the package or its libraries")
        options |= AS_NOBODY
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent),
                 "PYTHONDONTWRITEBYTECODE": "1", **dict(environment)}
    return subprocess.run([sys.executable, "-m", "lockstep_report", *map(str, arguments)],
                          check=False, text=True, env=variables, timeout=60, **options)


@functools.cache
def can_be_run_by_nobody():
    return run_report("--version", **AS_NOBODY).returncode == 0
