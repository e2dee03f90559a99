# SPDX-License-Identifier: BSD-3-Clause
"""The telemetry of runs: cumulative counters (processor time, context switches, bytes, energy),
from which rates over any interval follow, and current values (memory, utilisation, power)."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Samples:
    """The samples of one rank. `columns`: name -> (sample) or (sample, interface)."""

    rank: int
    interfaces: tuple  # names; those of a rank with fewer interfaces end with empty texts
    columns: dict

    @property
    def seconds(self):
        return self.columns["seconds"]

    def rate(self, name):
        """Returns the mean rate of a cumulative counter over all samples; None if unknown."""
        return mean_rate(self.seconds, self.columns[name])

    def mean(self, name):
        """Returns the mean of a current value over time (trapezoidal rule); None if unknown."""
        seconds, values = finite(self.seconds, self.columns[name])
        if len(values) < 2 or seconds[-1] <= seconds[0]:
            return None
        areas = np.diff(seconds) * (values[1:] + values[:-1]) / 2
        return float(areas.sum() / (seconds[-1] - seconds[0]))

    def maximum(self, name):
        values = finite(self.seconds, self.columns[name])[1]
        return float(values.max()) if len(values) else None

    def traffic(self, direction):
        """Returns {interface: cumulative bytes (sample)} of "received" or "sent"."""
        return {
            name: self.columns[f"{direction}_bytes"][:, i]
            for i, name in enumerate(self.interfaces)
            if name
        }


def finite(seconds, values):
    """Returns both arrays without the samples whose value is NaN."""
    known = np.isfinite(values)
    return seconds[known], values[known]


def mean_rate(seconds, counter):
    seconds, counter = finite(seconds, counter)
    if len(counter) < 2 or seconds[-1] <= seconds[0]:
        return None
    return float((counter[-1] - counter[0]) / (seconds[-1] - seconds[0]))


def samples_of(run):
    """Returns the samples of each rank of one run file; empty without telemetry."""
    if not run.telemetry:
        return []
    columns = {
        name: values
        for name, values in run.telemetry.items()
        if name not in ("rank", "interface_name")
    }
    found = []
    for rank in np.unique(run.telemetry["rank"]):
        chosen = run.telemetry["rank"] == rank
        found.append(
            Samples(
                int(rank),
                tuple(map(str, run.telemetry["interface_name"][rank])),
                {name: values[chosen] for name, values in columns.items()},
            )
        )
    return found


def files_of(runs):
    """Returns the single files of the runs: each part of a run has its own clock."""
    return [part for run in runs for part in run.parts or (run,) if part.telemetry]


def first_ranks(run, samples):
    """Returns the samples of the lowest rank of each host: (host, samples)."""
    found = {}
    for of_rank in sorted(samples, key=lambda s: s.rank):
        found.setdefault(run.ranks["host"][of_rank.rank], of_rank)
    return [(str(run.ranks["hostname"][s.rank]), s) for s in found.values()]
