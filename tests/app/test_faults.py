# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the run ends in time, and names the rank that is the cause, after each fault of
lockstep_with_faults."""

import re
import subprocess
import threading
import time

import pytest
from command_line import HANG, MPIRUN, WITH_FAULTS, environment, expect_failure, start, train

pytestmark = pytest.mark.slow


class Run:
    """A run of two ranks with a fault: its exit status, its lines, and the seconds from the fault
    to the end."""

    def __init__(self, fault, *arguments, ranks=2, watchdog=60, **options):
        command = [
            *MPIRUN,
            "-n",
            str(ranks),
            WITH_FAULTS,
            *train(*arguments, **options),
            f"--inject={fault}",
            f"--watchdog={watchdog}",
        ]
        process = subprocess.Popen(
            command, env=environment(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        timer = threading.Timer(HANG, process.kill)
        timer.start()
        lines = [line.rstrip() for line in process.stderr]
        self.status = process.wait()
        timer.cancel()
        self.stderr = "\n".join(lines)
        self.messages = [
            line
            for line in lines
            if line.startswith("lockstep: ") and not line.startswith("lockstep: warning: ")
        ]


TRAINING = {"steps": None, "epochs": 3, "evaluate_every": 1}


@pytest.mark.parametrize(
    "fault, status",
    [
        ("kill:1:0:init", 137),
        ("kill:1:0:planning", 137),
        ("kill:1:13:backward", 137),
        ("kill:0:7:evaluation", 137),
        ("segv:1:2", 139),
        ("abort:1:2:update", 134),
        ("throw:1:2:upload", 70),
        ("oom:1:2:forward", 4),
        ("throw:0:0:planning", 70),
        ("oom:1:0:planning", 4),
    ],
)
def test_rank_that_fails_ends_the_run(fault, status):
    run = Run(fault, **TRAINING)
    assert run.status == status, run.stderr
    signal_name = {139: "SIGSEGV", 134: "SIGABRT"}.get(status)
    if signal_name:
        assert re.fullmatch(
            rf"lockstep: rank 1 on \S+: {signal_name} .* during \w+ of step 2", run.messages[0]
        )


@pytest.mark.parametrize("phase, step", [("forward", 2), ("evaluation", 1), ("end", 1)])
def test_rank_that_exits_before_mpi_finalize_ends_the_run(phase, step):
    run = Run(f"exit:1:{step}:{phase}", **TRAINING)
    assert run.status == 70, run.stderr
    assert re.search(r"rank 1 on \S+: the process has called exit during ", run.messages[0]), (
        run.stderr
    )


@pytest.mark.parametrize(
    "fault, ranks, cause",
    [
        (
            "stop:1:2:data_wait",
            2,
            r"rank 1 on \S+ does not answer \(stopped, dead or unreachable\)",
        ),
        ("stop:0:0:planning", 2, r"rank 0 on \S+ does not answer"),
        ("stop:1:3:end", 2, r"rank 1 on \S+ does not answer"),
        (
            "stall:1:2:data_wait",
            2,
            r"rank 1 on \S+ has been in data_wait of step 2 without progress for \d+\.\d s, while"
            r" rank 0 on \S+ has been in "
            r"exposed_communication of step 2",
        ),
        ("stall:0:3:backward", 3, r"rank 0 on \S+ has been in backward of step 3"),
        (
            "stall:0:3:evaluation",
            2,
            r"rank \d on \S+ has been in evaluation of step \d",
        ),  # either may be named
        ("finish:1:2:upload", 2, r"rank 1 on \S+ has been in MPI_Finalize without"),
        (
            "skip:1:2",
            2,
            r"rank 1 on \S+ has been in exposed_communication of step 3.* rank 0 on \S+ has been in"
            r" combining the "
            r"results of step 2",
        ),
    ],
)
def test_rank_that_hangs_ends_the_run_and_is_named(fault, ranks, cause, limit):
    run = Run(fault, ranks=ranks, watchdog=limit, **TRAINING)
    assert run.status == 70, run.stderr
    assert len(run.messages) == 1, run.stderr
    assert re.search(
        f"watchdog timeout: no progress for {limit} s during .*; cause: {cause}", run.messages[0]
    )


def test_slow_rank_does_not_end_the_run(limit):
    begin = time.monotonic()
    run = Run("slow:1:2:forward", steps=6, watchdog=limit)
    assert run.status == 0 and not run.messages, run.stderr
    assert time.monotonic() - begin > 5 * 0.3


def test_loss_that_is_not_finite_on_one_rank_names_the_rank_and_the_step():
    run = Run("nan:1:5", steps=8)
    assert run.status == 5, run.stderr
    assert len(run.messages) == 1 and "not finite in step 5 on rank 1" in run.messages[0]


@pytest.mark.parametrize("ranks, culprit", [(2, None), (3, 0)])
def test_flipped_bit_is_found_before_the_next_checkpoint(ranks, culprit, tmp_path):
    run = Run(
        f"flip:{culprit or 0}:3",
        "--checkpoint-every=2-steps",
        ranks=ranks,
        batch_per_rank=1,
        steps=8,
        checkpoint_dir=tmp_path,
    )
    assert run.status == 70 and len(run.messages) == 1, run.stderr
    assert "drifted apart after step 4" in run.messages[0]
    named = re.findall(r"rank (\d) on \S+ \(hash [0-9a-f]{16}\)", run.messages[0])
    assert named == ([str(culprit)] if culprit is not None else ["0", "1"])
    assert [file.name for file in tmp_path.glob("*.h5")] == [
        "checkpoint-2.h5"
    ]  # the state after step 4 is not saved


@pytest.mark.parametrize(
    "fault, words",
    [
        ("kil:1:2", ["kill", "segv"]),
        ("kill:1", ["KIND:RANK:STEP"]),
        ("kill:x:2", ["'x'", "rank"]),
        ("kill:0:-1", ["step"]),
        ("kill:0:2:lunch", ["planning", "evaluation"]),
        ("nan:0:2:forward", ["no phase"]),
        ("flip:0:0", ["step from 1"]),
        ("kill:0:1,", ["KIND:RANK:STEP"]),
    ],
)
def test_invalid_faults_are_errors(fault, words):
    line = expect_failure(start(*train(f"--inject={fault}"), program=WITH_FAULTS), 2)
    for word in words:
        assert word in line
