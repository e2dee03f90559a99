# SPDX-License-Identifier: BSD-3-Clause
"""Tests of checkpoints that are damaged or cannot be written, and of their folders."""

import os
import resource
import subprocess

import h5py
import pytest
from command_line import (
    BIN,
    HANG,
    environment,
    expect_failure,
    messages_of,
    start,
    start_ranks,
    train,
)
from interrupted_runs import LONG, root, wait_until

pytestmark = pytest.mark.slow  # trainer_test and test_cli_stop.py also resume runs


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
