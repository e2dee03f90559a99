"""Reads results from run files and program output, and compares them for the verdicts."""

import json
import math
import statistics
from dataclasses import dataclass

import h5py
import numpy as np

SKIPPED_EPOCHS = 2  # warm-up: kernels are selected and GPU clocks rise


class Unreadable(Exception):
    """Raised if the output of a program is invalid; the message names the output and the reason."""


def parse_json(text, what):
    """Parses the JSON object that program `what` printed. Raises Unreadable if `text` is not JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"{what} printed no JSON object: {error}") from None


def parse_json_lines(text):
    """Merges the JSON objects among the lines of `text`; a later line overrides earlier ones."""
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
    """Contents of a run file."""

    status: str
    loss: np.ndarray  # per step
    learning_rate: np.ndarray
    rates: list  # images/s of each complete epoch, from phase_seconds
    wall_rates: list  # the same, from the wall-clock time of the epoch
    test_accuracy: float  # of the last evaluated epoch; NaN if there is none
    kernels: str

    @property
    def is_finite(self):
        return len(self.loss) > 0 and bool(np.isfinite(self.loss).all())


def read_run(path):
    """Reads a run file. The time of a step is the maximum over ranks of the sum over phases. Raises Unreadable if the
    file cannot be read."""
    try:
        with h5py.File(path) as file:
            epochs = file["epoch"][()]
            step_epoch = file["steps/epoch"][()]
            seconds = file["steps/phase_seconds"][()].sum(axis=2).max(axis=1)
            images = file["steps/images"][()]
            in_epoch = [step_epoch == epoch for epoch in epochs]
            wall = file["epochs/seconds"][()]
            tested = file["epochs/test_accuracy"][()]
            tested = tested[np.isfinite(tested)]
            environment = file["environment"].attrs if "environment" in file else {}
            return Run(
                status=str(file.attrs["status"]),
                loss=file["steps/loss"][()],
                learning_rate=file["steps/learning_rate"][()],
                rates=[float(images[pick].sum() / seconds[pick].sum()) for pick in in_epoch],
                wall_rates=[float(images[pick].sum() / wall[i]) for i, pick in enumerate(in_epoch)],
                test_accuracy=float(tested[-1]) if len(tested) else math.nan,
                kernels=str(environment.get("kernels", "")),
            )
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise Unreadable(f"the run file {path} cannot be read: {error}") from None


@dataclass
class Rate:
    """Throughput in images per second; one value per epoch."""

    values: list

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def spread(self):
        return f"{min(self.values):,.0f} - {max(self.values):,.0f}"


def counted(rates):
    """Returns the values of the epochs that are evaluated: all after the warm-up."""
    return rates[SKIPPED_EPOCHS:]


def relative_differences(ours, theirs):
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    return np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-6)


def losses_agree(ours, theirs, bounds):
    """Compares the losses of two runs step by step and returns one message per violated bound. `bounds` lists (last
    step, relative bound)."""
    if len(ours) != len(theirs) or not len(ours):
        return [f"{len(ours)} steps against {len(theirs)}"]
    differences, first, faults = relative_differences(ours, theirs), 0, []
    for last, bound in bounds:
        part = differences[first:last]
        if len(part) and not bool((part <= bound).all()):
            worst = first + int(np.nanargmax(np.where(np.isnan(part), np.inf, part)))
            faults.append(f"step {worst + 1}: {ours[worst]:.6f} against {theirs[worst]:.6f}, bound {bound:g} relative")
        first = last
    return faults


@dataclass
class Band:
    """Range of the losses of several PyTorch runs at each step, and the margin that is tolerated outside of it."""

    low: np.ndarray
    high: np.ndarray
    margin: np.ndarray

    def faults(self, ours):
        if len(ours) != len(self.low):
            return [f"{len(ours)} steps against {len(self.low)}"]
        ours = np.asarray(ours, float)
        inside = (ours >= self.low - self.margin) & (ours <= self.high + self.margin)  # false for NaN
        return [f"step {i + 1}: {ours[i]:.4f} outside {self.low[i] - self.margin[i]:.4f} to "
                f"{self.high[i] + self.margin[i]:.4f}" for i in np.flatnonzero(~inside)]


def band_of(runs, floor=0.002):
    """Returns the Band of several loss curves. The margin at a step is the largest spread of the curves up to this
    step, because differences due to rounding grow from step to step, plus `floor` times the loss."""
    curves = np.asarray(runs, float)
    low, high = curves.min(axis=0), curves.max(axis=0)
    return Band(low, high, np.maximum.accumulate(high - low) + floor * np.abs(high))
