# SPDX-License-Identifier: BSD-3-Clause
"""The quantities of a run that `compare` compares, and their medians over steps or repeated runs
with intervals."""

from dataclasses import dataclass

import numpy as np

from lockstep_report.measure import metrics
from lockstep_report.measure.accuracy import last_accuracy
from lockstep_report.measure.inference import median_interval, series_interval
from lockstep_report.measure.window import step_seconds, timed_window
from lockstep_report.runfile.schema import PHASES, QUANTITIES as MEASUREMENTS


@dataclass(frozen=True)
class ComparedQuantity:
    """A quantity of a run. Values in tables are those of the run times `factor`."""

    name: str  # in JSON and for --check, with the unit of the values
    label: str
    unit: str
    factor: float = 1
    digits: int = 3
    better: int = -1  # -1: smaller values are better; 1: larger values; 0: neither
    whole: str = ""  # quantity that contains it, or itself, whose spread over runs can be assumed


QUANTITIES = (
    ComparedQuantity("epoch_seconds", "Epoch", "s", digits=2, whole="epoch_seconds"),
    ComparedQuantity(
        "training_seconds", "Epoch without data wait", "s", digits=2, whole="training_seconds"
    ),
    ComparedQuantity(
        "images_per_second",
        "Throughput",
        "images/s",
        digits=1,
        better=1,
        whole="images_per_second",
    ),
    ComparedQuantity("step_seconds", "Step (slowest rank)", "ms", 1e3, whole="step_seconds"),
    ComparedQuantity("data_wait_seconds", "Step: data wait", "ms", 1e3, whole="step_seconds"),
    *(
        ComparedQuantity(
            f"{name}_seconds",
            f"Step: {name.replace('_', ' ')} (mean over the ranks)",
            "ms",
            1e3,
            whole="step_seconds",
        )
        for name in PHASES
        if name != "data_wait"
    ),
    ComparedQuantity(
        "all_reduce_seconds",
        "Step: all-reduce in progress (mean over the ranks)",
        "ms",
        1e3,
        whole="step_seconds",
    ),
    ComparedQuantity(
        "all_reduce_call_seconds",
        "Step: in calls of the all-reduce (mean over the ranks)",
        "ms",
        1e3,
        whole="step_seconds",
    ),
    ComparedQuantity(
        "all_reduce_waiting_seconds",
        "Epoch: waiting in the all-reduce",
        "s",
        whole="epoch_seconds",
    ),
    ComparedQuantity(
        "all_reduce_transfer_seconds",
        "Epoch: transfer in the all-reduce",
        "s",
        whole="epoch_seconds",
    ),
    ComparedQuantity("test_accuracy", "Test accuracy, last", "%", 100, 2, better=1),
    ComparedQuantity("train_loss", "Training loss, last epoch", "", digits=4),
    ComparedQuantity("joules_per_image", "Energy per image", "J", digits=4),
    *(
        ComparedQuantity(
            m.name,
            m.label[:1].upper() + m.label[1:],
            m.unit,
            1 / m.divisor,
            m.digits,
            0 if m.name in ("utilisation", "processor_busy_seconds") else -1,
        )
        for m in MEASUREMENTS
    ),
)
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


@dataclass(frozen=True)
class MedianEstimate:
    """The median of `count` values, steps of one run or repeated runs (`over`), with its 95 %
    interval; None if it has none."""

    median: float
    low: float = None
    high: float = None
    count: int = 1
    over: str = "runs"  # or "steps"


def estimates_of(runs, points):
    """Returns {name: MedianEstimate} of repeated runs. A single run has intervals over its timed
    steps; several runs have intervals over the runs, from the median step of each."""
    of_steps = [step_values(run, timed_window(run).steps) for run in runs]
    of_runs = [
        run_values(run, point) | {name: np.median(values) for name, values in steps.items()}
        for run, point, steps in zip(runs, points, of_steps)
    ]
    found = {
        name: estimate([values[name] for values in of_runs], "runs")
        for name in BY_NAME
        if all(name in values for values in of_runs)
    }
    if len(runs) == 1:
        found |= {name: estimate(values, "steps") for name, values in of_steps[0].items()}
    return found


def estimate(values, over):
    """Returns the `MedianEstimate` of values over "steps", which may be correlated, or "runs"."""
    values = np.asarray(values, dtype=float)
    interval = series_interval(values) if over == "steps" else median_interval(values)
    median = float(np.median(values))
    if interval is None:
        return MedianEstimate(median, count=len(values), over=over)
    return MedianEstimate(median, interval.low, interval.high, count=len(values), over=over)


def step_values(run, steps):
    """Returns {name: (step)} of the quantities that every step has."""
    found = {"step_seconds": step_seconds(run, steps)}
    of_phases = run.phase_seconds[steps].mean(axis=1)
    found |= {f"{name}_seconds": of_phases[:, i] for i, name in enumerate(run.phases)}
    if len(run.bucket_bytes):
        found["all_reduce_seconds"] = metrics.busy_seconds(
            run.bucket_start[steps], run.bucket_end[steps]
        ).mean(axis=1)
        if run.bucket_calls is not None:
            found["all_reduce_call_seconds"] = run.bucket_calls[steps].sum(axis=2).mean(axis=1)
    return found


def run_values(run, point):
    """Returns {name: value} of the quantities that a run has once."""
    split = point.split
    loss = np.asarray(run.epochs.get("train_loss", ()), dtype=float)
    found = {
        **point.measurements,
        "epoch_seconds": point.epoch_seconds,
        "training_seconds": point.training_seconds,
        "images_per_second": point.images_per_second,
        "all_reduce_waiting_seconds": split and split.waiting_seconds,
        "all_reduce_transfer_seconds": split and split.transfer_bounds.value,
        "test_accuracy": last_accuracy(run),
        "train_loss": loss[-1] if len(loss) else None,
        "joules_per_image": point.joules_per_image,
    }
    return {
        name: float(value)
        for name, value in found.items()
        if value is not None and np.isfinite(value)
    }
