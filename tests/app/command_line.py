# SPDX-License-Identifier: BSD-3-Clause
"""Starts lockstep, alone and under mpirun, and reads its messages.

LOCKSTEP_BIN is the path of the program. LOCKSTEP_MPIRUN is the command that starts ranks; its words
may be separated by spaces or semicolons.
"""

import os
import subprocess

BIN = os.environ["LOCKSTEP_BIN"]
# The program with the option --inject.
WITH_FAULTS = os.environ["LOCKSTEP_BUILD"] + "/tests/campaign/lockstep_with_faults"
HANG = 1800  # seconds; limits of time are against hangs, also on a machine with other load
MPIRUN = (
    os.environ.get("LOCKSTEP_MPIRUN", "mpirun --oversubscribe --bind-to none")
    .replace(";", " ")
    .split()
)


def train(*arguments, **options):
    """Returns the arguments of a `lockstep train` run of about one second. `options` override the
    defaults; an option with the value None is omitted."""
    values = {
        "data": "synthetic:24",
        "batch_per_rank": 2,
        "steps": 2,
        "threads": 1,
        "loader_threads": 1,
        "evaluate_every": "never",
    } | options
    named = [
        f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None
    ]
    return ["train", *named, *map(str, arguments)]


def environment():
    """Returns the environment of this process without the variables of Lockstep."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    return inherited | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMP_WAIT_POLICY": "passive",
    }


def start(*arguments, cwd=None, env=None, program=BIN):
    """Runs lockstep without mpirun; returns the completed process."""
    return subprocess.run(
        [program, *map(str, arguments)],
        cwd=cwd,
        env=environment() | (env or {}),
        text=True,
        capture_output=True,
        timeout=HANG,
    )


def start_ranks(*programs, cwd=None, env=None):
    """Runs mpirun with one application context per (ranks, arguments); returns the completed
    process."""
    command = [*MPIRUN]
    for ranks, arguments in programs:
        command += [] if command == MPIRUN else [":"]
        command += ["-n", str(ranks), BIN, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment() | (env or {}),
        text=True,
        capture_output=True,
        timeout=HANG,
    )


def messages_of(result):
    """Returns the lines that Lockstep wrote to stderr, without those of mpirun and without the
    warning that other processes took the processors."""
    return [
        line
        for line in result.stderr.splitlines()
        if line.startswith("lockstep: ") and "lacked a processor" not in line
    ]


def expect_failure(result, status):
    """Checks that the run failed with this status and a single error message; returns the message.
    Without injected faults, all ranks know the error and end without MPI_Abort, which prints seven
    lines."""
    assert result.returncode == status, f"{result.stdout}{result.stderr}"
    lines = [line for line in messages_of(result) if not line.startswith("lockstep: warning: ")]
    assert len(lines) == 1, result.stderr
    assert BIN not in result.args or "MPI_ABORT was invoked" not in result.stderr
    return lines[0]
