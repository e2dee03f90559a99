# SPDX-License-Identifier: BSD-3-Clause
"""The measured step on which a prediction is based. Its times are those of each step and rank: when
the gradients of each bucket are final, the end of the backward pass, and the time of the update.
They follow from the measured buckets of a run, or without all-reduces from the profile of its
operations (`--profile`)."""

import math
import re
from dataclasses import dataclass, replace

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.groups import grouped
from lockstep_report.measure.choices import ALL_REDUCES, algorithm_of, library_of
from lockstep_report.measure.comparison import differences
from lockstep_report.measure.points import Point
from lockstep_report.measure.window import batch_per_rank, timed_window
from lockstep_report.runfile.experiment import LOCKSTEP, program_of
from lockstep_report.runfile.settings import some_of

CONVOLUTION = re.compile(r"convolution (\d+)x(\d+).*, (\d+)x\d+x\d+ -> (\d+)x\d+x\d+")
BATCH_NORM = re.compile(r"batch norm.*, (\d+)x\d+x\d+")
LINEAR = re.compile(r"linear, (\d+)x(\d+)x(\d+)")
UPDATE_BYTES = 20  # of memory traffic per parameter: reads 3, writes 2 values of 4 bytes
TOLERANCE = 0.01  # relative difference of the two counts of the parameters
MIB = 2**20
RECOMPUTE = (  # phase of a profile: computes the output of an operation again in the backward pass
    "recompute"
)
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
    def conditions(self):
        return self.setting, self.batch, self.reducer


def step_times(run):
    """Returns (start of the backward pass, its time, time of the update) of the timed steps, each
    (step, rank); None for a pipeline, or if a time is not finite."""
    seconds = run.phase_seconds[timed_window(run).steps]
    if run.stage_count > 1 or not np.all(np.isfinite(seconds)) or seconds.sum() <= 0:
        return None
    phases = {name: seconds[:, :, i] for i, name in enumerate(run.phases)}
    return sum(phases[name] for name in BEFORE), phases["backward"], phases["update"]


def made(run, point, reducer, times, ready, sizes, notes):
    start, backward, update = times
    return Basis(
        run.label,
        point,
        batch_per_rank(run),
        reducer,
        library_of(run),
        algorithm_of(run),
        ready,
        start,
        start + backward,
        update,
        sizes,
        updates_by_bucket(run),
        point.mean_step,
        tuple(notes),
    )


def basis_of(run, point):
    """Returns the basis of a run with buckets of a synchronous training and finite times; None for
    other runs."""
    times = step_times(run)
    if times is None or run.option("reducer") not in ALL_REDUCES or run.bucket_bytes.sum() <= 0:
        return None
    window = timed_window(run)
    starts, end = run.bucket_start[window.steps], (times[0] + times[1])[:, :, None]
    if not np.all(np.isfinite(starts)):
        return None
    ready = (
        np.broadcast_to(end, starts.shape)
        if run.option("reducer") == "allreduce"
        else np.minimum(starts, end)
    )
    notes = []
    if library_of(run) == "NCCL" and len(run.bucket_bytes) > 1:
        notes.append(
            f"{run.label}: NCCL starts a bucket after the previous one, so the times at "
            "which gradients are final are upper bounds for the later buckets"
        )
    if window.is_extrapolated:
        notes.append(f"{run.label}: {point.rule}")
    return made(
        run,
        point,
        run.option("reducer"),
        times,
        ready,
        np.asarray(run.bucket_bytes, dtype=float),
        notes,
    )


def updates_by_bucket(run):
    """Whether a bucket is updated as soon as it is reduced: fp16 and --grad-clip need all gradients
    before the update, CPUs wait for all of them with the reducer `allreduce`, and PyTorch always.
    """
    clips = run.number("grad-clip", float) is not None
    waits = run.option("reducer") == "allreduce" and run.option("device") == "cpu"
    return (
        program_of(run) == LOCKSTEP
        and run.option("precision") != "fp16"
        and not clips
        and not waits
    )


def with_bucket_bytes(basis, size):
    """Returns the basis with buckets of `size` bytes instead of the measured ones. The time at
    which gradients are final is interpolated linearly over the bytes of the backward pass between
    the ends of the measured buckets.
    """
    total = basis.sizes.sum()
    ends = np.append(np.arange(size, total, size), total)
    known = np.concatenate([[0.0], np.cumsum(basis.sizes)])
    times = np.concatenate([basis.backward_start[:, :, None], basis.ready], axis=2)
    place = np.clip(np.searchsorted(known, ends), 1, len(known) - 1)
    share = (ends - known[place - 1]) / (known[place] - known[place - 1])
    ready = times[:, :, place - 1] + share * (times[:, :, place] - times[:, :, place - 1])
    return replace(
        basis,
        ready=ready,
        sizes=np.diff(ends, prepend=0.0),
        notes=(
            *basis.notes,
            (
                f"buckets of {size / MIB:g} MiB: times of the gradients "
                "interpolated between the measured buckets"
            ),
        ),
    )


def parameters_of(kind, phase, flops, batch):
    """Returns the number of parameters whose gradients an operation of the backward pass
    completes. `flops`: of a linear layer, 4 per weight and image in both directions together."""
    convolution, norm, linear = (p.match(kind) for p in (CONVOLUTION, BATCH_NORM, LINEAR))
    if convolution:
        weights = math.prod(map(int, convolution.groups()))
        return weights if phase == "backward weights" else 0
    if norm and phase != RECOMPUTE:
        return 2 * int(norm[1])
    if linear and batch:
        weights = round(flops / (4 * batch))
        features = int(linear[1]) * int(linear[2]) * int(linear[3])
        return weights + weights // features
    return 0


def gradient_times(run):
    """Returns (parameters, share): for each operation of the backward pass in order, the number of
    parameters whose gradients it completes, and the share of the backward pass that has passed at
    its end. None if the profile does not account for all parameters."""
    profile = run.profile
    phases = np.asarray(profile["phase"], dtype=str)
    chosen = [
        i
        for i, phase in enumerate(phases)
        if (phase.startswith("backward") or phase == RECOMPUTE) and profile["kind"][i] != "backward"
    ]
    # Loss and seconds of an operation that another rank executes in another form are NaN there.
    seconds = np.nan_to_num(np.asarray(profile["seconds"], dtype=float)[chosen, 0])
    batch = batch_per_rank(run)
    counts = np.array(
        [
            parameters_of(str(profile["kind"][i]), phases[i], float(profile["flops"][i]), batch)
            for i in chosen
        ]
    )
    updated = float(np.sum(np.asarray(profile["bytes"])[phases == "update"])) / UPDATE_BYTES
    if (
        counts.sum() == 0
        or seconds.sum() <= 0
        or abs(counts.sum() - updated) > TOLERANCE * counts.sum()
    ):
        return None
    return counts, np.cumsum(seconds) / seconds.sum()


def profile_basis_of(run, point):
    """Returns the basis of a run that trained with a profile; None if it has none that accounts for
    all parameters. The buckets have the size of --bucket-mib; a bucket is final when the operation
    has ended that completes its last gradient."""
    times, found = step_times(run), gradient_times(run) if run.profile else None
    if times is None or found is None:
        return None
    counts, share = found
    element = 4 if run.option("gradient-dtype", "fp32") == "fp32" else 2
    done = element * np.cumsum(counts).astype(float)
    size = float(run.option("bucket-mib", "6")) * MIB * element / 4
    ends = np.append(np.arange(size, done[-1], size), done[-1])
    start, backward, _ = times
    ready = start[:, :, None] + backward[:, :, None] * share[np.searchsorted(done, ends)]
    return made(
        run,
        point,
        "overlap",
        times,
        ready,
        np.diff(ends, prepend=0.0),
        [f"{run.label}: the times at which gradients are final follow from its profile"],
    )


def best_bases(trained):
    """Returns one basis of the runs `trained` ([(run, point)]) per series, batch per rank and
    reducer: the run with the most ranks, whose conditions are nearest to those of the prediction;
    of repeated runs, the one with the median step (the shorter of both for an even number).
    Measured buckets are preferred to times that follow from a profile. Runs whose ranks lacked
    processors are no basis.
    """
    disturbed = [point for _, point in trained if point and point.lacks_processors]
    found = bases_of(
        [(run, point) for run, point in trained if point and not point.lacks_processors]
    )
    return [with_left_out(basis, disturbed) for basis in found]


def bases_of(trained):
    found = []
    for make in (basis_of, profile_basis_of):
        groups = grouped(
            filter(None, (make(run, point) for run, point in trained if point)),
            lambda basis: (basis.point.series, basis.batch, basis.reducer),
        )
        for basis in sorted(map(median_basis, groups.values()), key=lambda basis: -basis.ranks):
            if not any(
                basis.conditions == other.conditions and not differences(basis.point, other.point)
                for other in found
            ):
                found.append(basis)
    return sorted(found, key=lambda basis: basis.conditions)


def with_left_out(basis, disturbed):
    """Returns the basis with a note about the runs that would be it if their ranks had had
    processors."""
    names = [
        point.source
        for point in disturbed
        if point.setting == basis.setting
        and (point.batch_per_rank, point.reducer) == (basis.batch, basis.reducer)
        and point.ranks >= basis.ranks
    ]
    if not names:
        return basis
    note = f"no basis, because their ranks lacked processors: {some_of(names)}"
    return replace(basis, notes=(*basis.notes, note))


def require_bases(trained, bases):
    """Raises `ReportError` (input) if the runs `trained` have no basis. `bases`: `best_bases` of
    them."""
    if bases:
        return
    disturbed = bases_of(trained)
    if not disturbed:
        raise ReportError(
            INPUT,
            f"{trained[0][0].path}: neither a run with the reducer overlap or allreduce on several "
            "ranks, whose buckets have times, nor one with a profile (--profile)",
        )
    lacks = {name: lack for basis in disturbed for name, lack in basis.point.lacks.items()}
    worst = max(lacks.values(), key=lambda lack: lack.share)
    raise ReportError(
        INPUT,
        f"{some_of(list(lacks))}: no undisturbed run to predict from: ranks lacked a processor for"
        f" up to {100 * worst.share:.0f} % of the epoch, because {worst.cause}",
    )


def median_basis(bases):
    most = max(basis.ranks for basis in bases)
    ordered = sorted((b for b in bases if b.ranks == most), key=lambda basis: basis.measured_step)
    return ordered[(len(ordered) - 1) // 2]


def at_batch(bases, batch):
    """Returns a basis with `batch` images per rank from those of one setting and reducer: the
    measured one, or the nearest one with its times scaled to the mean work that a line between the
    next smaller and the next larger batch gives. None if `batch` is not between measured ones."""
    low = max(
        (basis for basis in bases if basis.batch <= batch),
        key=lambda basis: basis.batch,
        default=None,
    )
    high = min(
        (basis for basis in bases if basis.batch > batch),
        key=lambda basis: basis.batch,
        default=None,
    )
    if low is not None and low.batch == batch:
        return low
    if low is None or high is None:
        return None
    share = (batch - low.batch) / (high.batch - low.batch)
    work = (1 - share) * low.backward_end.mean() + share * high.backward_end.mean()
    nearest = low if share < 0.5 else high
    scale = float(work / nearest.backward_end.mean())
    return replace(
        nearest,
        batch=batch,
        ready=scale * nearest.ready,
        backward_start=scale * nearest.backward_start,
        backward_end=scale * nearest.backward_end,
        notes=(
            *nearest.notes,
            (
                f"batch {batch}: work interpolated between batch {low.batch} "
                f"({low.source}) and batch {high.batch} ({high.source})"
            ),
        ),
    )
