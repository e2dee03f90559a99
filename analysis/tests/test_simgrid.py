# SPDX-License-Identifier: BSD-3-Clause
"""The models of the all-reduces and of the schedule, against a discrete-event simulation of every
message in SimGrid."""

import numpy as np
import pytest
import simgrid_replay as simgrid
from lockstep_report.measure.metrics import Bounds
from lockstep_report.models.prediction.network import Level, Network
from lockstep_report.models.prediction.predict import schedule

pytestmark = pytest.mark.requires("SIMGRID")
ALPHA, BETA = 20e-6, 1e-9
# The formulas are exact for these platforms; SimGrid completes an event within 1e-9 s or 1e-5.
EXACT = 2e-3


def network(algorithm, *levels):
    return Network(
        "test",
        "MPI",
        algorithm,
        tuple(
            Level(str(i), ranks, Bounds(alpha, alpha), Bounds(beta, beta), True)
            for i, (ranks, alpha, beta) in enumerate(levels)
        ),
    )


def modelled(net, ranks, size):
    return net.seconds(ranks, size, [(level.alpha.low, level.beta.low) for level in net.levels])


@pytest.mark.parametrize(
    "algorithm, selector, size",
    [("ring", "lr", 4_000_000), ("ring", "lr", 64_000), ("recursive-doubling", "rdb", 16_000)],
)
@pytest.mark.parametrize("ranks", [4, 16, 64, 256])
def test_all_reduce_of_simgrid_takes_the_modelled_time(tmp_path, algorithm, selector, size, ranks):
    size -= size % ranks
    simulated = simgrid.replay(
        tmp_path,
        simgrid.cluster(ranks, ALPHA, BETA),
        [[f"allreduce {size} 0 {simgrid.BYTE}"]] * ranks,
        range(ranks),
        f"--cfg=smpi/allreduce:{selector}",
    )
    expected = modelled(network(algorithm, (None, ALPHA, BETA)), ranks, size)
    assert simulated == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("ranks", [2, 8])
def test_messages_of_a_ring_take_the_modelled_time(tmp_path, ranks):
    size, members = 1_000_000, list(range(ranks))
    simulated = simgrid.replay(
        tmp_path,
        simgrid.cluster(ranks, ALPHA, BETA),
        [simgrid.ring(members, own, size) for own in members],
        members,
    )
    expected = modelled(network("ring", (None, ALPHA, BETA)), ranks, size)
    assert simulated == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("groups, size", [(2, 4), (8, 4), (4, 8)])
def test_hierarchical_all_reduce_takes_the_modelled_time(tmp_path, groups, size):
    ranks, array = groups * size, 8_000_000
    between = (100e-6, 8e-9)
    members = list(range(ranks))
    simulated = simgrid.replay(
        tmp_path,
        simgrid.grouped(groups, size, ALPHA, BETA, *between),
        [simgrid.hierarchical(members, own, array, size) for own in members],
        members,
    )
    net = network("hierarchical", (size, ALPHA, BETA), (None, *between))
    assert simulated == pytest.approx(modelled(net, ranks, array), rel=EXACT)


def work_of(seed, ranks, slow=0.0):
    """Returns (ready, backward end, update) of each rank: 4 buckets over a backward pass of 30 ms
    after a forward pass of 15 ms, with 5 % noise; the last rank is `slow` longer."""
    random = np.random.default_rng(seed)
    factor = 1 + 0.05 * random.random(ranks)
    factor[-1] += slow
    ready = factor[:, None] * (0.015 + 0.030 * np.array([0.25, 0.5, 0.75, 1.0]))
    return ready, ready[:, -1], np.full(ranks, 2e-3)


# A ring begins before its last rank is ready and ends a little later than the model for a bucket
# that waits for one rank only; the difference is below one all-reduce of a bucket.
@pytest.mark.parametrize(
    "ranks, beta, slow",
    [(4, 1e-9, 0.0), (4, 4e-9, 0.0), (16, 2e-9, 0.0), (16, 1e-9, 0.5), (64, 1e-9, 0.0)],
)
def test_step_with_overlap_takes_the_modelled_time(tmp_path, ranks, beta, slow):
    sizes = np.array([4e6, 4e6, 4e6, 1e6])
    ready, backward_end, update = work_of(ranks, ranks, slow)
    simulated = simgrid.replay(
        tmp_path,
        simgrid.cluster(ranks, ALPHA, beta),
        simgrid.step_traces(ready, backward_end, update, sizes),
        [*range(ranks)] * 2,
    )
    net = network("ring", (None, ALPHA, beta))
    comm = np.array([[modelled(net, ranks, size) for size in sizes]])
    made = schedule(
        ready.max(axis=0)[None],
        backward_end.max(keepdims=True),
        update.max(keepdims=True),
        comm,
        sizes,
        updates_by_bucket=False,
    )
    assert simulated == pytest.approx(made[0], rel=0.02)


def test_step_without_overlap_takes_the_modelled_time(tmp_path):
    ranks, sizes = 8, np.array([4e6, 1e6])
    _, backward_end, update = work_of(3, ranks)
    ready = np.repeat(backward_end[:, None], 2, axis=1)
    simulated = simgrid.replay(
        tmp_path,
        simgrid.cluster(ranks, ALPHA, BETA),
        simgrid.step_traces(ready, backward_end, update, sizes),
        [*range(ranks)] * 2,
    )
    net = network("ring", (None, ALPHA, BETA))
    comm = np.array([[modelled(net, ranks, size) for size in sizes]])
    made = schedule(
        np.zeros((1, 2)),
        backward_end.max(keepdims=True),
        update.max(keepdims=True),
        comm,
        sizes,
        has_overlap=False,
        updates_by_bucket=False,
    )
    assert simulated == pytest.approx(made[0], rel=0.02)
