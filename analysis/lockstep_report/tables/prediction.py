# SPDX-License-Identifier: BSD-3-Clause
"""Predictions as a table and as values for JSON, which are labelled "predicted"."""

from dataclasses import dataclass

from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.groups import grouped
from lockstep_report.measure import validity
from lockstep_report.measure.comparison import differences, merge_repeats, nearest
from lockstep_report.models.prediction.basis import at_batch, with_bucket_bytes
from lockstep_report.models.prediction.predict import PAIRS_PER_RANK, REPLICATES, SEED, Predicted, predict
from lockstep_report.runfile.experiment import distinguishing, text_of
from lockstep_report.runfile.settings import plural, setting_names, setting_texts
from lockstep_report.tables.table import Column, Note, Table, interval_columns

SMALLEST_ERROR = 0.01  # of a measured step outside of the interval, from which a warning states it


@dataclass(frozen=True)
class Row:
    """A prediction with what was measured on the same number of ranks, if anything."""

    predicted: Predicted
    base: float  # step time on one rank: at the same batch per rank or the same global batch
    base_source: str  # file of `base`; "" if it is predicted
    measured: float = None  # mean step time
    source: str = ""  # file of the measured step
    is_strong: bool = False  # fixed global batch

    @property
    def efficiency(self):
        """Predicted t(1)/t(N), or t(1)/(N·t(N)) at a fixed global batch; None if t(1) is unknown."""
        return self.base and self.predicted.step.rate(self.base, self.predicted.ranks if self.is_strong else 1)

    @property
    def error(self):
        """(predicted - measured) / measured; None if nothing was measured."""
        return self.predicted.step[0] / self.measured - 1 if self.measured else None

    @property
    def warnings(self):
        found = []
        _, low, high = self.predicted.step
        if self.measured and not low <= self.measured <= high and abs(self.error) >= SMALLEST_ERROR:
            found.append(
                f"the measured step ({self.source}: {1e3 * self.measured:.2f} ms) is outside of the "
                f"predicted interval, which is {abs(self.error):.0%} too "
                f"{'long' if self.error > 0 else 'short'}: the model or the network does not "
                "describe these runs, and predictions for other numbers of ranks may be as wrong")
        if self.efficiency and self.efficiency[0] > 1:
            found.append("an efficiency above 1 is no speedup: " + (
                f"the step on 1 rank ({self.base_source}: {1e3 * self.base:.2f} ms) took longer than the work of a "
                f"rank of the basis {self.predicted.basis.source}, so they were not measured under the same conditions"
                if self.base_source else
                "t(1) is the mean work of the basis, which varies by more than the communication takes"))
        return found


def prediction_rows(trained, bases, network, ranks, seed=SEED, bucket_bytes=None, global_batch=None):
    """Returns the predictions for all numbers of ranks and all bases: at the batch per rank of each
    basis, or at `global_batch`. `trained`: [(run, point)], with point None if it did not train;
    `bases`: those of `best_bases(trained)`. Raises `ReportError`: input if there is no basis, usage
    if the global batch needs one that was not measured."""
    if not bases:
        raise ReportError(
            INPUT, f"{trained[0][0].path}: neither a run with the reducer overlap or allreduce on several "
                   "ranks, whose buckets have times, nor one with a profile (--profile)")
    measured = merge_repeats([point for _, point in trained if point])
    chosen = ([(basis, count) for basis in bases for count in ranks] if global_batch is None
              else strong_bases(bases, ranks, global_batch))
    rows = []
    for basis, count in chosen:
        used = with_bucket_bytes(basis, bucket_bytes) if bucket_bytes else basis
        found = predict(used, network, count, seed)
        alone, base_source = measured_step(measured, basis, global_batch or basis.batch, 1)
        if alone is None and (not global_batch or count == 1):
            alone = found.alone
        step = (None, "") if bucket_bytes else measured_step(measured, basis, basis.batch, count)
        rows.append(Row(found, alone, base_source, *step, global_batch is not None))
    return rows


def strong_bases(bases, ranks, global_batch):
    found = []
    for group in grouped(bases, lambda basis: (basis.point.series, basis.reducer)).values():
        for count in ranks:
            basis = None if global_batch % count else at_batch(group, global_batch // count)
            if basis is None:
                known = ", ".join(str(b.batch) for b in group)
                why = ("cannot be divided among" if global_batch % count else
                       f"is batch {global_batch // count} per rank on")
                raise ReportError(
                    USAGE, f"--global-batch {global_batch} {why} {count} ranks; the runs measured "
                           f"batch {known} per rank, and only batches between them are predicted")
            found.append((basis, count))
    return found


def measured_step(points, basis, batch, ranks):
    """Returns (mean step time, files) of the point with `batch` per rank on `ranks` ranks that agrees
    with the basis in setting, reducer and the options that both use; (None, "") without one."""
    found = nearest(basis.point, [
        p for p in points if (p.setting, p.batch_per_rank, p.ranks) == (basis.setting, batch, ranks)
        and (ranks == 1 or p.reducer == basis.reducer) and not differences(p, basis.point)])
    return (found.mean_step, ", ".join(found.sources)) if found else (None, "")


def prediction_table(rows):
    names = setting_names(row.predicted.basis.setting for row in rows)
    bases = list({id(row.predicted.basis): row.predicted.basis for row in rows}.values())
    shown = distinguishing([(b.point.variant, b.point.ranks) for b in bases])
    letters = {text: validity.letter(i) for i, text in enumerate(
        dict.fromkeys(text for row in rows for text in row.warnings))}
    made = [{**table_row(row, names, shown), "warnings": ", ".join(
        letters[text] for text in row.warnings) or None} for row in rows]
    network = rows[0].predicted.network
    notes = [
        f"predicted, not measured; model of the all-reduce: {network.label}, network "
        f"{network.name}",
        *network.notes,
        *dict.fromkeys(
            f"measured step of the basis: {b.source}, {plural(b.ranks, 'rank')}"
            f"{f', {b.algorithm}' if b.ranks > 1 else ''}, {plural(len(b.sizes), 'bucket')}; "
            f"{', '.join(filter(None, setting_texts(b.setting)))}" for b in bases),
        *dict.fromkeys(note for b in bases for note in b.notes),
        f"interval: 95 % of {REPLICATES} replicates that draw the measured steps and the ranges of "
        "the network; it does not contain errors of the model",
        "no efficiency: no 1-rank run has the global batch" if rows[0].base is None else
        f"efficiency: {'t(1)/(N·t(N)), t(1) at the global batch' if rows[0].is_strong else 't(1)/t(N), t(1)'} "
        f"{'measured' if rows[0].base_source else 'predicted from the work of a rank'}",
        Note("measured: mean step of the runs of the same setting, batch, reducer and options on as "
             "many ranks (median over repeated runs)",
             ("measured_ms",))]
    other = {b.library for b in bases if b.ranks > 1} - {network.library}
    if other:
        notes.append(f"the step was measured with {other.pop()}, the all-reduce is modelled for "
                     f"{network.library}")
    if any(row.predicted.is_tail_extrapolated for row in rows):
        notes.append(f"*: fewer than {PAIRS_PER_RANK} independent measured (step, rank) pairs per rank, "
                     "so the delay of the slowest rank is little known and the interval may be too "
                     "narrow; measure more steps or more ranks")
    if any(row.predicted.basis.ranks == 1 < row.predicted.ranks for row in rows):
        notes.append("one measured rank: its whole spread counts as difference between ranks, so the "
                     "predictions are too long if the ranks of a step are slow together")
    notes += [f"({letter}) {text}" for text, letter in letters.items()]
    return Table(
        "predicted-step", "Predicted step time at fixed "
        + ("global batch" if rows[0].is_strong else "batch per rank"),
        [Column("setting", "Setting"), Column("batch_per_rank", "Batch per rank"),
         Column("ranks", "Ranks"), Column("reducer", "Reducer"), Column("model", "Model"),
         *interval_columns(Column("step_ms", "Predicted step (ms)", 2), "low_ms", "high_ms", " (ms)"),
         Column("all_reduce_ms", "Predicted all-reduces (ms)", 2),
         *interval_columns(Column("exposed_ms", "Predicted exposed (ms)", 2), "exposed_low_ms", "exposed_high_ms", " (ms)"),
         Column("straggler_ms", "Predicted excess of the last rank (ms)", 2, interval=("low_ms", "high_ms")),
         Column("images_per_second", "Predicted images/s", 1, interval=("low_ms", "high_ms", "step_ms")),
         Column("efficiency", "Predicted efficiency", 3, interval=("low_ms", "high_ms", "step_ms")),
         Column("measured_ms", "Measured step (ms)", 2),
         Column("error_percent", "Predicted / measured − 1 (%)", 1),
         Column("warnings", "Warnings")],
        made, notes)


def table_row(row, names, shown):
    found = row.predicted
    detail = text_of(found.basis.point.variant, shown)
    return {
        "setting": names[found.basis.setting] or None, "batch_per_rank": found.basis.batch,
        "ranks": f"{found.ranks} *" if found.is_tail_extrapolated else str(found.ranks),
        "reducer": found.basis.reducer + (f" ({detail})" if detail else ""), "model": f"{found.network.label} (predicted)",
        "step_ms": 1e3 * found.step[0], "low_ms": 1e3 * found.step[1],
        "high_ms": 1e3 * found.step[2], "all_reduce_ms": 1e3 * found.all_reduce[0],
        "exposed_ms": 1e3 * found.exposed[0], "exposed_low_ms": 1e3 * found.exposed[1],
        "exposed_high_ms": 1e3 * found.exposed[2], "straggler_ms": 1e3 * found.straggler[0],
        "images_per_second": found.images_per_second[0],
        "efficiency": row.efficiency and row.efficiency[0],
        "measured_ms": row.measured and 1e3 * row.measured,
        "error_percent": None if row.error is None else 100 * row.error}


def prediction_values(rows, seed=SEED):
    """Returns the predictions as values for `json_text`; times in seconds."""
    network = rows[0].predicted.network
    return {
        "is_predicted": True, "seed": seed, "replicates": REPLICATES, "confidence": 0.95,
        "network": {"name": network.name, "library": network.library, "model": network.label,
                    "overlap": network.overlap, "notes": network.notes},
        "predicted": [value_row(row) for row in rows]}


def value_row(row):
    found, basis = row.predicted, row.predicted.basis
    return {
        "basis": basis.source, "basis_ranks": basis.ranks, "basis_algorithm": basis.algorithm,
        "setting": basis.setting, "batch_per_rank": basis.batch, "reducer": basis.reducer,
        "bucket_bytes": basis.sizes, "ranks": found.ranks, "model": found.network.label,
        "scaling": "fixed global batch" if row.is_strong else "fixed batch per rank",
        **{f"predicted_{name}": estimate(values) for name, values in (
            ("step_seconds", found.step), ("exposed_seconds", found.exposed),
            ("all_reduce_seconds", found.all_reduce), ("last_rank_seconds", found.straggler),
            ("images_per_second", found.images_per_second), ("efficiency", row.efficiency))},
        "is_base_measured": bool(row.base_source), "base_step_seconds": row.base,
        "is_tail_extrapolated": found.is_tail_extrapolated,
        "measured_step_seconds": row.measured, "measured_run": row.source or None,
        "notes": basis.notes, "warnings": row.warnings}


def estimate(values):
    return values and {"value": values[0], "interval": [values[1], values[2]]}
