# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests of jobs/study."""

import pytest
from in_process import write_program


@pytest.fixture
def program(tmp_path):
    """A function that writes a stub of lockstep, which appends its arguments to `calls`, creates
    its run file and exits with `status`; `experiment` is the command that runs for `help`. For
    checks (--dry-run) and timed steps (--json), the stub only runs `check`. Returns the environment
    variable that names it.
    """

    def make(status=0, experiment='echo "build=1"', check="exit 0"):
        path = tmp_path / "lockstep"
        write_program(
            path,
            f'#!/bin/bash\n[ "$1" != help ] || {{ {experiment}; exit; }}\n'
            f"case ${{@: -1}} in --dry-run | --json) {check} ;; esac\n"
            f'echo "$@" >>"{tmp_path}/calls"\ntouch "${{@: -1}}"\nexit {status}\n',
        )
        return {"LOCKSTEP_BIN": str(path)}

    return make


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "points.tsv"
    path.write_text(
        "# name\tranks\tcommand\none\t1\ttrain --batch-per-rank 8 --epochs 2\ntwo\t2\tallreduce"
        " --max-bytes 1K\n",
        encoding="utf-8",
    )
    return path
