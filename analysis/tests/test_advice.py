# SPDX-License-Identifier: BSD-3-Clause
"""Tests the rules of the advice: each one at values above and below its threshold."""

from dataclasses import replace

import numpy as np
import pytest
from lockstep_report.measure.fitting import Estimate
from lockstep_report.measure.points import Point
from lockstep_report.measure.stragglers import Straggler
from lockstep_report.models.advice import duration
from lockstep_report.models.all_advice import all_advice
from lockstep_report.models.causes import STRONG, WEAK, Loss
from lockstep_report.models.explanation import StepEvidence
from lockstep_report.models.fits import SWEEP, AlphaBeta, alpha_beta
from lockstep_report.models.loss_advice import slower_compute, small_batch
from lockstep_report.models.step_advice import (
    better_algorithm,
    exposed_buckets,
    input_wait,
    latency,
    link_limit,
    no_overlap,
    waiting,
    wrong_clock,
)

MIB = 2**20
SLOW = Straggler(
    "run.h5",
    2,
    1,
    "node2",
    Estimate(0.010, 0.009, 0.011),
    0.030,
    True,
    0.9,
    1,
    Estimate(0.0, -1e-6, 1e-6),
    5e-6,
    1e-3,
)
STEP = StepEvidence(
    "run.h5",
    ranks=2,
    hosts=2,
    reducer="overlap",
    algorithm="ring (MPI)",
    step=0.030,
    phases={
        "data_wait": 0.0,
        "upload": 0.0,
        "forward": 0.008,
        "backward": 0.018,
        "exposed_communication": 0.003,
        "update": 0.001,
    },
    largest_bucket=6 * MIB,
    buckets=8,
    waiting=0.0005,
    transfer=0.0021,
    last_bucket=0.0014,
    all_reduce_transfer=0.015,
    link_bytes=44e6,
    straggler=SLOW,
)


def test_exposed_buckets():
    found = exposed_buckets(STEP)
    assert found.text.startswith(
        "Buckets of 6 MiB leave 2.10 ms of transfer exposed per step "
        "(7.0 %); the last bucket alone is 1.40 ms. Smaller buckets"
    )
    assert found.evidence["last_bucket_seconds"] == 0.0014


def test_exposed_buckets_of_a_slow_network():
    found = exposed_buckets(replace(STEP, last_bucket=0.0001))
    assert "smaller buckets do not help" in found.text


@pytest.mark.parametrize(
    "change", [{"transfer": 0.0014}, {"transfer": None}, {"buckets": 1}, {"reducer": "allreduce"}]
)
def test_no_advice_about_buckets_without_evidence(change):
    assert exposed_buckets(replace(STEP, **change)) is None


def test_no_overlap():
    step = replace(STEP, reducer="allreduce", transfer=0.025)
    found = no_overlap(step)
    waiting = {**STEP.phases, "exposed_communication": 0.025}  # overlap does not hide it
    assert no_overlap(replace(step, transfer=0.0014, phases=waiting)) is None
    assert "can hide at most 18.0 ms" in found.text  # the backward pass is shorter than 25 ms
    assert no_overlap(STEP) is None
    short = {**STEP.phases, "exposed_communication": 0.0014}
    assert no_overlap(replace(step, transfer=None, phases=short)) is None


def test_waiting_rank():
    step = replace(STEP, waiting=0.004)
    found = waiting(step)
    assert found.rule == "waiting-rank"
    assert "Rank 1 (node2) works 10.0 ms longer" in found.text
    assert found.evidence["rank"] == 1
    assert waiting(STEP) is None  # 1.7 % of the step
    assert waiting(replace(step, waiting=None)) is None
    unsure = replace(step, straggler=replace(SLOW, is_significant=False))
    assert waiting(unsure).rule == "waiting-in-turn"


def test_waiting_in_turn():
    """A slow rank that explains less than half of the waiting is not the reason."""
    faster = replace(SLOW, excess=Estimate(0.001, 0.0009, 0.0011))
    step = replace(STEP, waiting=0.004, straggler=faster)
    assert waiting(step).rule == "waiting-in-turn"
    assert "no slow rank explains it" in waiting(step).text
    unsure = replace(step, straggler=replace(SLOW, is_significant=False))
    assert waiting(replace(unsure, waiting=0.001)) is None  # 3.3 % of the step
    assert waiting(replace(STEP, waiting=0.004)).rule == "waiting-rank"  # rank 1 is slow


def test_waiting_for_a_rank_that_is_not_shown_to_be_slow():
    """Three steps show neither that a rank is slow nor that the delays are random."""
    step = replace(STEP, waiting=0.004, straggler=replace(SLOW, is_significant=False))
    assert waiting(step).rule == "waiting-in-turn"
    assert "rank 1 works 10.0 ms longer than the others, but the timed steps" in waiting(step).text
    assert "no slow rank explains it" not in waiting(step).text


def test_input_wait():
    step = replace(STEP, phases={**STEP.phases, "data_wait": 0.0015})
    assert "waits 1.50 ms for its batch (5.0 %)" in input_wait(step).text
    assert input_wait(STEP) is None


def test_link_limit():
    """44 MB in 15 ms are 23.5 Gbit/s."""
    assert "uses at least 93.9 % of the link of 25 Gbit/s" in link_limit(STEP, 25).text
    assert link_limit(STEP, 40) is None  # 59 %
    assert link_limit(STEP, 20) is None  # more than the link: the rate is wrong
    assert link_limit(STEP) is None  # unknown rate
    assert link_limit(replace(STEP, hosts=1), 25) is None
    assert link_limit(replace(STEP, transfer=0.001), 25) is None


def fit(algorithm, alpha, beta, ranks=2):
    sizes = np.array([MIB / 4, MIB, 4 * MIB, 16 * MIB])
    wave = 1 + 0.002 * np.array([1, -1, 1, -1])
    seconds = (alpha + beta * sizes) * wave
    return AlphaBeta(
        algorithm, SWEEP, ranks, 2, ("sweep.h5",), sizes, seconds, *alpha_beta(sizes, seconds)
    )


def test_latency():
    found = latency(STEP, [fit("ring (MPI)", 5e-3, 3e-10)])
    assert "alpha = 5.0" in found.text and "Larger buckets" in found.text
    assert latency(STEP, [fit("ring (MPI)", 1e-3, 3e-10)]) is None
    assert latency(STEP, [fit("direct (MPI)", 5e-3, 3e-10)]) is None
    assert latency(STEP, [fit("ring (MPI)", 5e-3, 3e-10, ranks=4)]) is None
    assert latency(STEP, []) is None


def test_better_algorithm():
    slow, fast = fit("ring (MPI)", 1e-4, 1e-9), fit("direct (MPI)", 1e-4, 5e-10)
    found = better_algorithm(STEP, [slow, fast])
    assert "direct (MPI) reduces 6 MiB in" in found.text
    assert better_algorithm(STEP, [slow]) is None
    assert better_algorithm(STEP, [fast]) is None  # the own algorithm was not measured
    near = fit("direct (MPI)", 1e-4, 9.5e-10)
    assert better_algorithm(STEP, [slow, near]) is None
    blocking = fit("mpi-blocking (MPI)", 1e-4, 1e-10)
    assert better_algorithm(STEP, [slow, blocking]) is None  # not an option of training


def test_wrong_clock():
    wrong = replace(SLOW, clock=Estimate(0.004, 0.0039, 0.0041))
    assert "do not use the split" in wrong_clock(replace(STEP, straggler=wrong)).text
    assert wrong_clock(STEP) is None
    within = replace(SLOW, clock=Estimate(0.001, 0.0009, 0.0011))  # an all-reduce takes 1 ms
    assert wrong_clock(replace(STEP, straggler=within)) is None


def loss(scaling, **causes):
    point = Point("2.h5", 2, 16, 10.0, hosts=("node1",), threads=2, processors=2)
    return Loss(point, Point("1.h5", 1, 32, 15.0), scaling, causes)


def test_small_batch():
    found = small_batch(loss(STRONG, smaller_batch=1.0))
    assert found.text.startswith("10.0 % of the epoch on 2 ranks is lost")
    assert small_batch(loss(STRONG, smaller_batch=0.4)) is None
    assert "a 1-rank run of batch 16" in small_batch(loss(STRONG, computation=1.0)).text
    assert small_batch(loss(STRONG, smaller_batch=0.0, computation=1.0)) is None
    assert small_batch(loss(WEAK, smaller_batch=1.0)) is None


def test_slower_compute():
    found = slower_compute(loss(WEAK, slower_compute=1.0))
    assert "up to 2 ranks of 2 threads share 2 processors" in found.text
    assert slower_compute(loss(WEAK, slower_compute=0.4)) is None
    assert slower_compute(loss(WEAK, slower_compute=-1.0)) is None
    same = loss(WEAK, slower_compute=1.0)
    threads = replace(same, point=replace(same.point, cores=1))
    assert (
        "share 2 processors, which are hardware threads of 1 core)" in slower_compute(threads).text
    )
    apart = replace(same, point=replace(same.point, hosts=("node1", "node2")))
    text = slower_compute(apart).text
    assert "Each host has one rank" in text and "memory bandwidth" not in text


def test_slower_compute_names_other_kernels():
    same = loss(WEAK, slower_compute=1.0)
    kernels = replace(
        same,
        point=replace(same.point, kernels=(("conv1 forward", "direct"), ("fc", "gemm"))),
        base=replace(same.base, kernels=(("conv1 forward", "winograd"), ("fc", "gemm"))),
    )
    text = slower_compute(kernels).text
    assert "1 of 2 convolution passes use another kernel than on one rank" in text
    assert "share" not in text


@pytest.mark.parametrize(
    "rule, cause",
    [(slower_compute, "slower_compute"), (small_batch, "smaller_batch")],
)
def test_advice_that_compares_runs_knows_their_spread(rule, cause):
    """The epoch takes 10 s: 1 s more than T(1)/2. The spread of the runs is 0.1 s or 1 s."""
    single = loss(STRONG, **{cause: 1.0})
    assert "one run with one run" in rule(single).text
    for spread, is_given in ((0.1, True), (1.0, False)):
        found = rule(
            replace(
                single,
                point=replace(single.point, repeated_epochs=(10 - spread, 10, 10 + spread)),
                base=replace(single.base, repeated_epochs=(18 - spread, 18, 18 + spread)),
            )
        )
        assert (found is not None) == is_given
        assert found is None or "one run" not in found.text


def test_advice_is_given_once():
    same = loss(WEAK, slower_compute=1.0)
    assert len(all_advice([], [same, same], [])) == 1


@pytest.mark.parametrize(
    "seconds, text",
    [(2.5, "2.50 s"), (0.0021, "2.10 ms"), (85e-6, "85.0 µs"), (0.25, "250 ms"), (0.0, "0.00 µs")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_repeated_runs_have_one_advice_with_the_median_evidence():
    steps = [
        replace(STEP, source=f"{i}.h5", transfer=0.001 * i, last_bucket=0.004)
        for i in (3, 1, 4, 5, 2)
    ]
    point = Point("", 2, 32, 1.0, repeats=5, repeated_sources=tuple(s.source for s in steps))
    (found,) = all_advice(steps, [], [], points=[point])
    assert (found.source, found.repeats, found.of) == ("3.h5", 4, 5)  # 1 ms is below the threshold
    assert len(all_advice(steps, [], [])) == 4


def test_repeated_runs_with_different_slow_ranks_have_one_advice_each():
    steps = [
        replace(
            STEP, source=f"{rank}.h5", transfer=0, waiting=0.01, straggler=replace(SLOW, rank=rank)
        )
        for rank in (0, 1)
    ]
    point = Point("", 2, 32, 1.0, repeats=2, repeated_sources=("0.h5", "1.h5"))
    found = all_advice(steps, [], [], points=[point])
    assert [(a.evidence["rank"], a.repeats, a.of) for a in found] == [(0, 1, 2), (1, 1, 2)]


def test_repeated_runs_with_different_remedies_have_one_advice_each():
    steps = [
        replace(STEP, source=f"{i}.h5", last_bucket=seconds)
        for i, seconds in enumerate((0.0014, 0.0001))
    ]
    point = Point("", 2, 32, 1.0, repeats=2, repeated_sources=("0.h5", "1.h5"))
    assert [a.case for a in all_advice(steps, [], [], points=[point])] == [
        "last bucket",
        "all buckets",
    ]


def test_advice_of_few_repeated_runs_is_at_the_end():
    steps = [
        replace(STEP, source="0.h5", last_bucket=0.0001),
        *(replace(STEP, source=f"{i}.h5") for i in (1, 2)),
    ]
    point = Point("", 2, 32, 1.0, repeats=3, repeated_sources=("0.h5", "1.h5", "2.h5"))
    found = all_advice(steps, [], [], points=[point])
    assert [(a.case, a.repeats) for a in found] == [("last bucket", 2), ("all buckets", 1)]
