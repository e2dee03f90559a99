# SPDX-License-Identifier: BSD-3-Clause
"""Run files with planted parameters, and a test of the coverage of intervals."""

import math

import h5py
import numpy as np
from synthetic import dataset, header, write_clocks, write_ranks, write_run


def check_coverage(hits, repeats, coverage=0.95, exact=True):
    """Asserts that `hits` of `repeats` intervals with the stated coverage contain the true value:
    the number is within the central 99.9 % of its binomial distribution. Intervals from order
    statistics cover more than stated, so only too few hits fail unless `exact`."""

    def below(k):  # P(X < k)
        return sum(
            math.comb(repeats, i) * coverage**i * (1 - coverage) ** (repeats - i) for i in range(k)
        )

    assert below(hits + 1) > 5e-4, f"only {hits} of {repeats} intervals contain the true value"
    if exact:
        assert 1 - below(hits) > 5e-4, f"{hits} of {repeats}: the intervals are too wide"


def noise(random, sigma, shape=None, correlation=0.0):
    """Factors with median 1; along the first axis, their logarithms are autoregressive."""
    values = random.standard_normal(shape)
    for i in range(1, len(values) if correlation else 0):
        values[i] = correlation * values[i - 1] + np.sqrt(1 - correlation**2) * values[i]
    return np.exp(sigma * values)


def write_sweep(
    path,
    random,
    ranks,
    alpha,
    beta,
    sizes,
    sigma=0.02,
    repeats=9,
    algorithm="ring",
    config=(),
    hosts=None,
):
    """Writes a sweep with the times alpha + beta · bytes."""
    sizes = np.asarray(sizes)
    seconds = (alpha + beta * sizes)[:, None] * noise(random, sigma, (len(sizes), repeats))
    with h5py.File(path, "w", libver="latest") as file:
        header(file, config={"device": "cpu", **dict(config)}, attributes={"part": 1})
        dataset(file, "/rank", np.arange(ranks))
        names = hosts or [f"node{rank}" for rank in range(ranks)]
        write_ranks(file, ranks, {"hostname": names})
        dataset(file, "/message", np.arange(len(sizes)))
        dataset(file, "/repeat", np.arange(repeats))
        dataset(file, "/allreduce/algorithm", np.array([algorithm] * len(sizes)))
        dataset(file, "/allreduce/bytes", sizes.astype(np.uint64))
        dataset(file, "/allreduce/seconds", seconds)
        dataset(file, "/allreduce/wrong", np.zeros(len(sizes), dtype=np.uint64))
    return path


def ends_of(random, ready, seconds, sigma):
    """Returns (step, bucket): the ends of the all-reduces, one after the other, of buckets that are
    ready at (step, rank, bucket) and take `seconds`."""
    count = len(ready)
    end, free = np.empty((count, len(seconds))), np.zeros(count)
    for i, duration in enumerate(seconds):
        begin = np.maximum(free, ready[:, :, i].max(axis=1))
        free = end[:, i] = begin + duration * noise(random, sigma, count)
    return end


def phases_of(own, end):
    """Returns (step, rank, phase) for the work of the ranks and the ends of the all-reduces."""
    phases = np.zeros((*own.shape, 6))
    phases[:, :, 2], phases[:, :, 3] = 0.3 * own, 0.7 * own
    phases[:, :, 4] = end[:, -1:] - own if end.shape[1] else 0
    phases[:, :, 5] = 0.002
    return phases


def write_training(
    path,
    random,
    ranks=4,
    steps=40,
    sizes=(4e6, 2e6, 1e6),
    alpha=1e-3,
    beta=1e-9,
    work=0.05,
    sigma=0.02,
    slow_rank=None,
    slow=0.0,
    clock_rank=None,
    clock=0.0,
    reducer="overlap",
    images=128,
    batch=32,
    jitter=1e-5,
    correlation=0.0,
    clock_error=5e-6,
    environment=(),
    config=(),
    attributes_of=(),
    **options,
):
    """Writes a training of `steps` steps in the second of two epochs. A rank works `work` seconds
    per step (30 % forward, 70 % backward) with the noise `sigma`, which has the given correlation
    of successive steps, `slow_rank` longer by `slow` seconds. The buckets of equal shares of the
    backward pass are reduced one after the other in alpha + beta · bytes; the update follows the
    last one, because gradients are clipped. The clock of `clock_rank` is ahead by `clock` seconds,
    but the recorded offsets are 0 with the errors `clock_error`. A step has `images` images on any
    number of ranks, so that all runs have the same setting."""
    count, sizes = steps + 1, np.asarray(sizes)
    own = work * noise(random, sigma, (count, ranks), correlation)
    if slow_rank is not None:
        own[:, slow_rank] += slow
    shares = np.arange(1, len(sizes) + 1) / len(sizes)
    if reducer == "allreduce":
        shares[:] = 1
    ready = own[:, :, None] * (0.3 + 0.7 * shares)
    end = ends_of(random, ready, alpha + beta * sizes, sigma)
    phases = phases_of(own, end)
    starts = np.zeros((count, ranks))
    starts[1:] = np.cumsum(phases.sum(axis=2).max(axis=1))[:-1, None]
    ends = end[:, None, :] + jitter * random.standard_normal((count, ranks, len(sizes)))
    write_run(
        path,
        phases,
        images,
        batch=batch,
        reducer=reducer,
        bucket_bytes=sizes,
        bucket_start=ready,
        bucket_end=ends,
        config={"grad-clip": "1", "train-samples": str(steps * images), **dict(config)},
        attributes={
            "part": 1,
            "first_step": 0,
            "steps_per_epoch": steps,
            "images_per_epoch": steps * images,
            **dict(attributes_of),
        },
        epoch_of_step=np.array([1] + [2] * steps),
        environment={"all_reduce": "ring", "transport": "Open MPI", **dict(environment)},
        ranks_of={"hostname": [f"node{rank}" for rank in range(ranks)]},
        **options,
    )
    if clock_rank is not None:
        starts[:, clock_rank] += clock
    return write_clocks(path, starts, error=clock_error)
