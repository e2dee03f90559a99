# SPDX-License-Identifier: BSD-3-Clause
"""Reads run files, and compares losses."""

import math
from collections import namedtuple

import h5py
import numpy as np

# Largest relative difference of the loss of each step. On a CPU at batch 32, bf16 differs from fp32
# by 2e-4 in step 1 and by at most 6e-4 up to step 3.
SMALL_BOUNDS = {"fp32": [1e-4, 1e-2, 1e-2], "bf16": [5e-3, 2e-2, 2e-2], "fp16": [5e-3, 2e-2, 2e-2]}
# On CPUs, 1, 2 and 4 ranks differed by at most 8e-8 in step 1 and 8e-5 up to step 5.
RANK_BOUNDS = [1e-5] + [5e-3] * 4

UNREADABLE = (OSError, LookupError, ValueError)  # raised for a run file or output that is invalid
# The loss of each step, images/s of each complete epoch, and the test accuracy of the last
# evaluation.
Run = namedtuple("Run", "loss rates test_accuracy")


def read_run(path):
    """Returns the Run in a run file. Raises one of UNREADABLE, also if a loss is not finite."""
    with h5py.File(path) as file:
        status = np.bytes_(file.attrs["status"]).decode()
        loss, images = file["steps/loss"][()], file["steps/images"][()]
        epochs = [file["steps/epoch"][()] == epoch for epoch in file["epoch"][()]]
        seconds, accuracy = file["epochs/seconds"][()], file["epochs/test_accuracy"][()]
    if status != "complete" or not len(loss) or not np.isfinite(loss).all():
        raise ValueError(
            f"the status of the run file is {status}; its losses begin with {loss[:3]}"
        )
    rates = [float(images[pick].sum() / one) for pick, one in zip(epochs, seconds)]
    return Run(loss.tolist(), rates, [math.nan, *accuracy[np.isfinite(accuracy)]][-1])


def run_of(outcome):
    """Returns the Run of a program that has trained."""
    return read_run(outcome.command[outcome.command.index("--output") + 1])


def deviations(ours, curves, bounds):
    """Compares the losses of a run with curves that differ by rounding. Returns one message for
    each step whose loss is outside their range by more than the largest spread of the curves up to
    this step, because differences due to rounding grow from step to step, plus the bound times the
    loss. `bounds`: a number, or one per step. With one curve, the bounds are those of the
    difference."""
    curves, ours = np.asarray(curves, float), np.asarray(ours, float)
    low, high = curves.min(axis=0), curves.max(axis=0)
    if len(ours) != len(low):
        return [f"{len(ours)} steps instead of {len(low)}"]
    margin = np.maximum.accumulate(high - low) + np.broadcast_to(bounds, len(ours)) * np.abs(high)
    low, high = low - margin, high + margin
    is_inside = (ours >= low) & (ours <= high)  # false for NaN
    return [
        f"step {i + 1}: loss {ours[i]:.6f} is outside {low[i]:.6f} to {high[i]:.6f}"
        for i in np.flatnonzero(~is_inside)
    ]


def agrees_with(curves, bounds, losses=None):
    """Returns a verify (bisection.py) that compares the losses of a run with curves. Without
    curves, they only have to be finite. It stores the losses in the list `losses`."""

    def verify(outcome):
        found = run_of(outcome).loss
        if losses is not None:
            losses[:] = found
        wrong = deviations(found, curves, bounds) if curves else []
        return not wrong, "; ".join(wrong[:3]) or f"first loss {found[0]:.6f}, last {found[-1]:.6f}"

    return verify
