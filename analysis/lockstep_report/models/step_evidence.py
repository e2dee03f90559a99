# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of a run on which the advice is based. Times are in seconds per step."""

from dataclasses import dataclass

import numpy as np

from lockstep_report.measure.choices import algorithm_of
from lockstep_report.measure.points import link_bytes_of
from lockstep_report.measure.window import step_seconds
from lockstep_report.measure.stragglers import Straggler, straggler_of
from lockstep_report.measure.waiting import exposed_interval

EXPOSED = "exposed_communication"


@dataclass(frozen=True)
class StepEvidence:
    """Means over the timed steps and the ranks of one run with several ranks."""

    source: str
    ranks: int
    hosts: int
    reducer: str
    algorithm: str
    step: float  # mean step time
    phases: dict  # phase -> mean over steps and ranks
    largest_bucket: int = 0  # bytes
    buckets: int = 0
    waiting: float = None  # exposed; None if the clocks of the ranks do not permit the division
    transfer: float = None  # exposed
    last_bucket: float = None  # exposed while only the last bucket was in progress
    all_reduce_transfer: float = None  # hidden and exposed, upper bound
    link_gbit: float = None
    link_bytes: float = None  # of a step over the link of a host; None if unknown
    straggler: Straggler = None

    @property
    def exposed(self):
        return self.phases[EXPOSED]

    @property
    def link_rate(self):
        """Lower bound of the bytes/s over the link of a host during the transfer; None if unknown."""
        if not self.link_bytes or not self.all_reduce_transfer:
            return None
        return self.link_bytes / self.all_reduce_transfer


def step_evidence(timed):
    run, phases, times = timed.run, timed.phase_seconds, timed.times
    found = {}
    if times is not None:
        found = {"last_bucket": float(last_bucket_seconds(phases, run.phases, times).mean()),
                 "all_reduce_transfer": timed.split.transfer_bounds.high / len(phases)}
        if timed.split.divides_exposed:
            found |= {"waiting": float(np.mean(timed.split.exposed_waiting)) / len(phases),
                      "transfer": float(np.mean(timed.split.exposed_transfer)) / len(phases)}
    return StepEvidence(
        run.label, run.rank_count, run.host_count, run.option("reducer"),
        algorithm_of(run), float(step_seconds(run, timed.window.steps).mean()),
        {name: float(phases[:, :, i].mean()) for i, name in enumerate(run.phases)},
        int(max(run.bucket_bytes, default=0)), len(run.bucket_bytes),
        link_gbit=run.link_gbit, link_bytes=link_bytes_of(run), straggler=straggler_of(timed), **found)


def last_bucket_seconds(phase_seconds, phases, times):
    """Returns (step, rank): the time after the backward pass in which only the last bucket was in
    progress."""
    begin, _ = exposed_interval(phase_seconds, phases, times)
    begin = np.maximum(begin, times.start[:, :, -1])
    if times.end.shape[2] > 1:
        begin = np.maximum(begin, times.end[:, :, :-1].max(axis=2))
    return np.maximum(0.0, times.end[:, :, -1] - begin)
