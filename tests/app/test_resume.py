# SPDX-License-Identifier: BSD-3-Clause
"""Tests of runs that are interrupted, are killed or fail, and of resuming them with the same
command."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import h5py
import pytest

from test_cli import (
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

pytestmark = pytest.mark.slow  # trainer_test and test_cli.py also resume runs

FORWARD_SIGNALS = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "forward-signals"
LONG = {
    "steps": None,
    "epochs": 40,
    "checkpoint_every": "2-steps",
}  # takes minutes; the tests end the run earlier


def wait_until(condition, process, seconds=HANG):
    """Waits until `condition()` is true. Fails after `seconds`, or if `process` ends earlier."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition is not true after {seconds} s"
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def start_until_checkpoint(directory, command, number=signal.SIGTERM, **options):
    """Starts the command and sends the signal `number` after its first checkpoint; returns its exit
    status and stderr."""
    process = subprocess.Popen(
        list(map(str, command)),
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
    wait_until(lambda: any(directory.glob("checkpoint-*.h5")), process)
    process.send_signal(number)
    try:
        _, errors = process.communicate(timeout=HANG)
    finally:
        process.kill()
    return process.returncode, errors


def root(path):
    """Returns the attributes of the root group of a run file."""
    with h5py.File(path) as file:
        return {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in file.attrs.items()
        }


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


def test_run_file_is_complete_after_a_checkpoint_could_not_be_written(tmp_path):
    def limit_file_size():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))

    output = tmp_path / "run.h5"
    command = [
        BIN,
        *train(
            train_samples=4,
            steps=None,
            epochs=3,
            checkpoint_dir=tmp_path / "ckpt",
            checkpoint_every="3-steps",
            output=output,
        ),
    ]
    result = subprocess.run(
        command,
        env=environment(),
        text=True,
        capture_output=True,
        timeout=HANG,
        preexec_fn=limit_file_size,
    )
    assert "checkpoint-3.h5" in expect_failure(result, 6)
    attributes = root(output)
    assert attributes["status"] == "failed" and "checkpoint-3.h5" in attributes["failure"]
    with h5py.File(output) as file:
        assert file["epoch"][()].tolist() in (
            [1],
            [1, 2],
        )  # the write ends in epoch 2 or 3, after step 3


def end_of_failing_run(tmp_path, fail, *prefix):
    """Starts a run, calls `fail(directory)` after its second checkpoint and returns the error that
    ends it."""
    checkpoints, output = tmp_path / "ckpt", tmp_path / "run.h5"
    process = subprocess.Popen(
        [*prefix, BIN, *train(**LONG, checkpoint_dir=checkpoints, output=output)],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until((checkpoints / "checkpoint-4.h5").exists, process)
    fail(checkpoints)
    out, errors = process.communicate(timeout=HANG)
    line = expect_failure(
        subprocess.CompletedProcess(process.args, process.returncode, out, errors), 6
    )
    assert root(output)["status"] == "failed" and "ckpt" in root(output)["failure"]
    return line


def test_directory_of_checkpoints_that_disappears_ends_the_run(tmp_path):
    line = end_of_failing_run(tmp_path, lambda directory: directory.rename(tmp_path / "moved"))
    assert "there is no directory" in line or "No such file" in line
    result = start(*train(steps=2, checkpoint_dir=tmp_path / "moved", resume="auto", epochs=None))
    assert result.returncode == 0 and "Nothing is left to train" in result.stdout


def test_directory_of_checkpoints_that_becomes_read_only_ends_the_run(tmp_path):
    # The superuser could write to the directory nevertheless.
    prefix = (
        ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
        if os.geteuid() == 0
        else []
    )
    line = end_of_failing_run(tmp_path, lambda directory: directory.chmod(0o555), *prefix)
    assert "Permission denied" in line
    assert len(list((tmp_path / "ckpt").glob("checkpoint-*.h5"))) >= 2


def test_damaged_checkpoint_is_passed_over(tmp_path):
    checkpoints = tmp_path / "ckpt"
    assert (
        start(*train(steps=4, checkpoint_dir=checkpoints, checkpoint_every="2-steps")).returncode
        == 0
    )
    path = checkpoints / "checkpoint-4.h5"
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)
    result = start(*train(steps=4, checkpoint_dir=checkpoints, resume="auto"))
    assert result.returncode == 0 and "resumed after step 2" in result.stdout
    assert any("passed over" in line and "checkpoint-4.h5" in line for line in messages_of(result))


@pytest.mark.parametrize("option", ["output", "checkpoint_dir"])
def test_overlong_file_name_is_an_error(tmp_path, option):
    line = expect_failure(start(*train(**{option: tmp_path / ("x" * 300)})), 6)
    assert "long" in line


def test_overwrite_does_not_replace_a_device_file():
    before = os.stat("/dev/null")
    assert "not a regular file" in expect_failure(
        start(*train("--overwrite", output="/dev/null")), 6
    )
    assert os.stat("/dev/null").st_rdev == before.st_rdev


def test_steps_do_not_include_the_time_of_checkpoints(tmp_path):
    output = tmp_path / "run.h5"
    result = start_ranks(
        (
            2,
            train(
                steps=4, checkpoint_dir=tmp_path / "ckpt", checkpoint_every="1-steps", output=output
            ),
        )
    )
    assert result.returncode == 0, result.stderr
    with h5py.File(output) as file:
        steps = file["steps/phase_seconds"][()].sum(axis=2).max(axis=1)
        # The ranks leave a barrier within some milliseconds; a checkpoint takes some hundred
        # milliseconds.
        assert steps.sum() < 1.1 * file["epochs/seconds"][()].sum()


# --- mpirun
# --------------------------------------------------------------------------------------------------


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


def test_checkpoint_directory_that_others_can_write_requires_an_option(tmp_path):
    checkpoints = tmp_path / "ckpt"
    checkpoints.mkdir()
    checkpoints.chmod(0o777)
    line = expect_failure(start(*train(checkpoint_dir=checkpoints, resume="auto")), 6)
    assert (
        f"{checkpoints} is not used, because other users can write to it (its permissions are 777)"
        in line
    )
    assert "--trust-checkpoint-dir" in line
    assert not list(checkpoints.iterdir())
    result = start(
        *train(
            "--trust-checkpoint-dir", batch_per_rank=8, checkpoint_dir=checkpoints, resume="auto"
        )
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories to other users")
@pytest.mark.parametrize(
    "owner, mode, reason",
    [
        (0, 0o2770, "users of the group 4321 can write to it"),
        (4321, 0o755, "the user 4321 owns it"),
    ],
)
def test_checkpoint_directory_of_a_group_or_another_user_causes_a_warning(
    tmp_path, owner, mode, reason
):
    os.chown(tmp_path, owner, 4321)
    tmp_path.chmod(mode)
    result = start(*train(checkpoint_dir=tmp_path, resume="auto"))
    assert (
        result.returncode == 0
        and reason in result.stderr
        and "--trust-checkpoint-dir" in result.stderr
    )


def test_new_checkpoint_directory_cannot_be_written_by_others(tmp_path):
    before = os.umask(0)
    try:
        result = start(*train(checkpoint_dir=tmp_path / "above" / "ckpt"))
    finally:
        os.umask(before)
    assert result.returncode == 0, result.stderr
    for path in (tmp_path / "above", tmp_path / "above" / "ckpt"):
        assert path.stat().st_mode & 0o777 == 0o755
