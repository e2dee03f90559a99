# SPDX-License-Identifier: BSD-3-Clause
"""The rules of advice about the lost efficiency of a point against its base case."""

from lockstep_report.measure.choices import kernel_changes
from lockstep_report.measure.inference import ONE_RUN
from lockstep_report.models.advice import Advice, percent_text
from lockstep_report.models.causes import WEAK
from lockstep_report.runfile.settings import plural

COMPUTATION_SHARE = 0.05


def small_batch(loss):
    """Strong scaling: the smaller batch computes fewer images per second."""
    cause = "smaller_batch" if "smaller_batch" in loss.causes else "computation"
    batch = loss.point.batch_per_rank
    other = (
        ""
        if cause == "smaller_batch"
        else (
            f" (a 1-rank run of batch {batch} would show how much of it is slower computation at"
            " the same batch)"
        )
    )
    return (
        None
        if loss.scaling == WEAK
        else loss_advice(
            "small-batch",
            loss,
            cause,
            f"a rank computes fewer images per second at batch {batch} than at batch"
            f" {loss.base.batch_per_rank}{other}: a larger global batch keeps the ranks busy (and"
            " changes the training).",
        )
    )


def slower_compute(loss):
    """Computation: the same batch takes longer on several ranks."""
    return loss_advice(
        "slower-compute",
        loss,
        "slower_compute",
        f"the computation of a batch of {loss.point.batch_per_rank} takes longer than on one rank. "
        + slower_reason(loss),
    )


def loss_advice(rule, loss, cause, text):
    """Returns the advice about a cause of lost efficiency that compares runs; None if it does not
    reach the threshold or exceed their spread. One run does not show the spread: then the advice
    says so."""
    share, seconds = loss.share(cause), loss.causes.get(cause, 0.0)
    is_assumed = loss.difference.is_assumed
    if share < COMPUTATION_SHARE or not (is_assumed or seconds > loss.difference.half):
        return None
    return Advice(
        rule,
        loss.point.source,
        f"{percent_text(share)} of the epoch on {loss.point.ranks} ranks is lost because {text}"
        + (f" Note: {ONE_RUN}." if is_assumed else ""),
        {"share": share, "seconds_per_epoch": seconds, "batch_per_rank": loss.point.batch_per_rank},
        COMPUTATION_SHARE,
    )


def slower_reason(loss):
    point = loss.point
    changed = kernel_changes(point, loss.same_batch or loss.base)
    if changed:
        return (
            f"{changed} than on one rank: select the same one with --conv-algorithm, and compare"
            " again."
        )
    per_host = -(-point.ranks // max(1, point.host_count or len(point.hosts)))
    if per_host == 1:
        return (
            "Each host has one rank, so ranks share no processors: compare the clock rates and "
            "the other load of the hosts, and the 1-rank run with a repeat on each host."
        )
    crowded = ""
    if point.processors and point.threads:
        crowded = (
            f" (here up to {per_host} ranks of {plural(point.threads, 'thread')} share "
            f"{point.processors} processors"
        )
        if point.cores and point.cores < point.processors:
            crowded += f", which are hardware threads of {plural(point.cores, 'core')}"
        crowded += ")"
    return f"Ranks of a host share processors, memory bandwidth and clock rate{crowded}."
