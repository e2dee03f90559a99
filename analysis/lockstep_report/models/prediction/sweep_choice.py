# SPDX-License-Identifier: BSD-3-Clause
"""Selects the sweeps of a study that describe the network of its training runs, and the algorithm
to which the network is fitted."""

import math

import numpy as np

from lockstep_report.groups import grouped
from lockstep_report.measure.choices import library_of
from lockstep_report.measure.contention import LIMIT
from lockstep_report.models.fits import sweep_observations
from lockstep_report.models.prediction.sweep_fit import flat_algorithms


def all_sweeps(runs):
    """Returns the sweeps of all-reduces among `runs`."""
    return [run for run in runs if run.allreduce]


def sweeps_like(runs, bases):
    """Returns the sweeps among `runs` that use the links of a basis."""
    return [run for run in all_sweeps(runs) if any(uses_links_of(run, basis) for basis in bases)]


def uses_links_of(sweep, basis):
    """Returns whether a sweep uses the library and the links of a basis: on the same host, or with
    one rank per host on several of its hosts."""
    hosts, hosts_of_basis = set(sweep.host_names), set(basis.point.hosts)
    if not hosts or not hosts <= hosts_of_basis or library_of(sweep) != basis.library:
        return False
    if len(hosts_of_basis) == 1:
        return sweep.host_count == 1
    return sweep.host_count == sweep.rank_count


def lacked_processors(sweep):
    """Returns whether the ranks of a sweep lacked processors, so that its times are no times of the
    network."""
    return float(sweep.results.get("lacking_processor_share", 0.0)) >= LIMIT


def algorithms_of(bases):
    """Returns the names of the all-reduce algorithms of the bases, without their library."""
    return sorted({basis.algorithm.partition(" ")[0] for basis in bases} - {"", "none"})


def modelled_algorithms(sweeps):
    """Returns the algorithms that the sweeps measured and that can be fitted."""
    measured = measured_algorithms(sweeps)
    return [name for name in flat_algorithms(library_of(sweeps[0])) if name in measured]


def measured_algorithms(sweeps):
    """Returns the names of the algorithms that the sweeps measured."""
    return sorted({str(name) for run in sweeps for name in run.allreduce["algorithm"]})


def nearest_algorithm(sweeps, algorithm):
    """Returns the algorithm of `modelled_algorithms` whose times differ least from those of
    `algorithm` in the same sweeps; the first one if these do not measure it, None if there is
    none."""
    names = modelled_algorithms(sweeps)
    return min(names, key=lambda name: distance(sweeps, name, algorithm), default=None)


def distance(sweeps, name, other):
    """Returns the mean absolute logarithm of the ratio of the times of two algorithms, over the
    sizes that both have; infinity if they have none in common."""
    logarithms = []
    for run in sweeps:
        times = grouped(
            sweep_observations(run), lambda one: one[0][1].partition(" ")[0], lambda one: one[1:]
        )
        own, others = dict(times.get(name, ())), dict(times.get(other, ()))
        logarithms += [math.log(own[size] / others[size]) for size in own.keys() & others.keys()]
    return float(np.mean(np.abs(logarithms))) if logarithms else math.inf
