# SPDX-License-Identifier: BSD-3-Clause
"""Runs the command of jobs/study for the tests of this folder."""

import os
import pathlib
import subprocess

from in_process import call

ROOT = pathlib.Path(__file__).resolve().parents[3]
STUDY = ROOT / "jobs" / "study"


def study(*arguments, folder=".", **variables):
    """Runs the command of jobs/study in this process, with additional environment variables,
    without lockstep unless LOCKSTEP_BIN is one of them."""
    return call("study", *arguments, environment=environment_with(variables), folder=folder)


def show(*arguments, **variables):
    """Runs lockstep-study show in this process."""
    return call("", *arguments, environment=environment_with(variables))


def study_process(*arguments, **variables):
    """Runs the script jobs/study."""
    return subprocess.run(
        [STUDY, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment_with(variables),
        stdin=subprocess.DEVNULL,
    )


def environment_with(variables):
    return os.environ | {"LOCKSTEP_BIN": "/nowhere"} | variables


def commands_of(result):
    """Returns the commands that --dry-run printed."""
    return [line for line in result.stdout.splitlines() if line[0] != "#"]


def calls(tmp_path):
    """Returns the arguments of the stub, one list per call."""
    return [line.split() for line in (tmp_path / "calls").read_text(encoding="utf-8").splitlines()]


RUN = ["--launcher", "env RANKS_STARTED=RANKS", "--no-report"]


def expect_refusal(result, change):
    assert (result.returncode, result.stdout) == (1, "")
    [line] = [line for line in result.stderr.splitlines() if " replaces " not in line]
    assert f"{change}; use another --dir, or delete the old run: rm -rf " in line


OPTIONS_OF_PROGRAMS = """
|option|default|commands|affects|description|
|`--batch-per-rank B`||train|both|one or two|
|`--epochs E`|2|train, ladder|results|-|
|`--nesterov`|off|train, ladder|results|-|
|`--quiet`|off|all||-|
|`-b`, `--min-bytes BYTES`|1K|allreduce|time|-|
"""
