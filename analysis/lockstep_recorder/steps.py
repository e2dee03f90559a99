# SPDX-License-Identifier: BSD-3-Clause
"""The measured steps of an epoch with the timestamps of the device, which never block it, as the
columns of a run file."""

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from lockstep_report.runfile.schema import PHASES


class HostClock:
    """The monotonic clock of the host, for programs on CPUs."""

    error = 0.0  # bound on its difference to the monotonic clock of the host, in seconds

    def begin_epoch(self):
        pass

    def stamp(self):
        return time.monotonic()

    def seconds(self, stamp):
        return stamp


class CudaClock:
    """CUDA events on the current stream. They are read after the epoch, and set to the clock of the
    host before it."""

    def begin_epoch(self):
        torch.cuda.synchronize()
        before = time.monotonic()
        self.origin = self.stamp()
        self.origin.synchronize()
        after = time.monotonic()
        self.host, self.error = (before + after) / 2, (after - before) / 2

    def stamp(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, stamp):
        """Returns the time of an event on the clock of the host; waits for the event."""
        stamp.synchronize()
        return self.host + 1e-3 * self.origin.elapsed_time(stamp)


@dataclass
class Step:
    """The timestamps of a step on one rank. Phases follow one another; a phase can occur several
    times."""

    start: object
    marks: list = field(
        default_factory=list
    )  # (phase, timestamps), of which the last one ends the phase
    buckets: list = field(default_factory=list)  # (bytes, start, [end])
    images: int = 0
    losses: list = field(default_factory=list)


@dataclass
class Values:
    """The steps of an epoch on one rank, in seconds on the clock of its host."""

    start: np.ndarray  # (step)
    phases: np.ndarray  # (step, phase)
    images: list  # (step)
    loss: np.ndarray  # (step)
    buckets: list  # (step) of [(start, end), ...] relative to the start of the step
    sizes: list  # (step) of (bytes of each bucket)


def values_of(steps, clock):
    """Returns the `Values` of the steps. Waits until the device has completed them."""
    phases = np.zeros((len(steps), len(PHASES)))
    start = np.zeros(len(steps))
    buckets = []
    for i, step in enumerate(steps):
        start[i] = now = clock.seconds(step.start)
        for phase, stamps in step.marks:
            end = max(now, *map(clock.seconds, stamps))
            phases[i, phase] += end - now
            now = end
        buckets.append(
            [
                (clock.seconds(begin) - start[i], clock.seconds(ends[0]) - start[i])
                for _, begin, ends in step.buckets
            ]
        )
    losses = [torch.stack([loss.float().mean() for loss in step.losses]).mean() for step in steps]
    loss = torch.stack(losses).cpu().numpy() if losses else np.zeros(0)
    sizes = [tuple(size for size, *_ in step.buckets) for step in steps]
    return Values(start, phases, [step.images for step in steps], loss, buckets, sizes)


def fitted(times, count, end):
    """Returns the times of the buckets of a step as (bucket, 2) of `count` buckets.
    DistributedDataParallel divides the gradients into other buckets in its first step, and an
    accumulating step reduces none; `end` is then their time.
    """
    rows = [tuple(row) for row in times[:count]]
    if count and len(times) > count:
        rows[-1] = (rows[-1][0], max(last for _, last in times[count - 1 :]))
    last = rows[-1][1] if rows else end
    return np.array(rows + [(last, last)] * (count - len(rows))).reshape(count, 2)


def fitted_times(times, count, phases):
    """Returns (step, rank, bucket, 2): `times` (rank, step) of [(start, end), ...], fitted to
    `count` buckets. `phases`: (rank, step, phase) in seconds."""
    before_update = PHASES.index("update")
    found = [
        [fitted(row, count, each[:before_update].sum()) for row, each in zip(of, own)]
        for of, own in zip(times, phases)
    ]
    return np.array(found).reshape(len(found), len(found[0]), count, 2).swapaxes(0, 1)


def refitted(columns, count):
    """Returns the columns {path: values} of steps with the times of /buckets for `count` buckets
    instead of those that they have."""
    phases = np.swapaxes(columns["/steps/phase_seconds"], 0, 1)
    ranks, steps, _ = phases.shape
    known = [
        columns.get(f"/buckets/{name}_seconds", np.zeros((steps, ranks, 0)))
        for name in ("start", "end")
    ]
    times = fitted_times(np.swapaxes(np.stack(known, axis=-1), 0, 1), count, phases)
    made = {"start": times[..., 0], "end": times[..., 1], "call": times[..., 1] - times[..., 0]}
    return columns | {f"/buckets/{name}_seconds": value for name, value in made.items()}


def epoch_columns(epoch, found, ranks, buckets, is_on_gpus):
    """Returns {path: values} of an epoch. `found`: (`Values`, {measured quantity: value}, error of
    the clock) of each rank."""
    values = [of for of, *_ in found]
    # A rank with more batches than others trains them alone.
    count = min(len(of.images) for of in values)
    images = np.array([of.images[:count] for of in values])
    losses = np.array([of.loss[:count] for of in values])
    times = fitted_times(
        [of.buckets[:count] for of in values], buckets, [of.phases for of in values]
    )
    is_one_host = len({of["hostname"] for of in ranks}) == 1
    errors = [[error, error] for *_, error in found]
    loss = (losses * images).sum(axis=0) / images.sum(axis=0)
    columns = {
        "/step": np.arange(1, count + 1),
        "/epoch": [epoch],
        "/steps/epoch": np.full(count, epoch),
        "/steps/images": images.sum(axis=0),
        "/steps/loss": loss,
        "/steps/phase_seconds": np.stack([of.phases[:count] for of in values], axis=1),
        "/steps/start_seconds": np.stack([of.start[:count] for of in values], axis=1),
        "/buckets/start_seconds": times[..., 0],
        "/buckets/end_seconds": times[..., 1],
        "/epochs/train_loss": [np.average(loss, weights=images.sum(axis=0))],
        "/epochs/seconds": [
            values[0].start[count - 1] + values[0].phases[count - 1].sum() - values[0].start[0]
        ],
        # The monotonic clocks of several hosts are not compared.
        "/epochs/clock_offset_seconds": np.full((1, len(ranks), 2), 0.0 if is_one_host else np.nan),
        "/epochs/clock_error_seconds": [errors],
    }
    if is_on_gpus:  # which reduce beside the computation
        columns["/buckets/call_seconds"] = times[..., 1] - times[..., 0]
    for name in ("cpu_seconds", "peak_resident_memory_bytes"):
        columns[f"/epochs/{name}"] = [[measured[name] for _, measured, _ in found]]
    return columns
