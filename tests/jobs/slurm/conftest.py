# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests of jobs/slurm."""

import pytest
from in_process import write_program
from slurm_scripts import TABLE


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "points.tsv"
    path.write_text(TABLE, encoding="utf-8")
    return path


@pytest.fixture
def program(tmp_path):
    """A function that writes a stub of lockstep and returns the environment variable that names it.
    The stub records its arguments, prints `line` to stderr and exits with `status`."""

    def make(status, line=""):
        path = tmp_path / "lockstep"
        write_program(
            path,
            f'#!/bin/bash\nprintf "%s\\n" "$@" >"{tmp_path}/lockstep.calls"\n'
            f"echo '{line}' >&2\nexit {status}\n",
        )
        return {"LOCKSTEP_BIN": str(path)}

    return make
