# SPDX-License-Identifier: BSD-3-Clause
"""Selection of the bases of predictions."""

from dataclasses import replace

from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import differences
from lockstep_report.models.prediction.basis import basis_of
from lockstep_report.models.prediction.profile_basis import profile_basis_of


def best_bases(trained):
    """Returns one basis of the runs `trained` ([(run, point)]) per series, batch per rank and reducer:
    the run with the most ranks, whose conditions are nearest to those of the prediction; of repeated
    runs, the one with the median step (the shorter of both for an even number). Measured buckets are
    preferred to times that follow from a profile."""
    found = []
    for make in (basis_of, profile_basis_of):
        groups = grouped(filter(None, (make(run, point) for run, point in trained if point)),
                         lambda basis: (basis.point.series, basis.batch, basis.reducer))
        for basis in sorted(map(median_basis, groups.values()), key=lambda basis: -basis.ranks):
            if not any(is_alike(basis, other) for other in found):
                found.append(basis)
    return sorted(found, key=lambda basis: (basis.setting, basis.batch, basis.reducer))


def is_alike(basis, other):
    """Whether two bases agree in all that both use."""
    return (basis.setting, basis.batch, basis.reducer) == (
        other.setting, other.batch, other.reducer) and not differences(basis.point, other.point)


def median_basis(bases):
    most = max(basis.ranks for basis in bases)
    ordered = sorted((b for b in bases if b.ranks == most), key=lambda basis: basis.measured_step)
    return ordered[(len(ordered) - 1) // 2]


def at_batch(bases, batch):
    """Returns a basis with `batch` images per rank from those of one setting and reducer: the
    measured one, or the nearest one with its times scaled to the mean work that a line between the
    next smaller and the next larger batch gives. None if `batch` is not between measured ones."""
    low = max((basis for basis in bases if basis.batch <= batch), key=lambda basis: basis.batch, default=None)
    high = min((basis for basis in bases if basis.batch > batch), key=lambda basis: basis.batch, default=None)
    if low is not None and low.batch == batch:
        return low
    if low is None or high is None:
        return None
    share = (batch - low.batch) / (high.batch - low.batch)
    work = (1 - share) * low.backward_end.mean() + share * high.backward_end.mean()
    nearest = low if share < 0.5 else high
    scale = float(work / nearest.backward_end.mean())
    return replace(
        nearest, batch=batch, ready=scale * nearest.ready,
        backward_start=scale * nearest.backward_start, backward_end=scale * nearest.backward_end,
        notes=(*nearest.notes, f"batch {batch}: work interpolated between batch {low.batch} "
                               f"({low.source}) and batch {high.batch} ({high.source})"))
