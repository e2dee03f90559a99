# SPDX-License-Identifier: BSD-3-Clause
"""Tests of runs that are interrupted, are killed or fail, and of resuming them with the same
command."""

import json
import shutil
import signal
import subprocess
import time

import h5py
import pytest
from command_line import (
    BIN,
    HANG,
    MPIRUN,
    WITH_FAULTS,
    environment,
    expect_failure,
    messages_of,
    start,
    start_ranks,
    train,
)
from interrupted_runs import FORWARD_SIGNALS, LONG, root, start_until_checkpoint, wait_until

pytestmark = pytest.mark.slow  # trainer_test and test_cli_stop.py also resume runs


def test_same_command_resumes_and_writes_the_next_part(tmp_path):
    checkpoints, output = tmp_path / "ckpt", tmp_path / "run.h5"
    command = train(**LONG, checkpoint_dir=checkpoints, resume="auto", output=output)
    status, errors = start_until_checkpoint(checkpoints, [BIN, *command])
    assert status == 75 and "checkpoint is in" in errors
    first = output.read_bytes()
    first_attributes = root(output)
    assert (
        first_attributes["status"],
        first_attributes["part"],
        first_attributes["first_step"],
    ) == ("preempted", 1, 0)

    last = max(int(p.stem.split("-")[1]) for p in checkpoints.glob("checkpoint-*.h5"))
    again = train(
        **LONG | {"epochs": None, "steps": last + 2},
        checkpoint_dir=checkpoints,
        resume="auto",
        output=output,
    )
    result = start(*again, "--overwrite")  # must not replace files of the same run
    assert result.returncode == 0, result.stderr
    assert output.read_bytes() == first
    second = root(tmp_path / "run.part2.h5")
    assert (second["status"], second["part"], second["first_step"]) == ("complete", 2, last)
    assert second["run_id"] == first_attributes["run_id"]
    assert "run.part2.h5" in result.stdout

    before = {p: p.read_bytes() for p in [*tmp_path.glob("*.h5"), *checkpoints.iterdir()]}
    result = start(*again)
    assert result.returncode == 0 and "Nothing is left to train" in result.stdout
    assert {p: p.read_bytes() for p in [*tmp_path.glob("*.h5"), *checkpoints.iterdir()]} == before
    assert json.loads(start(*again, "--json").stdout)["results"]["last_step"] == last + 2


def test_same_command_resumes_after_a_kill(tmp_path):
    checkpoints, output = tmp_path / "ckpt", tmp_path / "run.h5"
    status, _ = start_until_checkpoint(
        checkpoints,
        [BIN, *train(**LONG, checkpoint_dir=checkpoints, resume="auto", output=output)],
        signal.SIGKILL,
    )
    assert status == -signal.SIGKILL
    incomplete = checkpoints / ".checkpoint-99.h5.4711.tmp"
    incomplete.write_bytes(b"half a checkpoint")
    partial = (tmp_path / "run.h5.partial").read_bytes()
    last = max(int(p.stem.split("-")[1]) for p in checkpoints.glob("checkpoint-*.h5"))
    result = start(*train(steps=last + 2, checkpoint_dir=checkpoints, resume="auto", output=output))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run.h5.partial").read_bytes() == partial
    assert root(tmp_path / "run.part2.h5")["part"] == 2
    assert not incomplete.exists()


def test_run_file_of_another_run_is_not_replaced(tmp_path):
    output = tmp_path / "run.h5"
    assert start(*train(output=output)).returncode == 0
    options = {"checkpoint_dir": tmp_path / "ckpt", "resume": "auto"}
    assert start(*train(**options)).returncode == 0
    line = expect_failure(start(*train(**options, steps=4, output=output)), 6)
    assert "--overwrite" in line
    assert list(tmp_path.glob("run.*")) == [output]


def test_run_that_failed_before_its_first_checkpoint_starts_again(tmp_path):
    checkpoints, output = tmp_path / "ckpt", tmp_path / "run.h5"
    command = train(checkpoint_dir=checkpoints, resume="auto", output=output)
    expect_failure(start(*command, "--inject=nan:0:1", program=WITH_FAULTS), 5)
    assert root(output)["status"] == "failed"
    failed = output.read_bytes()
    result = start(*command)
    assert result.returncode == 0, result.stderr
    assert "run.h5 is from a run with status failed" in result.stderr and "renamed" in result.stderr
    assert (tmp_path / "run.h5.1").read_bytes() == failed
    assert root(output)["status"] == "complete"
    complete = output.read_bytes()
    shutil.rmtree(checkpoints)
    assert "--overwrite" in expect_failure(start(*command), 6)
    assert output.read_bytes() == complete and not (tmp_path / "run.h5.2").exists()


def test_failed_run_with_other_checkpoints_is_not_replaced(tmp_path):
    output = tmp_path / "run.h5"
    command = train(checkpoint_dir=tmp_path / "a", resume="auto", output=output)
    expect_failure(start(*command, "--inject=nan:0:1", program=WITH_FAULTS), 5)
    failed = output.read_bytes()
    line = expect_failure(
        start(*train(checkpoint_dir=tmp_path / "b", resume="auto", output=output)), 6
    )
    assert "--overwrite" in line
    assert output.read_bytes() == failed


def test_sigterm_without_checkpoints_ends_the_run_as_preempted(tmp_path):
    output = tmp_path / "run.h5"
    process = subprocess.Popen(
        [BIN, *train(steps=None, epochs=40, output=output)],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until((tmp_path / "run.h5.partial").exists, process)
    time.sleep(0.3)
    process.terminate()
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 128 + signal.SIGTERM
    assert "nothing was saved" in errors
    assert root(output)["status"] == "preempted"


def stop_ranks(tmp_path, number, *prefix, **options):
    checkpoints, output = tmp_path / "ckpt", tmp_path / "run.h5"
    command = [
        *prefix,
        *MPIRUN,
        "-n",
        "2",
        BIN,
        *train(**LONG, checkpoint_dir=checkpoints, resume="auto", output=output),
    ]
    return *start_until_checkpoint(checkpoints, command, number, **options), output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_forwarded_signals_save_a_checkpoint(tmp_path, number):
    status, errors, output = stop_ranks(tmp_path, number, FORWARD_SIGNALS)
    assert status == 75, errors
    assert root(output)["status"] == "preempted"
    assert "a checkpoint is in" in errors and "warning: if mpirun" not in errors


def test_resume_with_other_options_causes_a_warning(tmp_path):
    saved = {
        "checkpoint_dir": tmp_path / "ckpt",
        "resume": "auto",
        "output": tmp_path / "run.h5",
        "lr_schedule": "cosine",
        "batch_per_rank": 8,
    }
    assert start(*train(steps=2, **saved)).returncode == 0
    result = start(*train(steps=2, keep=2, grace=9, **saved))
    assert result.returncode == 0 and messages_of(result) == []
    result = start(*train("--nesterov", steps=4, lr=0.001, **saved))
    assert result.returncode == 0
    [warning] = messages_of(result)
    assert (
        "checkpoint-2.h5 was written by another build or with other options: this command changes"
        " steps from '2' to '4', lr from '0.1' to '0.001', nesterov from 'false' to 'true';"
        in warning
    )
    with h5py.File(tmp_path / "run.part2.h5") as file:
        recorded = file["environment"].attrs["warnings"].decode()
    assert warning == f"lockstep: warning: {recorded.rstrip()}"


def test_run_that_mpirun_has_killed_resumes(tmp_path):
    """mpirun kills the ranks one second after SIGTERM, even while they write a file."""
    status, errors, output = stop_ranks(tmp_path, signal.SIGTERM)
    assert "mpirun" in errors and "SIGUSR1" in errors  # the warning at the start of the run
    checkpoints = tmp_path / "ckpt"
    last = max(int(p.stem.split("-")[1]) for p in checkpoints.glob("checkpoint-*.h5"))
    result = start_ranks(
        (2, train(steps=last + 2, checkpoint_dir=checkpoints, resume="auto", output=output))
    )
    assert result.returncode == 0, result.stderr
    assert not list(checkpoints.glob(".*.tmp"))
    assert root(tmp_path / "run.part2.h5")["status"] == "complete"


def test_without_checkpoints_there_is_no_warning_about_mpirun():
    assert not [line for line in messages_of(start_ranks((1, train()))) if "mpirun" in line]
