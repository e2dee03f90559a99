# SPDX-License-Identifier: BSD-3-Clause
"""Predictions as a table and as values for JSON, which are labelled "predicted"."""

from dataclasses import dataclass

from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.groups import grouped
from lockstep_report.measure import validity
from lockstep_report.measure.comparison import differences, merge_repeats, nearest
from lockstep_report.models.prediction.basis import at_batch, with_bucket_bytes
from lockstep_report.models.prediction.predict import (
    PAIRS_PER_RANK,
    REPLICATES,
    SEED,
    Predicted,
    predict,
)
from lockstep_report.runfile.experiment import distinguishing, text_of
from lockstep_report.runfile.settings import plural, setting_names, setting_texts
from lockstep_report.tables.table import Column, Note, interval_columns, item_table, percent, scaled

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
        """Predicted t(1)/t(N), or t(1)/(N·t(N)) at a fixed global batch; None if t(1) is
        unknown."""
        return self.base and self.predicted.step.rate(
            self.base, self.predicted.ranks if self.is_strong else 1
        )

    @property
    def error(self):
        """(predicted - measured) / measured; None if nothing was measured."""
        return self.predicted.step.value / self.measured - 1 if self.measured else None

    @property
    def warnings(self):
        found = []
        step = self.predicted.step
        if (
            self.measured
            and not step.low <= self.measured <= step.high
            and abs(self.error) >= SMALLEST_ERROR
        ):
            found.append(
                f"the measured step ({self.source}: {1e3 * self.measured:.2f} ms) is outside of the"
                f" predicted interval, which is {abs(self.error):.0%} too"
                f" {'long' if self.error > 0 else 'short'}: the model or the network does not"
                " describe these runs, and predictions for other numbers of ranks may be as wrong"
            )
        if self.efficiency and self.efficiency.value > 1:
            found.append(
                "an efficiency above 1 is no speedup: "
                + (
                    f"the step on 1 rank ({self.base_source}: {1e3 * self.base:.2f} ms) took longer"
                    f" than the work of a rank of the basis {self.predicted.basis.source}, so they"
                    " were not measured under the same conditions"
                    if self.base_source
                    else (
                        "t(1) is the mean work of the basis, which varies by more than the"
                        " communication takes"
                    )
                )
            )
        return found


def prediction_rows(
    trained, bases, network, ranks, seed=SEED, bucket_bytes=None, global_batch=None
):
    """Returns the predictions for all numbers of ranks and all bases: at the batch per rank of each
    basis, or at `global_batch`. `trained`: [(run, point)], with point None if it did not train;
    `bases`: those of `best_bases(trained)`. Raises `ReportError`: input if there is no basis, usage
    if the global batch needs one that was not measured."""
    if not bases:
        raise ReportError(
            INPUT,
            f"{trained[0][0].path}: neither a run with the reducer overlap or allreduce on several "
            "ranks, whose buckets have times, nor one with a profile (--profile)",
        )
    measured = merge_repeats([point for _, point in trained if point])
    chosen = (
        [(basis, count) for basis in bases for count in ranks]
        if global_batch is None
        else strong_bases(bases, ranks, global_batch)
    )
    rows = []
    for basis, count in chosen:
        found = predict(
            with_bucket_bytes(basis, bucket_bytes) if bucket_bytes else basis, network, count, seed
        )
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
                why = (
                    "cannot be divided among"
                    if global_batch % count
                    else f"is batch {global_batch // count} per rank on"
                )
                raise ReportError(
                    USAGE,
                    f"--global-batch {global_batch} {why} {count} ranks; the runs measured "
                    f"batch {known} per rank, and only batches between them are predicted",
                )
            found.append((basis, count))
    return found


def measured_step(points, basis, batch, ranks):
    """Returns (mean step time, files) of the point with `batch` per rank on `ranks` ranks that
    agrees with the basis in setting, reducer and the options that both use; (None, "") without
    one."""
    found = nearest(
        basis.point,
        [
            p
            for p in points
            if (p.setting, p.batch_per_rank, p.ranks) == (basis.setting, batch, ranks)
            and (ranks == 1 or p.reducer == basis.reducer)
            and not differences(p, basis.point)
        ],
    )
    return (found.mean_step, ", ".join(found.sources)) if found else (None, "")


def prediction_table(rows):
    bases = list({id(row.predicted.basis): row.predicted.basis for row in rows}.values())
    names = setting_names(b.setting for b in bases)
    shown = distinguishing([(b.point.variant, b.point.ranks) for b in bases])
    letters = {
        text: validity.letter(i)
        for i, text in enumerate(dict.fromkeys(text for row in rows for text in row.warnings))
    }
    network = rows[0].predicted.network
    columns = [
        Column("setting", "Setting", value=lambda row: names[row.predicted.basis.setting] or None),
        Column("batch_per_rank", "Batch per rank", value=lambda row: row.predicted.basis.batch),
        Column(
            "ranks",
            "Ranks",
            value=lambda row: (
                f"{row.predicted.ranks}{' *' if row.predicted.is_tail_extrapolated else ''}"
            ),
        ),
        Column("reducer", "Reducer", value=lambda row: reducer_text(row.predicted.basis, shown)),
        Column("model", "Model", value=lambda row: f"{network.label} (predicted)"),
        *interval_columns(
            Column("step_ms", "Predicted step (ms)", 2),
            "low_ms",
            "high_ms",
            " (ms)",
            lambda row: row.predicted.step,
            1e3,
        ),
        Column(
            "all_reduce_ms",
            "Predicted all-reduces (ms)",
            2,
            value=lambda row: 1e3 * row.predicted.all_reduce.value,
        ),
        *interval_columns(
            Column("exposed_ms", "Predicted exposed (ms)", 2),
            "exposed_low_ms",
            "exposed_high_ms",
            " (ms)",
            lambda row: row.predicted.exposed,
            1e3,
        ),
        Column(
            "straggler_ms",
            "Predicted excess of the last rank (ms)",
            2,
            interval=("low_ms", "high_ms"),
            value=lambda row: 1e3 * row.predicted.straggler.value,
        ),
        Column(
            "images_per_second",
            "Predicted images/s",
            1,
            interval=("low_ms", "high_ms", "step_ms"),
            value=lambda row: row.predicted.images_per_second.value,
        ),
        Column(
            "efficiency",
            "Predicted efficiency",
            3,
            interval=("low_ms", "high_ms", "step_ms"),
            value=lambda row: row.efficiency and row.efficiency.value,
        ),
        Column("measured_ms", "Measured step (ms)", 2, value=lambda row: scaled(row.measured, 1e3)),
        Column(
            "error_percent", "Predicted / measured − 1 (%)", 1, value=lambda row: percent(row.error)
        ),
        Column(
            "warnings",
            "Warnings",
            value=lambda row: ", ".join(letters[text] for text in row.warnings) or None,
        ),
    ]
    return item_table(
        "predicted-step",
        "Predicted step time at fixed "
        + ("global batch" if rows[0].is_strong else "batch per rank"),
        columns,
        rows,
        [
            (
                f"predicted, not measured; model of the all-reduce: {network.label}, network"
                f" {network.name}"
            ),
            *network.notes,
            *dict.fromkeys(
                f"measured step of the basis: {b.source}, {plural(b.ranks, 'rank')}"
                f"{f', {b.algorithm}' if b.ranks > 1 else ''}, {plural(len(b.sizes), 'bucket')}; "
                f"{', '.join(filter(None, setting_texts(b.setting)))}"
                for b in bases
            ),
            *dict.fromkeys(note for b in bases for note in b.notes),
            (
                f"interval: 95 % of {REPLICATES} replicates that draw the measured steps and the"
                " ranges of the network; it does not contain errors of the model"
            ),
            (
                "no efficiency: no 1-rank run has the global batch"
                if rows[0].base is None
                else (
                    "efficiency:"
                    f" {'t(1)/(N·t(N)), t(1) at the global batch' if rows[0].is_strong else 't(1)/t(N), t(1)'}"
                    f" {'measured' if rows[0].base_source else 'predicted from the work of a rank'}"
                )
            ),
            Note(
                "measured: mean step of the runs of the same setting, batch, reducer and options on"
                " as many ranks (median over repeated runs)",
                ("measured_ms",),
            ),
            *(
                f"the step was measured with {library}, the all-reduce is modelled for"
                f" {network.library}"
                for library in sorted({b.library for b in bases if b.ranks > 1} - {network.library})
            ),
            any(row.predicted.is_tail_extrapolated for row in rows)
            and f"*: fewer than {PAIRS_PER_RANK} independent measured (step, rank) pairs per rank, so the delay of the slowest rank is little known and the interval may be too narrow; measure more steps or more ranks",
            any(row.predicted.basis.ranks == 1 < row.predicted.ranks for row in rows)
            and "one measured rank: its whole spread counts as difference between ranks, so the predictions are too long if the ranks of a step are slow together",
            *(f"({letter}) {text}" for text, letter in letters.items()),
        ],
    )


def reducer_text(basis, shown):
    detail = text_of(basis.point.variant, shown)
    return f"{basis.reducer} ({detail})" if detail else basis.reducer


def prediction_values(rows, seed=SEED):
    """Returns the predictions as values for `json_text`; times in seconds."""
    network = rows[0].predicted.network
    return {
        "is_predicted": True,
        "seed": seed,
        "replicates": REPLICATES,
        "confidence": 0.95,
        "network": {
            "name": network.name,
            "library": network.library,
            "model": network.label,
            "overlap": network.overlap,
            "notes": network.notes,
        },
        "predicted": [value_row(row) for row in rows],
    }


def value_row(row):
    found, basis = row.predicted, row.predicted.basis
    return {
        "basis": basis.source,
        "basis_ranks": basis.ranks,
        "basis_algorithm": basis.algorithm,
        "setting": basis.setting,
        "batch_per_rank": basis.batch,
        "reducer": basis.reducer,
        "bucket_bytes": basis.sizes,
        "ranks": found.ranks,
        "model": found.network.label,
        "scaling": "fixed global batch" if row.is_strong else "fixed batch per rank",
        **{
            f"predicted_{name}": of and {"value": of.value, "interval": [of.low, of.high]}
            for name, of in (
                ("step_seconds", found.step),
                ("exposed_seconds", found.exposed),
                ("all_reduce_seconds", found.all_reduce),
                ("last_rank_seconds", found.straggler),
                ("images_per_second", found.images_per_second),
                ("efficiency", row.efficiency),
            )
        },
        "is_base_measured": bool(row.base_source),
        "base_step_seconds": row.base,
        "is_tail_extrapolated": found.is_tail_extrapolated,
        "measured_step_seconds": row.measured,
        "measured_run": row.source or None,
        "notes": basis.notes,
        "warnings": row.warnings,
    }
