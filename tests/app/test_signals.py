# SPDX-License-Identifier: BSD-3-Clause
"""Tests that signals stop the program in every phase: SIGTERM, SIGHUP and others, sent to one rank
or to mpirun.

A preloaded library (stop_at.c) stops one rank when it calls the function with which a phase begins;
the test then sends the signal and lets the rank continue. tests/train/signals_test.cpp tests the
phases of the trainer, which have no such function. tests/campaign sends signals at random times.
"""

import os
import pathlib
import signal
import subprocess
import threading
import time

import h5py
import pytest
from command_line import BIN, HANG, MPIRUN, environment, messages_of, start_ranks, train
from test_watchdog import ranks_of

pytestmark = pytest.mark.slow

TERM, INT = signal.SIGTERM, signal.SIGINT
HUP, USR1 = signal.SIGHUP, signal.SIGUSR1
# Seconds from the signal to the end of the job.
LIMIT = int(os.environ.get("LOCKSTEP_SIGNAL_LIMIT", HANG))
STOP_AT = os.environ.get("LOCKSTEP_STOP_AT")


def status_of(pid):
    """Returns the fields of /proc/PID/status; none if the process has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def is_alive(pid):
    return status_of(pid).get("State", "Z")[0] not in "ZX"


def is_stopped(pid):
    return status_of(pid).get("State", "Z")[0] == "T"


def has_pending_signal(pid):
    return int(status_of(pid).get("ShdPnd", "0"), 16) != 0


def handles_signals(pid):
    """Returns whether the process has installed its handlers of signals."""
    return int(status_of(pid).get("SigCgt", "0"), 16) >> (TERM - 1) & 1 == 1


def wait_for(condition, process, seconds=HANG):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"nothing after {seconds} s"
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return result


class Job:
    """mpirun with two ranks; `output` and `errors` are complete after `finish`."""

    def __init__(self, arguments, rank=None, stop_at=None):
        program = [BIN, *map(str, arguments)]
        stopping = ["env", f"LD_PRELOAD={STOP_AT}", f"STOP_AT={stop_at}", *program]
        command = [*MPIRUN]
        for number in range(2):
            command += [":"] if number > 0 else []
            command += ["-n", "1", *(stopping if number == rank else program)]
        self.process = subprocess.Popen(
            command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.ranks = wait_for(
            lambda: (lambda found: found if len(found) == 2 else None)(ranks_of(self.process)),
            self.process,
        )
        self.pids = list(self.ranks.values())

    def send(self, number, receiver):
        """Sends the signal to the rank `receiver`, or to mpirun."""
        self.sent = time.monotonic()
        os.kill(self.process.pid if receiver == "mpirun" else self.ranks[receiver], number)

    def finish(self):
        """Waits for the end within the limit, while it continues stopped ranks; no rank may be
        left."""
        timer = threading.Timer(LIMIT + 5, self.process.kill)
        timer.start()
        ended = threading.Event()

        def resume():
            while not ended.wait(0.05):
                for pid in self.pids:
                    if is_stopped(pid):
                        os.kill(pid, signal.SIGCONT)

        helper = threading.Thread(target=resume)
        helper.start()
        try:
            self.stdout, self.stderr = self.process.communicate()
        finally:
            ended.set()
            helper.join()
            timer.cancel()
        self.returncode = self.process.returncode
        self.seconds = time.monotonic() - self.sent
        assert self.seconds < LIMIT, self.stderr
        deadline = time.monotonic() + LIMIT
        while left := [pid for pid in self.pids if is_alive(pid)]:
            assert time.monotonic() < deadline, f"processes {left} are left"
            time.sleep(0.05)
        return self

    def message(self):
        """Returns the only line of Lockstep on stderr that is not a warning."""
        lines = [line for line in messages_of(self) if not line.startswith("lockstep: warning: ")]
        assert len(lines) == 1, self.stderr
        return lines[0]


def signalled(arguments, function, number, receiver, rank):
    """Sends the signal when `rank` calls `function`."""
    job = Job(arguments, rank, function)
    try:
        # A rank that has not reached `main` ends with the signal.
        wait_for(
            lambda: is_stopped(job.ranks[rank]) and all(map(handles_signals, job.pids)), job.process
        )
        job.send(number, receiver)
        # Which forwards the signal; for SIGTERM it first continues the rank.
        if receiver == "mpirun":
            pid = job.ranks[rank]
            wait_for(lambda: has_pending_signal(pid) or not is_stopped(pid), job.process)
        return job.finish()
    finally:
        job.process.kill()


def signalled_when(arguments, condition, number, receiver):
    """Sends the signal when `condition()` is true."""
    job = Job(arguments)
    try:
        wait_for(condition, job.process)
        job.send(number, receiver)
        return job.finish()
    finally:
        job.process.kill()


needs_library = pytest.mark.skipif(
    not STOP_AT, reason="LOCKSTEP_STOP_AT is not set to the library to preload"
)


def run_of(tmp_path, **options):
    return train(
        **{
            "steps": None,
            "epochs": 2,
            "evaluate_every": 1,
            "test_samples": 4,
            "checkpoint_dir": tmp_path / "ckpt",
            "resume": "auto",
            "output": tmp_path / "run.h5",
        }
        | options
    )


def status_and_steps(path):
    with h5py.File(path) as file:
        return file.attrs["status"].decode(), len(file["steps/loss"])


def checkpoints(tmp_path):
    return sorted(int(p.stem.split("-")[1]) for p in (tmp_path / "ckpt").glob("checkpoint-*.h5"))


def files_of(tmp_path):
    return [p for p in tmp_path.rglob("*") if p.is_file()]


# --- before the first step
# -----------------------------------------------------------------------------------


@needs_library
@pytest.mark.parametrize(
    "function, number, receiver, rank",
    [
        ("MPI_Init_thread", TERM, 0, 0),
        ("MPI_Init_thread", USR1, "mpirun", 1),
        ("dnnl_primitive_create", TERM, 1, 1),  # planning
        ("dnnl_primitive_create", INT, 0, 0),
        ("dnnl_primitive_create", USR1, "mpirun", 1),
        ("H5Fcreate run.h5", TERM, 1, 0),  # creating the run file
        ("H5Fcreate run.h5", INT, 0, 0),
    ],
)
def test_signal_before_the_first_step(tmp_path, function, number, receiver, rank):
    job = signalled(run_of(tmp_path), function, number, receiver, rank)
    assert job.returncode == 75, job.stderr
    assert (
        f"stopped by signal {int(number)}" in job.message()
        and "before the first step" in job.message()
    )
    assert not files_of(tmp_path)


@needs_library
def test_signal_before_the_first_step_without_checkpoints(tmp_path):
    job = signalled(train(output=tmp_path / "run.h5"), "dnnl_primitive_create", TERM, 0, 0)
    assert job.returncode == 128 + TERM, job.stderr
    assert "before the first step" in job.message() and not files_of(tmp_path)


@needs_library
def test_same_command_continues_after_sigterm_to_mpirun(tmp_path):
    """mpirun kills the ranks a second after SIGTERM, whatever they do, and exits with a status of
    its own."""
    job = signalled(run_of(tmp_path), "dnnl_primitive_create", TERM, "mpirun", 0)
    assert job.returncode != 0
    result = start_ranks((2, run_of(tmp_path)))
    assert result.returncode == 0, result.stderr
    assert checkpoints(tmp_path)[-1] == 12


def test_rank_that_does_not_answer_does_not_delay_the_end(tmp_path):
    """Rank 1 never starts, so rank 0 waits in MPI_Init."""
    program = [BIN, *map(str, run_of(tmp_path))]
    blocked = ["sh", "-c", "while :; do sleep 1; done"]
    process = subprocess.Popen(
        [*MPIRUN, "-n", "1", *program, ":", "-n", "1", *blocked],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        rank_0 = wait_for(lambda: ranks_of(process).get(0), process)
        wait_for(lambda: handles_signals(rank_0), process)
        time.sleep(1)
        os.kill(rank_0, TERM)
        _, errors = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == 75, errors
    assert (
        "stopped by signal 15 during 'MPI_Init_thread', before the first step; nothing is lost"
        in errors
    )


# --- from the first step on
# ----------------------------------------------------------------------------------


@needs_library
@pytest.mark.parametrize(
    "function, number, receiver",
    [
        ("H5Fcreate checkpoint-2", TERM, 0),
        ("H5Fcreate checkpoint-2", INT, 1),
        ("H5Fcreate checkpoint-2", USR1, "mpirun"),
        ("H5Fopen run.h5", TERM, 1),  # end of the first epoch
        ("H5Fopen run.h5", USR1, "mpirun"),
    ],
)
def test_signal_while_a_file_is_written(tmp_path, function, number, receiver):
    options = {"checkpoint_every": "2-steps"} if "checkpoint" in function else {}
    job = signalled(run_of(tmp_path, **options), function, number, receiver, rank=0)
    expect_saved(tmp_path, job, number)


def expect_saved(tmp_path, job, number):
    assert job.returncode == 75, job.stderr
    assert (
        f"stopped by signal {int(number)} after step" in job.message()
        and "a checkpoint is in" in job.message()
    )
    status, steps = status_and_steps(tmp_path / "run.h5")
    assert status == "preempted" and checkpoints(tmp_path)[-1] == steps
    assert not list(tmp_path.rglob("*.tmp")) and not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("number, receiver", [(TERM, 1), (INT, 0), (HUP, 1), (USR1, "mpirun")])
def test_signal_during_the_training(tmp_path, number, receiver):
    arguments = run_of(tmp_path, epochs=100, checkpoint_every="3-steps", evaluate_every="never")
    expect_saved(
        tmp_path, signalled_when(arguments, lambda: checkpoints(tmp_path), number, receiver), number
    )


def test_grace_time_that_is_too_short_keeps_the_last_checkpoint(tmp_path):
    arguments = run_of(
        tmp_path, epochs=100, checkpoint_every="6-steps", evaluate_every="never", grace=0
    )
    job = signalled_when(arguments, lambda: checkpoints(tmp_path), TERM, 0)
    assert job.returncode == 75, job.stderr
    step = checkpoints(tmp_path)[-1]
    assert (
        "a checkpoint is in" in job.message()
        or f"--grace is 0 s; the checkpoint after step {step} is kept" in job.message()
    )
    assert status_and_steps(tmp_path / "run.h5")[0] == "preempted"


def test_signal_during_the_profile_ends_it(tmp_path):
    arguments = run_of(tmp_path, steps=2, epochs=None, profile=1000, evaluate_every="never")
    job = signalled_when(arguments, lambda: checkpoints(tmp_path) == [2], TERM, 1)
    assert job.returncode == 75, job.stderr
    assert "during the profile" in job.message()
    assert status_and_steps(tmp_path / "run.h5") == ("complete", 2)


@needs_library
def test_signal_at_the_end_changes_nothing(tmp_path):
    job = signalled(run_of(tmp_path, epochs=1), "MPI_Finalize", TERM, 1, 1)
    assert job.returncode == 0, job.stderr
    assert status_and_steps(tmp_path / "run.h5") == ("complete", 6)


@pytest.mark.parametrize(
    "command",
    [
        ["allreduce", "--max-bytes=4M", "--repeats=100000"],
        ["ladder", "--data=synthetic:2000", "--ladder-start=1", "--threads=1", "--steps=1000"],
    ],
)
def test_other_commands_end_within_seconds(tmp_path, command):
    output = tmp_path / "run.h5"
    job = signalled_when(
        [*command, f"--output={output}"], (tmp_path / "run.h5.partial").exists, TERM, 1
    )
    assert job.returncode == 128 + TERM, job.stderr
    if command[0] == "ladder":
        with h5py.File(output) as file:
            assert file.attrs["status"] == b"preempted"
