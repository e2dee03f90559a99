# SPDX-License-Identifier: BSD-3-Clause
"""Runs `lockstep-report` as a process."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

AS_NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def run_report(
    *arguments,
    is_privileged=True,
    environment=(),
    program=("-m", "lockstep_report"),
    starter=(),
    **options,
):
    """Runs `lockstep-report` as a process and returns it. With `is_privileged=False`, it does not
    run as root; skips the test if other users cannot read the package. `environment`: further
    variables. `program`: other code than the package. `starter`: a command that starts it.
    `options`: those of `subprocess.run`, for example `stdout`.
    """
    if not is_privileged and os.geteuid() == 0:
        if not can_be_run_by_nobody():
            pytest.skip("the user nobody cannot read the package or its libraries")
        options |= AS_NOBODY
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    variables = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict(environment),
    }
    return subprocess.run(
        [*starter, sys.executable, *program, *map(str, arguments)],
        check=False,
        text=True,
        env=variables,
        timeout=1800,
        **options,
    )


@functools.cache
def can_be_run_by_nobody():
    try:
        return run_report("--version", **AS_NOBODY).returncode == 0
    except PermissionError:  # of the interpreter
        return False
