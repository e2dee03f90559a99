# SPDX-License-Identifier: BSD-3-Clause
"""The largest bus bandwidth that all-reduce sweeps measured, the limit of the trainings on the same
machine."""

from operator import itemgetter

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure import metrics
from lockstep_report.runfile.settings import setting_of


def machine_key(ranks, setting, hosts):
    """Returns what must be equal for a sweep to be the limit of a training: ranks, devices and
    hosts."""
    return (ranks, setting[1], setting[4], frozenset(hosts)) if hosts else None


def peaks_of(runs):
    """Returns {`machine_key`: the largest bus bandwidth in GB/s that the sweeps measured}."""
    found = [
        (machine_key(run.rank_count, setting_of(run), run.host_names), rate)
        for run in runs
        if run.allreduce and run.host_names
        for rate in bus_bandwidths(run)
        if rate
    ]
    return {key: max(rates) for key, rates in grouped(found, itemgetter(0), itemgetter(1)).items()}


def bus_bandwidths(run):
    """Returns the bus bandwidth of each row of a sweep in GB/s; None if it is unknown."""
    medians = np.median(np.asarray(run.allreduce["seconds"], dtype=float), axis=1)
    rates = [
        metrics.bus_bandwidth(int(size), float(seconds), run.rank_count)
        for size, seconds in zip(run.allreduce["bytes"], medians)
    ]
    return [rate and rate / 1e9 for rate in rates]
