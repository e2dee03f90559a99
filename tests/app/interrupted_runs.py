# SPDX-License-Identifier: BSD-3-Clause
"""Starts long runs that a test interrupts."""

import pathlib
import signal
import subprocess
import time

import h5py
from command_line import HANG, environment

FORWARD_SIGNALS = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "forward-signals"
# Takes minutes; the tests end the run earlier.
LONG = {
    "steps": None,
    "epochs": 40,
    "checkpoint_every": "2-steps",
}


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
