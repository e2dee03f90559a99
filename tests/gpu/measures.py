# SPDX-License-Identifier: BSD-3-Clause
"""Reads results from run files and program output, and compares losses."""

import json
import math
from dataclasses import dataclass

import h5py
import numpy as np


class Unreadable(Exception):
    """Raised if the output of a program is invalid. The message names the output and the reason."""


def parse_json(text, program):
    """Returns the JSON object that `program` printed. Raises Unreadable if `text` is not JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"{program} printed no JSON object: {error}") from None


def parse_json_lines(text):
    """Merges the lines of `text` that are JSON objects into one dictionary; later lines override earlier ones."""
    merged = {}
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                merged |= json.loads(line)
            except json.JSONDecodeError:
                continue
    return merged


@dataclass
class Run:
    """Results that were read from a run file."""

    loss: np.ndarray  # per step
    learning_rate: np.ndarray
    rates: list  # images/s of each complete epoch, from the durations of the phases
    wall_rates: list  # images/s of each complete epoch, from its wall-clock time
    test_accuracy: float  # of the last evaluated epoch; NaN if there is none


def read_run(path):
    """Returns the results in a run file. The time of a step is the maximum over ranks of the sum over
    phases. Raises Unreadable if the file cannot be read, the run is not complete, or a loss is not
    finite."""
    try:
        with h5py.File(path) as file:
            epochs = file["epoch"][()]
            step_epoch = file["steps/epoch"][()]
            seconds = file["steps/phase_seconds"][()].sum(axis=2).max(axis=1)
            images = file["steps/images"][()]
            in_epoch = [step_epoch == epoch for epoch in epochs]
            wall = file["epochs/seconds"][()]
            accuracy = file["epochs/test_accuracy"][()]
            accuracy = accuracy[np.isfinite(accuracy)]
            status = np.bytes_(file.attrs["status"]).decode()
            run = Run(
                loss=file["steps/loss"][()],
                learning_rate=file["steps/learning_rate"][()],
                rates=[float(images[pick].sum() / seconds[pick].sum()) for pick in in_epoch],
                wall_rates=[float(images[pick].sum() / wall[i]) for i, pick in enumerate(in_epoch)],
                test_accuracy=float(accuracy[-1]) if len(accuracy) else math.nan,
            )
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise Unreadable(f"the run file {path} cannot be read: {error}") from None
    if status != "complete":
        raise Unreadable(f"the status in the run file {path} is {status}")
    if not len(run.loss) or not np.isfinite(run.loss).all():
        raise Unreadable(f"the run file {path} has a loss that is not finite, or no losses")
    return run


def relative_differences(ours, theirs):
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    return np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-6)


def loss_deviations(ours, theirs, bounds):
    """Compares the losses of two runs step by step. Returns one message per violated bound. `bounds` is a sequence of
    (last step, bound of the relative difference up to this step)."""
    if len(ours) != len(theirs) or not len(ours):
        return [f"{len(ours)} steps instead of {len(theirs)}"]
    differences, first, deviations = relative_differences(ours, theirs), 0, []
    for last, bound in bounds:
        part = differences[first:last]
        if len(part) and not bool((part <= bound).all()):
            worst = first + int(np.nanargmax(np.where(np.isnan(part), np.inf, part)))
            deviations.append(f"step {worst + 1}: loss {ours[worst]:.6f} instead of {theirs[worst]:.6f}, which exceeds "
                              f"the relative bound {bound:g}")
        first = last
    return deviations


def band_deviations(ours, curves, tolerance=0.002):
    """Compares the losses of a run with several loss curves that differ by rounding. Returns one message for each step at
    which the loss is outside the range of the curves by more than the margin. The margin at a step is the largest spread
    of the curves up to this step, because differences due to rounding grow from step to step, plus `tolerance` times the
    loss."""
    curves, ours = np.asarray(curves, float), np.asarray(ours, float)
    low, high = curves.min(axis=0), curves.max(axis=0)
    if len(ours) != len(low):
        return [f"{len(ours)} steps instead of {len(low)}"]
    margin = np.maximum.accumulate(high - low) + tolerance * np.abs(high)
    inside = (ours >= low - margin) & (ours <= high + margin)  # false for NaN
    return [f"step {i + 1}: loss {ours[i]:.4f} is outside {low[i] - margin[i]:.4f} to {high[i] + margin[i]:.4f}"
            for i in np.flatnonzero(~inside)]
