# SPDX-License-Identifier: BSD-3-Clause
"""The rules of advice about the steps of one run. Each is a function that returns an `Advice` with
its evidence, or None if the evidence does not reach the threshold."""

from lockstep_report.measure import metrics
from lockstep_report.models.advice import (
    EXPOSED_SHARE,
    Advice,
    duration,
    exposes_transfer,
    percent_text,
    size,
    with_interval,
)
from lockstep_report.models.fits import SWEEP

# Thresholds, as shares of the step time unless stated otherwise.
LAST_BUCKET_SHARE = 0.5  # of the exposed transfer
WAITING_SHARE = 0.03
CHANGING_SHARE = 0.05  # waiting for ranks that change
EXPLAINED_SHARE = 0.5  # of the waiting, that the excess of a slow rank explains
INPUT_SHARE = 0.02
LINK_SHARE = 0.8  # of the rate of the link
LATENCY_SHARE = 0.5  # of the time of the all-reduce of a bucket
ALGORITHM_GAIN = 0.1  # of the time of the all-reduce


def exposed_buckets(step):
    """Bucket size: the transfer that the backward pass does not hide."""
    if step.reducer != "overlap" or step.buckets < 2 or not exposes_transfer(step):
        return None
    is_last = step.last_bucket >= LAST_BUCKET_SHARE * step.transfer
    remedy = (
        "Smaller buckets (--bucket-mib) shorten the all-reduce that starts last."
        if is_last
        else (
            "The all-reduces take longer than the backward pass can hide: smaller buckets do not"
            " help; fewer bytes (--gradient-dtype bf16), a faster algorithm (--all-reduce) or a"
            " larger batch per rank do."
        )
    )
    return Advice(
        "exposed-buckets",
        step.source,
        f"Buckets of {size(step.largest_bucket)} leave {duration(step.transfer)} of transfer"
        f" exposed per step ({percent_text(step.transfer / step.step)}); the last bucket alone is"
        f" {duration(step.last_bucket)}. {remedy}",
        {
            "exposed_transfer_seconds": step.transfer,
            "last_bucket_seconds": step.last_bucket,
            "step_seconds": step.step,
            "bucket_bytes": step.largest_bucket,
        },
        EXPOSED_SHARE,
        case="last bucket" if is_last else "all buckets",
    )


def no_overlap(step):
    """Overlap: an all-reduce after the backward pass."""
    is_known = step.transfer is not None
    # Overlap does not hide waiting for slower ranks.
    transfer = step.transfer if is_known else step.phases["exposed_communication"]
    if step.reducer != "allreduce" or transfer < EXPOSED_SHARE * step.step:
        return None
    backward = step.phases["backward"]
    most = min(backward, transfer)
    return Advice(
        "no-overlap",
        step.source,
        f"The all-reduce starts after the backward pass and leaves {duration(transfer)} per step"
        f" exposed{', without waiting for slower ranks' if is_known else ''}"
        f" ({percent_text(transfer / step.step)}). --reducer overlap can hide at most"
        f" {duration(most)} of it behind the backward pass ({duration(backward)}); measure both,"
        " because on CPUs the communication then uses the cores of the backward pass.",
        {
            "exposed_seconds": transfer,
            "backward_seconds": backward,
            "most_hidden_seconds": most,
            "step_seconds": step.step,
        },
        EXPOSED_SHARE,
    )


def waiting(step):
    """Imbalance: the other ranks wait for one rank whose work takes longer, or for a rank that
    changes from step to step."""
    if step.waiting is None:
        return None
    slow = step.straggler
    is_explained = slow is not None and slow.excess.value >= EXPLAINED_SHARE * step.waiting
    is_one = is_explained and slow.is_significant
    least = WAITING_SHARE if is_one else CHANGING_SHARE
    if step.waiting < least * step.step:
        return None
    text = (
        f"The ranks wait {duration(step.waiting)} per step for the last one "
        f"({percent_text(step.waiting / step.step)}), which no faster network removes"
    )
    if is_one:
        return waiting_for_rank(step, slow, text)
    return waiting_in_turn(step, slow if is_explained else None, text)


def waiting_for_rank(step, slow, text):
    return Advice(
        "waiting-rank",
        step.source,
        f"{text}. Rank {slow.rank} ({slow.host}) works {duration(slow.excess.value)} longer"
        f" than the others ({duration(slow.work_seconds)}) and starts"
        f" {percent_text(slow.last_share)} of the all-reduces last: compare its processors, device"
        " and other load with those of the others.",
        {
            "waiting_seconds": step.waiting,
            "rank": slow.rank,
            "excess_seconds": slow.excess.value,
            "excess_low_seconds": slow.excess.low,
            "excess_high_seconds": slow.excess.high,
            "last_share": slow.last_share,
            "step_seconds": step.step,
        },
        WAITING_SHARE,
        case=f"rank {slow.rank}",
    )


def waiting_in_turn(step, suspect, text):
    """`suspect`: the rank whose excess would explain the waiting, but is not significant; None
    without one."""
    reason = (
        "no slow rank explains it: the ranks are delayed at random, by other processes, "
        "interrupts, input data or changing clock rates"
    )
    if suspect is not None:
        reason = (
            f"rank {suspect.rank} works {duration(suspect.excess.value)} longer than the others, "
            "but the timed steps are too few or differ too much to show that it is slow: time more "
            "steps (--epochs, --steps) to tell a slow rank from delays at random"
        )
    return Advice(
        "waiting-in-turn",
        step.source,
        f"{text}, and {reason}. Leave a processor of each host to the system, and compare the"
        " hosts; with a larger batch per rank, the ranks wait less often.",
        {"waiting_seconds": step.waiting, "step_seconds": step.step},
        CHANGING_SHARE,
    )


def input_wait(step):
    """Input: the step waits for its batch."""
    wait = step.phases["data_wait"]
    if wait < INPUT_SHARE * step.step:
        return None
    return Advice(
        "input-wait",
        step.source,
        f"Each step waits {duration(wait)} for its batch ({percent_text(wait / step.step)}). More"
        " loader threads (--loader-threads) or, on a GPU, images in device memory"
        " (--data-residency device) shorten it.",
        {"data_wait_seconds": wait, "step_seconds": step.step},
        INPUT_SHARE,
    )


def link_limit(step, link_gbit=None):
    """Link: the transfer reaches the rate of the link."""
    rate = link_gbit or step.link_gbit
    used = metrics.utilisation(step.link_rate, rate)
    if step.hosts < 2 or used is None or not LINK_SHARE <= used <= 1 or not exposes_transfer(step):
        return None
    return Advice(
        "link-limit",
        step.source,
        f"The transfer uses at least {percent_text(used)} of the link of {rate:g} Gbit/s and leaves"
        f" {duration(step.transfer)} per step exposed ({percent_text(step.transfer / step.step)}):"
        " no other algorithm is much faster. Fewer bytes (--gradient-dtype bf16), a larger batch"
        " per rank or a faster link are.",
        {
            "link_share": used,
            "link_gbit": rate,
            "exposed_transfer_seconds": step.transfer,
            "step_seconds": step.step,
        },
        LINK_SHARE,
    )


def latency(step, fits):
    """Bucket size: alpha takes most of the time of each all-reduce."""
    if step.reducer != "overlap" or not exposes_transfer(step):
        return None
    own = [
        f
        for f in fits
        if (f.algorithm, f.ranks, f.hosts) == (step.algorithm, step.ranks, step.hosts)
    ]
    for found in (f for f in own if f.alpha is not None and f.alpha.has_interval):
        alpha, whole = found.alpha, found.time_of(step.largest_bucket).value
        if 0 < LATENCY_SHARE * whole <= alpha.low:
            sources = ", ".join(found.sources)
            return Advice(
                "latency",
                step.source,
                "The latency of an all-reduce, alpha ="
                f" {with_interval(alpha, f', from {sources}')}, is at least"
                f" {percent_text(alpha.low / whole)} of the time of a bucket of"
                f" {size(step.largest_bucket)} ({duration(whole)}). Larger buckets (--bucket-mib)"
                " pay it less often.",
                {
                    "alpha_seconds": alpha.value,
                    "alpha_low_seconds": alpha.low,
                    "alpha_high_seconds": alpha.high,
                    "bucket_seconds": whole,
                    "bucket_bytes": step.largest_bucket,
                },
                LATENCY_SHARE,
            )
    return None


def better_algorithm(step, fits):
    """Algorithm: a sweep on as many ranks and hosts measured a faster one."""
    usable = [
        f
        for f in fits
        if f.origin == SWEEP
        and f.fit is not None
        and f.fit.dof > 0
        and (f.ranks, f.hosts) == (step.ranks, step.hosts)
        and f.sizes.min() <= step.largest_bucket <= f.sizes.max()
    ]
    own = next((f for f in usable if f.algorithm == step.algorithm), None)
    if own is None or not exposes_transfer(step):
        return None
    # Cannot be selected for training.
    times = {
        f.algorithm: f.time_of(step.largest_bucket)
        for f in usable
        if not f.algorithm.startswith("mpi-blocking")
    }
    best = min(times, key=lambda name: times[name].value)
    current = times[own.algorithm]
    if times[best].high > (1 - ALGORITHM_GAIN) * current.low:
        return None
    return Advice(
        "better-algorithm",
        step.source,
        f"In the sweep {', '.join(own.sources)}, {best} reduces {size(step.largest_bucket)} in"
        f" {with_interval(times[best])}, {step.algorithm} in {with_interval(current)}: select it"
        " with --all-reduce.",
        {
            "best_seconds": times[best].value,
            "best_high_seconds": times[best].high,
            "current_seconds": current.value,
            "current_low_seconds": current.low,
            "bucket_bytes": step.largest_bucket,
        },
        ALGORITHM_GAIN,
        case=best,
    )


def wrong_clock(step):
    """Clock: the ends of the all-reduces contradict the recorded clock offsets."""
    found = step.straggler
    if found is None or not found.is_clock_wrong:
        return None
    return Advice(
        "clock",
        step.source,
        f"On rank {found.clock_rank} the all-reduces end {with_interval(found.clock)} apart from"
        f" rank 0, more than the recorded clock error ({duration(found.clock_error)}) and the time"
        " of an all-reduce explain: do not use the split into waiting and transfer of this run.",
        {
            "deviation_seconds": found.clock.value,
            "rank": found.clock_rank,
            "clock_error_seconds": found.clock_error,
        },
        0.0,
        case=f"rank {found.clock_rank}",
    )
