"""Predicts the step time on other numbers of ranks from a basis and a network."""

import math
from dataclasses import dataclass

import numpy as np

from lockstep_report.prediction.schedule import schedule

REPLICATES = 200  # samples of the measured steps and of the network, for the intervals
STEPS = 64  # simulated steps of a replicate
MOST_PAIRS = 20_000  # measured (step, rank) pairs; of more, evenly spaced steps are used
SEED = 1
PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True)
class Predicted:
    """The prediction for one number of ranks. Each quantity is (value, low, high): the median and
    the 95 % range over the replicates. Seconds are means over the steps of a replicate."""

    basis: object
    network: object
    ranks: int
    step: tuple
    exposed: tuple  # mean over the ranks
    all_reduce: tuple  # sum of the all-reduces of a step
    straggler: tuple  # end of the backward pass on the last rank less the mean over the ranks
    alone: float  # step time on one rank without communication: predicted mean work of a rank
    is_tail_extrapolated: bool  # more ranks than measured (step, rank) pairs

    @property
    def images_per_second(self):
        value, low, high = (self.ranks * self.basis.batch / seconds for seconds in self.step)
        return value, high, low

    @property
    def label(self):
        """The library and the algorithm; a run with NCCL is never combined with a model of MPI
        under one label."""
        return self.network.label


def predict(basis, network, ranks, seed=SEED):
    """Returns the prediction for `ranks` ranks with the batch per rank of the basis.

    Each replicate draws the measured steps with replacement and the quantities of the network
    uniformly between their ends. Of each simulated step, the mean over the ranks is that of a drawn
    measured step, and the deviation of the last rank is the maximum of `ranks` draws from the
    measured deviations of all ranks.
    """
    random = np.random.default_rng([seed, ranks])
    work = np.concatenate([basis.ready, basis.backward_end[:, :, None],
                           basis.update[:, :, None]], axis=2)
    work = work[::math.ceil(work.shape[0] * work.shape[1] / MOST_PAIRS)]
    common, deviations = spread_of(work)
    values = network.draw(random, REPLICATES)
    found = []
    for k in range(REPLICATES):
        own = values[k] if isinstance(values, np.ndarray) else [(a[k], b[k]) for a, b in values]
        comm = np.array([[network.seconds(ranks, size, own) for size in basis.sizes]])
        found.append(replicate(basis, network, ranks, random, common, deviations, comm))
    columns = np.array(found)
    summary = [tuple(float(x) for x in (np.median(column), *np.percentile(column, PERCENTILES)))
               for column in columns.T]
    alone = float((basis.backward_end + basis.update).mean())
    return Predicted(basis, network, ranks, *summary, alone,
                     is_tail_extrapolated=ranks > deviations.shape[0] * deviations.shape[1])


def spread_of(work):
    """Returns (step, quantity) the mean over the ranks and (step, rank, quantity) the deviations
    from it, for `work` (step, rank, quantity). The deviations from the mean of R ranks have
    (R-1)/R of the variance of the ranks and are scaled by its inverse. With one rank, the
    deviations of the steps from their median are used."""
    ranks = work.shape[1]
    if ranks == 1:
        common = np.broadcast_to(np.median(work, axis=0), work[:, 0].shape)
        return common, work - common[:, None]
    common = work.mean(axis=1)
    return common, math.sqrt(ranks / (ranks - 1)) * (work - common[:, None])


def replicate(basis, network, ranks, random, common, deviations, comm):
    """Returns the means over the simulated steps of one replicate: step, exposed, all-reduce,
    excess of the last rank."""
    steps = len(common)
    drawn = random.integers(steps, size=steps)
    pool = np.sort(deviations[drawn].reshape(-1, deviations.shape[2]), axis=0)
    own = common[drawn[random.integers(steps, size=STEPS)]]
    # The maximum of n values is the quantile u^(1/n) of their distribution. A rank that is late
    # with one bucket is late with all, so they share u; the update follows and has its own.
    late, last = (np.ceil(len(pool) * random.random(STEPS) ** (1 / ranks)).astype(int) - 1
                  for _ in range(2))
    work = own + pool[np.maximum(0, late)]
    mean_end = own[:, -2]
    backward_end = np.maximum(work[:, -2], work[:, :-2].max(axis=1))
    update = np.maximum(0, own[:, -1] + pool[np.maximum(0, last), -1])
    made = schedule(work[:, :-2], backward_end, update, comm, basis.sizes,
                    network.overlap, basis.has_overlap, basis.updates_by_bucket)
    exposed = np.maximum(0, made.seconds - update - mean_end)
    return (made.seconds.mean(), exposed.mean(), made.all_reduce.mean(),
            (backward_end - mean_end).mean())
