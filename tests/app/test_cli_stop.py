# SPDX-License-Identifier: BSD-3-Clause
"""Tests of runs that a signal stops, and of a resumed run."""

import os
import pathlib
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from command_line import BIN, HANG, MPIRUN, environment, expect_failure, start, train


def datasets(path):
    """Returns {name: values} of all datasets of an HDF5 file."""
    values = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: values.update({name: item[()]}) if hasattr(item, "shape") else None
        )
    return values


def test_resumed_run_computes_the_same_bits(tmp_path):
    """With --deterministic, the three processes use the same kernels; without it, each selects
    kernels by timing."""
    assert (
        start(*train("--deterministic", steps=6, checkpoint_dir=tmp_path / "whole")).returncode == 0
    )
    for steps in (3, 6):
        assert (
            start(
                *train(
                    "--deterministic", steps=steps, checkpoint_dir=tmp_path / "parts", resume="auto"
                )
            ).returncode
            == 0
        )
    whole, resumed = (sorted((tmp_path / name).iterdir())[-1] for name in ("whole", "parts"))
    assert whole.name == resumed.name
    expected, found = datasets(whole), datasets(resumed)
    assert expected.keys() == found.keys() and len(expected) > 100
    for name, values in expected.items():
        assert np.array_equal(values, found[name]), name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_saves_a_checkpoint(tmp_path, number):
    """Until then, no other run can use the directory."""
    directory, path = tmp_path / "ckpt", tmp_path / "run.h5"
    # `nohup` ignores it.
    process = subprocess.Popen(
        [
            BIN,
            *train(steps=100000, checkpoint_dir=directory, checkpoint_every="1-steps", output=path),
        ],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    deadline = time.monotonic() + HANG
    while not any(directory.glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    second = start(*train(checkpoint_dir=directory, resume="auto"))
    assert f"is used by another run (process {process.pid} on " in expect_failure(second, 6)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=HANG)
    assert process.returncode == 75, stderr
    assert "--resume auto" in stderr
    assert all(path.name.startswith("checkpoint-") for path in directory.iterdir())
    with h5py.File(path) as file:
        assert file.attrs["status"] == b"preempted"
        assert file["steps/loss"].shape[0] > 0


def test_killed_rank_ends_the_job(tmp_path):
    directory = tmp_path / "ckpt"
    process = subprocess.Popen(
        [
            *MPIRUN,
            "-n",
            "2",
            BIN,
            *train(steps=100000, checkpoint_dir=directory, checkpoint_every="1-steps"),
        ],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + HANG
    while not any(directory.glob("checkpoint-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    process.communicate(timeout=HANG)
    assert process.returncode != 0
