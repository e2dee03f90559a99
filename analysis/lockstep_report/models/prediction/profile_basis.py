# SPDX-License-Identifier: BSD-3-Clause
"""A basis from a run without all-reduces: the profile of the operations (`--profile`) gives the
times at which the gradients are final."""

import re

import numpy as np

from lockstep_report.measure.window import batch_per_rank
from lockstep_report.models.prediction.basis import made, step_times

CONVOLUTION = re.compile(r"convolution (\d+)x(\d+).*, (\d+)x\d+x\d+ -> (\d+)x\d+x\d+")
BATCH_NORM = re.compile(r"batch norm.*, (\d+)x\d+x\d+")
LINEAR = re.compile(r"linear, (\d+)x(\d+)x(\d+)")
UPDATE_BYTES = 20  # of memory traffic per parameter: reads 3, writes 2 values of 4 bytes
TOLERANCE = 0.01  # relative difference of the two counts of the parameters
MIB = 2**20


def parameters_of(kind, phase, flops, batch):
    """Returns the number of parameters whose gradients an operation of the backward pass
    completes. `flops`: of a linear layer, 4 per weight and image in both directions together."""
    convolution, norm, linear = (p.match(kind) for p in (CONVOLUTION, BATCH_NORM, LINEAR))
    if convolution:
        height, width, inputs, outputs = map(int, convolution.groups())
        return height * width * inputs * outputs if phase == "backward weights" else 0
    if norm:
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
    chosen = [i for i, phase in enumerate(phases)
              if phase.startswith("backward") and profile["kind"][i] != "backward"]
    # Loss and seconds of an operation that another rank executes in another form are NaN there.
    seconds = np.nan_to_num(np.asarray(profile["seconds"], dtype=float)[chosen, 0])
    batch = batch_per_rank(run)
    counts = np.array([parameters_of(str(profile["kind"][i]), phases[i],
                                     float(profile["flops"][i]), batch) for i in chosen])
    updated = float(np.sum(np.asarray(profile["bytes"])[phases == "update"])) / UPDATE_BYTES
    if counts.sum() == 0 or seconds.sum() <= 0 or (
            abs(counts.sum() - updated) > TOLERANCE * counts.sum()):
        return None
    return counts, np.cumsum(seconds) / seconds.sum()


def profile_basis_of(run, point):
    """Returns the basis of a run that trained with a profile; None if it has none that accounts for all
    parameters. The buckets have the size of --bucket-mib; a bucket is final when the operation has
    ended that completes its last gradient."""
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
    return made(run, point, "overlap", times, ready, np.diff(ends, prepend=0.0),
                [f"{run.label}: the times at which gradients are final follow from its profile"])
