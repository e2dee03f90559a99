# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the watchdog ends the run with status 70 if a rank hangs, at any stage of the
program."""

import contextlib
import math
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import pytest
from command_line import BIN, HANG, MPIRUN, WITH_FAULTS, environment, start, train

pytestmark = pytest.mark.slow

HANG_IN_FINALIZE = os.environ.get("LOCKSTEP_HANG_IN_MPI_FINALIZE")


def ranks_of(mpirun):
    """Returns {rank: process id} of the ranks that the process `mpirun` has started."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            variables = (process / "environ").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        rank = [v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
        if parent == mpirun.pid and rank:
            found[int(rank[0].split(b"=")[1])] = int(process.name)
    return found


def states(pid):
    """Returns the states of the threads of a process, such as "T" (stopped); empty if it does not
    exist."""
    found = set()
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            found.add(stat.read_text().rsplit(")", 1)[1].split()[0])
    return found


def is_running(pid):
    """Returns whether a process exists and is not a zombie."""
    return bool(states(pid) - {"Z"})


def stop(pid):
    """Stops a process; returns when all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    while states(pid) != {"T"}:
        time.sleep(0.01)


def kill_after(process, seconds):
    """Starts a timer that kills the process; returns the timer."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    return timer


def run_and_stop_rank_1(arguments, ready, limit):
    """Runs two ranks and stops rank 1 (SIGSTOP) after a line of the output matches `ready`. Returns
    the exit status and stderr of mpirun."""
    command = [*MPIRUN, "-n", "2", BIN, *map(str, arguments), f"--watchdog={limit}"]
    process = subprocess.Popen(
        command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    timer = kill_after(process, HANG)
    try:
        for line in process.stdout:
            if re.search(ready, line):
                break
        else:
            pytest.fail(f"the program ended before '{ready}': {process.stderr.read()}")
        os.kill(ranks_of(process)[1], signal.SIGSTOP)
        _, stderr = process.communicate(timeout=HANG)
    finally:
        timer.cancel()
        process.kill()
    return process.returncode, stderr


def expect_timeout(returncode, stderr):
    """Checks that the watchdog ended the run with a single message; returns the message."""
    assert returncode == 70, stderr
    lines = [
        line
        for line in stderr.splitlines()
        if line.startswith("lockstep: ") and "watchdog timeout" in line
    ]
    assert len(lines) == 1, stderr
    return lines[0]


LONG = {"steps": None, "epochs": 1000}
# The stages in which a rank stops: {name: (arguments, output when the stage has begun, text of the
# timeout message)}.
STAGES = {
    "ladder": (
        ["ladder", "--data=synthetic:2000", "--ladder-start=1", "--threads=1", "--steps=100"],
        r"^memory limit|memory limit",
        r"during ",
    ),
    "all-reduce sweep": (
        ["allreduce", "--max-bytes=4M", "--repeats=2000"],
        r"^All-reduce over",
        "all-reduce sweep",
    ),
}


@pytest.mark.parametrize("stage", STAGES)
def test_stopped_rank_ends_the_run(stage, limit):
    arguments, ready, activity = STAGES[stage]
    line = expect_timeout(*run_and_stop_rank_1(arguments, ready, limit))
    assert line.startswith("lockstep: rank 0 on ") and f"no progress for {limit} s" in line
    assert re.search(activity, line), line


def test_other_ranks_end_with_the_status_of_a_timeout(limit, tmp_path):
    """Open MPI aborts a rank (status 255) if the end of another one resets its connection, unless
    the rank has ended before."""
    record = f'"$@"; echo $? >{tmp_path}/$OMPI_COMM_WORLD_RANK'
    options = ["--mca", "btl", "tcp,self", "--mca", "orte_abort_on_non_zero_status", "0"]
    program = [WITH_FAULTS, *train(), "--inject=stall:1:2", f"--watchdog={limit}"]
    result = subprocess.run(
        [*MPIRUN, "-n", "3", *options, "sh", "-c", record, "sh", *program],
        env=environment(),
        text=True,
        capture_output=True,
        timeout=HANG,
    )
    assert result.stderr.count("watchdog timeout") == 1, result.stderr
    # mpirun may kill the rank that has reported the timeout, and its shell, when the others have
    # ended.
    assert [file.read_text() for file in tmp_path.iterdir()] in (["70\n"] * 2, ["70\n"] * 3)


def run_mixed(first, second, limit, **variables):
    """Runs rank 0 with the command `first` and rank 1 with the command `second`."""
    return subprocess.run(
        [*MPIRUN, "-n", "1", *first, ":", "-n", "1", *second],
        env=environment() | variables,
        text=True,
        capture_output=True,
        timeout=HANG,
    )


def test_rank_that_hangs_before_mpi_init_ends_the_run(limit):
    program = [BIN, *train()]
    stopped = ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *program]
    result = run_mixed(program, stopped, limit, LOCKSTEP_WATCHDOG=str(limit))
    line = expect_timeout(result.returncode, result.stderr)
    assert f"no progress for {limit} s during MPI_Init_thread" in line


@pytest.mark.skipif(
    not HANG_IN_FINALIZE,
    reason="LOCKSTEP_HANG_IN_MPI_FINALIZE is not set to the library to preload",
)
def test_rank_that_hangs_in_mpi_finalize_ends_the_run(limit):
    program = [BIN, *train(), f"--watchdog={limit}"]
    result = run_mixed(program, ["env", f"LD_PRELOAD={HANG_IN_FINALIZE}", *program], limit)
    lines = [line for line in result.stderr.splitlines() if "watchdog timeout" in line]
    assert result.returncode == 70, result.stderr
    assert lines and all("during MPI_Finalize" in line for line in lines)


@pytest.mark.parametrize("has_stopped_rank", [False, True])
def test_ranks_end_if_mpirun_is_killed(has_stopped_rank):
    process = subprocess.Popen(
        [*MPIRUN, "-n", "2", BIN, *train(**LONG)],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    timer = kill_after(process, HANG)
    for line in process.stdout:
        if line.startswith("epoch 1/"):
            break
    timer.cancel()
    ranks = ranks_of(process)
    assert len(ranks) == 2
    if has_stopped_rank:
        stop(ranks[1])  # the kernel wakes only processes that have stopped when mpirun ends
    process.kill()
    process.wait()
    end = time.monotonic() + HANG
    alive = set(ranks.values())
    while alive and time.monotonic() < end:
        time.sleep(0.1)
        alive = {pid for pid in alive if is_running(pid)}
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive


def test_slow_step_that_makes_progress_does_not_end_the_run():
    def seconds_of_run(*options):
        begin = time.monotonic()
        result = start(*train("--device=reference", *options, batch_per_rank=4, steps=1))
        assert result.returncode == 0, result.stderr
        return time.monotonic() - begin

    preparation = seconds_of_run("--dry-run")
    limit = max(2, math.ceil(2 * preparation))
    step = seconds_of_run(f"--watchdog={limit}") - preparation
    if step < 1.2 * limit:
        pytest.skip(f"a step of {step:.1f} s is too short for a limit of {limit} s")
