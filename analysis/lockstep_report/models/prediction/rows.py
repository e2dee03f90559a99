# SPDX-License-Identifier: BSD-3-Clause
"""Predictions beside what was measured on the same number of ranks, with warnings."""

from dataclasses import dataclass

from lockstep_report.errors import USAGE, ReportError
from lockstep_report.groups import grouped
from lockstep_report.measure.comparison import differences, merge_repeats, nearest
from lockstep_report.models.prediction.basis import at_batch, require_bases, with_bucket_bytes
from lockstep_report.models.prediction.predict import SEED, Predicted, predict
from lockstep_report.runfile.settings import plural

SMALLEST_ERROR = 0.01  # of a measured step outside of the interval, from which a warning states it


@dataclass(frozen=True)
class PredictionRow:
    """A prediction with what was measured on the same number of ranks, if anything."""

    predicted: Predicted
    base: float  # step time on one rank: at the same batch per rank or the same global batch
    base_source: str  # file of `base`; "" if it is predicted
    measured: float = None  # mean step time
    source: str = ""  # file of the measured step
    is_disturbed: bool = False  # the ranks of the measured step lacked processors
    is_strong: bool = False  # fixed global batch

    @property
    def efficiency(self):
        """Predicted t(1)/t(N), or t(1)/(N·t(N)) at a fixed global batch; None if t(1) is
        unknown."""
        factor = self.predicted.ranks if self.is_strong else 1
        return self.base and self.predicted.step.rate(self.base, factor)

    @property
    def error(self):
        """(predicted - measured) / measured; None if nothing was measured."""
        return self.predicted.step.value / self.measured - 1 if self.measured else None

    @property
    def warnings(self):
        return list(
            filter(
                None,
                (self.processor_warning, self.measured_warning, self.efficiency_warning),
            )
        )

    @property
    def processor_warning(self):
        """The warning about ranks of one host that do not have a processor per thread."""
        found, point = self.predicted, self.predicted.basis.point
        needed = found.ranks * (point.threads or 1)
        if not found.network.is_of_one_host or not point.processors:
            return None
        if needed <= point.processors:
            return None
        return (
            f"{plural(found.ranks, 'rank')} need {plural(needed, 'processor')}, and the ranks of"
            f" {found.basis.source} had {point.processors}: the prediction is that of a host with a"
            " processor for each thread, and with fewer of them the steps take longer"
        )

    @property
    def measured_warning(self):
        """The warning about a measured step that the prediction does not contain."""
        step = self.predicted.step
        if not self.measured or step.low <= self.measured <= step.high:
            return None
        if abs(self.error) < SMALLEST_ERROR:
            return None
        measured = f"the measured step ({self.source}: {1e3 * self.measured:.2f} ms)"
        if self.is_disturbed:
            return (
                f"{measured} is that of ranks that lacked processors, so it tests neither the"
                " model nor the network"
            )
        way = "long" if self.error > 0 else "short"
        return (
            f"{measured} is outside of the"
            f" predicted interval, which is {abs(self.error):.0%} too"
            f" {way}: the model or the network does not"
            " describe these runs, and predictions for other numbers of ranks may be as wrong"
        )

    @property
    def efficiency_warning(self):
        if not self.efficiency or self.efficiency.value <= 1:
            return None
        if not self.base_source:
            return (
                "an efficiency above 1 is no speedup: t(1) is the mean work of the basis, which"
                " varies by more than the communication takes"
            )
        return (
            "an efficiency above 1 is no speedup:"
            f" the step on 1 rank ({self.base_source}: {1e3 * self.base:.2f} ms) took longer"
            f" than the work of a rank of the basis {self.predicted.basis.source}, so they"
            " were not measured under the same conditions"
        )


def prediction_rows(
    trained, bases, network, ranks, seed=SEED, bucket_bytes=None, global_batch=None
):
    """Returns the predictions for all numbers of ranks and all bases: at the batch per rank of each
    basis, or at `global_batch`. `trained`: [(run, point)], with point None if it did not train;
    `bases`: those of `best_bases(trained)`. Raises `ReportError`: input if there is no basis, usage
    if the global batch needs one that was not measured."""
    require_bases(trained, bases)
    measured = merge_repeats([point for _, point in trained if point])
    chosen = (
        [(basis, count) for basis in bases for count in ranks]
        if global_batch is None
        else strong_bases(bases, ranks, global_batch)
    )
    rows = []
    for basis, count in chosen:
        used = with_bucket_bytes(basis, bucket_bytes) if bucket_bytes else basis
        found = predict(used, network, count, seed)
        base, base_source = base_step(measured, basis, found, global_batch)
        point = None if bucket_bytes else measured_point(measured, basis, basis.batch, count)
        rows.append(
            PredictionRow(
                found,
                base,
                base_source,
                measured=point.mean_step if point else None,
                source=source_of(point),
                is_disturbed=point is not None and point.lacks_processors,
                is_strong=global_batch is not None,
            )
        )
    return rows


def base_step(points, basis, found, global_batch):
    """Returns (step time on one rank, files): measured by ranks that had processors, or the
    predicted work of a rank, which is not known at another batch per rank."""
    batch = global_batch or basis.batch
    point = measured_point([p for p in points if not p.lacks_processors], basis, batch, 1)
    if point is not None:
        return point.mean_step, source_of(point)
    is_known = not global_batch or found.ranks == 1
    return found.alone if is_known else None, ""


def strong_bases(bases, ranks, global_batch):
    """Returns [(basis, ranks)] of all numbers of ranks, with the batch per rank that divides the
    global batch."""
    found = []
    for group in grouped(bases, lambda basis: (basis.point.series, basis.reducer)).values():
        for count in ranks:
            basis = None if global_batch % count else at_batch(group, global_batch // count)
            if basis is None:
                raise unmeasured_batch(group, count, global_batch)
            found.append((basis, count))
    return found


def unmeasured_batch(bases, count, global_batch):
    known = ", ".join(str(basis.batch) for basis in bases)
    why = f"is batch {global_batch // count} per rank on"
    if global_batch % count:
        why = "cannot be divided among"
    return ReportError(
        USAGE,
        f"--global-batch {global_batch} {why} {count} ranks; the runs measured "
        f"batch {known} per rank, and only batches between them are predicted",
    )


def measured_point(points, basis, batch, ranks):
    """Returns the point with `batch` per rank on `ranks` ranks that agrees with the basis in
    setting, reducer and the options that both use; None without one."""
    return nearest(
        basis.point,
        [
            p
            for p in points
            if (p.setting, p.batch_per_rank, p.ranks) == (basis.setting, batch, ranks)
            and (ranks == 1 or p.reducer == basis.reducer)
            and not differences(p, basis.point)
        ],
    )


def source_of(point):
    """Returns the names of the files of a point, "" without one."""
    return ", ".join(point.sources) if point else ""
