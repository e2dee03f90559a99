# SPDX-License-Identifier: BSD-3-Clause
"""The measured step on which a prediction is based: the times of each step and rank at which the
gradients of each bucket are final, the end of the backward pass, and the time of the update."""

from dataclasses import dataclass, replace

import numpy as np

from lockstep_report.measure.choices import ALL_REDUCES, algorithm_of, library_of
from lockstep_report.measure.points import Point
from lockstep_report.measure.window import batch_per_rank, timed_window
from lockstep_report.runfile.experiment import LOCKSTEP, program_of

BEFORE = ("data_wait", "upload", "forward")  # phases before the backward pass


@dataclass(frozen=True)
class Basis:
    """Times are in seconds from the start of the step on each rank."""

    source: str
    point: Point  # of the run
    batch: int  # per rank
    reducer: str
    library: str
    algorithm: str
    ready: np.ndarray  # (step, rank, bucket): the gradients of the bucket are final
    backward_start: np.ndarray  # (step, rank)
    backward_end: np.ndarray  # (step, rank)
    update: np.ndarray  # (step, rank)
    sizes: np.ndarray  # (bucket), bytes
    updates_by_bucket: bool  # a bucket is updated as soon as it is reduced
    measured_step: float  # mean
    notes: tuple = ()

    @property
    def setting(self):
        return self.point.setting

    @property
    def ranks(self):
        return self.point.ranks

    @property
    def has_overlap(self):
        return self.reducer == "overlap"


def step_times(run):
    """Returns (start of the backward pass, its time, time of the update) of the timed steps, each (step, rank); None
    for a pipeline, or if a time is not finite."""
    seconds = run.phase_seconds[timed_window(run).steps]
    if run.stage_count > 1 or not np.all(np.isfinite(seconds)) or seconds.sum() <= 0:
        return None
    phases = {name: seconds[:, :, i] for i, name in enumerate(run.phases)}
    return sum(phases[name] for name in BEFORE), phases["backward"], phases["update"]


def made(run, point, reducer, times, ready, sizes, notes):
    """Returns the basis with the times `step_times`, and the times `ready` of buckets of these sizes."""
    start, backward, update = times
    return Basis(run.label, point, batch_per_rank(run), reducer, library_of(run), algorithm_of(run), ready, start,
                 start + backward, update, sizes, updates_by_bucket(run), point.mean_step, tuple(notes))


def basis_of(run, point):
    """Returns the basis of a run that trained and its point; None if it has no buckets of a
    synchronous training, or if a time is not finite."""
    times = step_times(run)
    if times is None or run.option("reducer") not in ALL_REDUCES or run.bucket_bytes.sum() <= 0:
        return None
    window = timed_window(run)
    starts, end = run.bucket_start[window.steps], (times[0] + times[1])[:, :, None]
    if not np.all(np.isfinite(starts)):
        return None
    ready = np.broadcast_to(end, starts.shape) if run.option("reducer") == "allreduce" else np.minimum(starts, end)
    notes = []
    if library_of(run) == "NCCL" and len(run.bucket_bytes) > 1:
        notes.append(f"{run.label}: NCCL starts a bucket after the previous one, so the times at "
                     "which gradients are final are upper bounds for the later buckets")
    notes += [f"{name}: {lack.note}" for name, lack in point.lacks.items()]
    if window.is_extrapolated:
        notes.append(f"{run.label}: {point.rule}")
    return made(run, point, run.option("reducer"), times, ready, np.asarray(run.bucket_bytes, dtype=float), notes)


def updates_by_bucket(run):
    """Whether a bucket is updated as soon as it is reduced: fp16 and --grad-clip need all gradients
    before the update, CPUs wait for all of them with the reducer `allreduce`, and PyTorch always."""
    clips = run.number("grad-clip", float) is not None
    waits = run.option("reducer") == "allreduce" and run.option("device") == "cpu"
    return program_of(run) == LOCKSTEP and run.option("precision") != "fp16" and not clips and not waits


def with_bucket_bytes(basis, size):
    """Returns the basis with buckets of `size` bytes instead of the measured ones. The time at
    which gradients are final is interpolated linearly over the bytes of the backward pass between
    the ends of the measured buckets."""
    total = basis.sizes.sum()
    ends = np.append(np.arange(size, total, size), total)
    known = np.concatenate([[0.0], np.cumsum(basis.sizes)])
    times = np.concatenate([basis.backward_start[:, :, None], basis.ready], axis=2)
    place = np.clip(np.searchsorted(known, ends), 1, len(known) - 1)
    share = (ends - known[place - 1]) / (known[place] - known[place - 1])
    ready = times[:, :, place - 1] + share * (times[:, :, place] - times[:, :, place - 1])
    return replace(basis, ready=ready, sizes=np.diff(ends, prepend=0.0),
                   notes=(*basis.notes, f"buckets of {size / 2**20:g} MiB: times of the gradients "
                                        "interpolated between the measured buckets"))
