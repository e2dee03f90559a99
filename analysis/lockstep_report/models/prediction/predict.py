# SPDX-License-Identifier: BSD-3-Clause
"""Predicts the step time on other numbers of ranks from a basis and a network."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lockstep_report.measure.inference import autocorrelation_time, student_quantile

REPLICATES = 200  # samples of the measured steps and of the network, for the intervals
STEPS = 64  # simulated steps of a replicate
MOST_PAIRS = 20_000  # measured (step, rank) pairs; of more, evenly spaced steps are used
SEED = 1
PERCENTILES = (2.5, 97.5)
# independent measured (step, rank) pairs per predicted rank, with fewer of which it is marked
PAIRS_PER_RANK = 10
TAIL_SHARE = 0.03  # of the deviations, whose distribution is fitted
SMALLEST_TIME = 1.5  # autocorrelation time in steps, above which steps are drawn in blocks
LEVELS = 64  # of the distribution of a maximum, for its mean
BIAS_REPLICATES = 50
SHAPES = (-0.5, 0.5)  # of the generalized Pareto distribution
SMALLEST_DOF = 3  # of Student's t
SMALLEST_TAIL = 10  # deviations of which it is fitted


class PredictedQuantity(NamedTuple):
    """The median of a quantity over the replicates, and its 95 % range."""

    value: float
    low: float
    high: float

    def rate(self, work, factor=1):
        """Returns `work` per `factor` times the quantity."""
        return PredictedQuantity(*(work / (factor * x) for x in (self.value, self.high, self.low)))


@dataclass(frozen=True)
class Predicted:
    """The prediction for one number of ranks. Seconds are means over the steps of a replicate."""

    basis: object
    network: object
    ranks: int
    step: PredictedQuantity
    exposed: PredictedQuantity  # mean over the ranks
    all_reduce: PredictedQuantity  # sum of the all-reduces of a step
    straggler: (
        PredictedQuantity  # end of the backward pass on the last rank less the mean over the ranks
    )
    alone: float  # step time on one rank without communication: predicted mean work of a rank
    is_tail_extrapolated: bool  # fewer than PAIRS_PER_RANK measured pairs per rank

    @property
    def images_per_second(self):
        return self.step.rate(self.ranks * self.basis.batch)


def predict(basis, network, ranks, seed=SEED):
    """Returns the prediction for `ranks` ranks with the batch per rank of the basis.

    Each replicate draws blocks of measured steps with replacement and the quantities of the network
    uniformly between their ends. Of each simulated step, the part that the ranks have in common is
    that of a drawn measured step, and the deviation of the last rank is the maximum of `ranks`
    draws from the distribution of the measured deviations, whose upper tail is fitted.
    """
    random = np.random.default_rng([seed, ranks])
    work = measured_work(basis)
    common, deviations = spread_of(work)
    tau = float(np.mean([autocorrelation_time(series) for series in work[:, :, -2].T]))
    tau = tau if tau > SMALLEST_TIME else 1.0
    block = min(len(work), math.ceil(2 * tau)) if tau > 1 else 1
    missing = missing_maximum(deviations, ranks, block, random)
    values = network.draw(random, REPLICATES)
    # (replicate, bucket)
    comm = np.stack([network.seconds(ranks, size, values) for size in basis.sizes], axis=1)
    sample = Sample(common, deviations, block, missing)
    replicates = [
        replicate(basis, network, ranks, random, sample, comm[k : k + 1]) for k in range(REPLICATES)
    ]
    # About pairs / ranks independent maxima were measured, so the range is that of Student's t.
    pairs = work.shape[0] * work.shape[1] / tau
    wide = student_quantile(max(SMALLEST_DOF, int(pairs / ranks) - 1)) / student_quantile(10**4)
    return Predicted(
        basis,
        network,
        ranks,
        step=range_of([one.step for one in replicates], wide),
        exposed=range_of([one.exposed for one in replicates], wide),
        all_reduce=range_of([one.all_reduce for one in replicates], 1),
        straggler=range_of([one.straggler for one in replicates], wide),
        alone=float((basis.backward_end + basis.update).mean()),
        is_tail_extrapolated=PAIRS_PER_RANK * ranks > pairs,
    )


class Sample(NamedTuple):
    """The measured times from which the replicates are drawn."""

    common: np.ndarray  # (step, quantity), see `spread_of`
    deviations: np.ndarray  # (step, rank, quantity)
    block: int  # number of consecutive steps that are drawn together
    missing: np.ndarray  # (quantity), see `missing_maximum`


class Replicate(NamedTuple):
    """Means over the simulated steps of one replicate, in seconds."""

    step: float
    exposed: float
    all_reduce: float
    straggler: float  # excess of the last rank


def measured_work(basis):
    """Returns (step, rank, quantity): the times of a step at which the gradients of each bucket are
    final, the end of the backward pass, and the time of the update; of many steps, evenly spaced
    ones."""
    work = np.concatenate(
        [basis.ready, basis.backward_end[:, :, None], basis.update[:, :, None]], axis=2
    )
    return work[:: math.ceil(work.shape[0] * work.shape[1] / MOST_PAIRS)]


def range_of(values, factor):
    """Returns the `PredictedQuantity` of replicates; the range is `factor` times as wide as
    theirs."""
    middle = float(np.median(values))
    low, high = (
        middle + factor * (float(end) - middle) for end in np.percentile(values, PERCENTILES)
    )
    return PredictedQuantity(middle, low, high)


def spread_of(work):
    """Returns (step, quantity) the part of `work` (step, rank, quantity) that the ranks of a step
    have in common and (step, rank, quantity) the deviations from it. Both have the variance that
    the correlation of the ranks gives them: without correlation, the deviations are those from the
    mean of all steps, which keeps their distribution. With one rank, all of the spread is
    deviation."""
    steps, ranks, _ = work.shape
    center, mean = work.mean(axis=(0, 1)), work.mean(axis=1)
    of_means = mean.var(axis=0) * steps / max(1, steps - 1)
    of_ranks = work.var(axis=1).mean(axis=0) * ranks / max(1, ranks - 1)
    shared = np.zeros_like(center)
    if ranks > 1:
        shared = np.clip(1 - of_ranks / ranks / np.where(of_means > 0, of_means, np.inf), 0, 1)
        shared = np.where(of_means > 0, shared, 0)
    common = center + np.sqrt(shared) * (mean - center)
    deviations = work - center - ((1 - np.sqrt(1 - shared)) * (mean - center))[:, None]
    return common, deviations


def quantiles(ordered, probability):
    """Returns the quantiles of the distribution of the columns of `ordered` (n, quantity): between
    the ordered values, and a generalized Pareto distribution in the upper tail."""
    count = len(ordered)
    tail = max(SMALLEST_TAIL, int(TAIL_SHARE * count))
    found = np.quantile(ordered, probability, method="hazen", axis=0)
    if 2 * tail > count:
        return found
    start = (ordered[count - tail - 1] + ordered[count - tail]) / 2
    excess = ordered[count - tail :] - start
    weights = 1 - (np.arange(tail) + 0.65) / tail
    # Weighted moments.
    first, second = (
        excess.mean(axis=0),
        (weights[:, None] * excess).mean(axis=0),
    )
    difference = np.where(first > 2 * second, first - 2 * second, np.inf)
    shape = np.clip(2 - first / difference, *SHAPES)
    scale = first * (1 - shape)
    beyond = np.maximum((1 - probability) * count / tail, 1e-12)[:, None]
    is_bent = np.abs(shape) > 1e-6
    bent = np.where(is_bent, shape, 1.0)
    fitted = start + scale * np.where(is_bent, (beyond**-bent - 1) / bent, -np.log(beyond))
    return np.where(beyond < 1, fitted, found)


def drawn_blocks(random, steps, block):
    """Returns indices of steps: blocks of consecutive ones, drawn with replacement."""
    begins = random.integers(steps, size=math.ceil(steps / block))
    return ((begins[:, None] + np.arange(block)) % steps).ravel()[:steps]


def pool_of(deviations, steps=slice(None)):
    """Returns the deviations of all ranks in the given steps, each quantity in ascending order."""
    return np.sort(deviations[steps].reshape(-1, deviations.shape[2]), axis=0)


def missing_maximum(deviations, ranks, block, random):
    """Returns (quantity): by how much the maximum of `ranks` draws from a sample is too small on
    average. It is estimated by how much smaller it is in replicates of the sample than in the
    sample: twice this difference for the replicates, which are samples of a sample."""
    levels = ((np.arange(LEVELS) + 0.5) / LEVELS) ** (1 / ranks)
    own = quantiles(pool_of(deviations), levels).mean(axis=0)
    drawn = [
        quantiles(pool_of(deviations, drawn_blocks(random, len(deviations), block)), levels)
        for _ in range(BIAS_REPLICATES)
    ]
    return 2 * (own - np.mean(drawn, axis=(0, 1)))


def replicate(basis, network, ranks, random, sample, comm):
    """Returns the `Replicate` of drawn steps. `comm` (1, bucket): the times of the all-reduces."""
    steps = len(sample.common)
    drawn = drawn_blocks(random, steps, sample.block)
    pool = pool_of(sample.deviations, drawn)
    own = sample.common[drawn[random.integers(steps, size=STEPS)]]
    # The maximum of n values is the quantile u^(1/n) of their distribution. A rank that is late
    # with one bucket is late with all, so they share u; the update follows and has its own.
    late, last = (random.random(STEPS) ** (1 / ranks) for _ in range(2))
    work = own + quantiles(pool, late) + sample.missing
    mean_end = own[:, -2]
    backward_end = np.maximum(work[:, -2], work[:, :-2].max(axis=1))
    late_update = quantiles(pool[:, -1:], last)[:, 0]
    update = np.maximum(0, own[:, -1] + late_update + sample.missing[-1])
    seconds = schedule(
        work[:, :-2],
        backward_end,
        update,
        comm,
        basis.sizes,
        network.overlap,
        basis.reducer == "overlap",
        basis.updates_by_bucket,
    )
    exposed = np.maximum(0, seconds - update - mean_end)
    return Replicate(
        step=seconds.mean(),
        exposed=exposed.mean(),
        all_reduce=comm.sum(axis=1).mean(),
        straggler=(backward_end - mean_end).mean(),
    )


def schedule(
    ready,
    backward_end,
    update,
    all_reduces,
    sizes,
    overlap=1.0,
    has_overlap=True,
    updates_by_bucket=True,
):
    """Returns the times (draw) of simulated steps: all-reduces of buckets one after the other, and
    the updates.

    `ready` (draw, bucket): the gradients of the bucket are final on the last rank; `backward_end`,
    `update` (draw): of the last rank; `all_reduces` (draw or 1, bucket): their times alone. During
    the backward pass an all-reduce progresses at the rate `overlap`. Without `has_overlap` the
    all-reduces start at the end of the backward pass.
    """
    if not has_overlap:
        ready = np.broadcast_to(backward_end[:, None], ready.shape)
    free = np.full(len(backward_end), -np.inf)  # end of the previous all-reduce
    now = backward_end.copy()
    shares = sizes / sizes.sum() if updates_by_bucket else None
    for i in range(ready.shape[1]):
        start = np.maximum(ready[:, i], free)
        work = np.broadcast_to(all_reduces[:, i], start.shape)
        done = overlap * np.maximum(0.0, backward_end - start)  # work done at its end
        free = np.maximum(start, backward_end) + work - done
        if overlap > 0:
            free = np.where(done >= work, start + work / overlap, free)
        if updates_by_bucket:
            now = np.maximum(now, free) + shares[i] * update
    if not updates_by_bucket:
        now = np.maximum(now, free) + update
    return now
