# SPDX-License-Identifier: BSD-3-Clause
"""Predictions as a table and as values for JSON, which are labelled "predicted"."""

from dataclasses import dataclass

from lockstep_report.measure import validity
from lockstep_report.measure.choices import labelled
from lockstep_report.models.prediction.predict import PAIRS_PER_RANK, REPLICATES, SEED
from lockstep_report.models.prediction.rows import PredictionRow
from lockstep_report.runfile.experiment import distinguishing, text_of
from lockstep_report.runfile.settings import plural, setting_names, setting_texts
from lockstep_report.tables.table import Column, Note, interval_columns, item_table, percent, scaled

OF_STEP = ("low_ms", "high_ms", "step_ms")  # interval that limits digits proportional to the step


@dataclass(frozen=True)
class TableItem:
    """A row of the table: a prediction with the texts that depend on all of them."""

    row: PredictionRow
    setting: str
    reducer: str
    warnings: str  # letters

    @property
    def predicted(self):
        return self.row.predicted

    @property
    def ranks(self):
        """The number of ranks, marked if the tail of the delays is extrapolated."""
        mark = " *" if self.predicted.is_tail_extrapolated else ""
        return f"{self.predicted.ranks}{mark}"

    @property
    def efficiency(self):
        return self.row.efficiency.value if self.row.efficiency else None


COLUMNS = (
    Column("setting", "Setting"),
    Column("batch_per_rank", "Batch per rank", value=lambda item: item.predicted.basis.batch),
    Column("ranks", "Ranks"),
    Column("reducer", "Reducer"),
    Column("model", "Model", value=lambda item: f"{item.predicted.network.label} (predicted)"),
    *interval_columns(
        Column("step_ms", "Predicted step (ms)", 2),
        "low_ms",
        "high_ms",
        " (ms)",
        lambda item: item.predicted.step,
        1e3,
    ),
    Column(
        "all_reduce_ms",
        "Predicted all-reduces (ms)",
        2,
        value=lambda item: 1e3 * item.predicted.all_reduce.value,
    ),
    *interval_columns(
        Column("exposed_ms", "Predicted exposed (ms)", 2),
        "exposed_low_ms",
        "exposed_high_ms",
        " (ms)",
        lambda item: item.predicted.exposed,
        1e3,
    ),
    Column(
        "straggler_ms",
        "Predicted excess of the last rank (ms)",
        2,
        interval=("low_ms", "high_ms"),
        value=lambda item: 1e3 * item.predicted.straggler.value,
    ),
    Column(
        "images_per_second",
        "Predicted images/s",
        1,
        interval=OF_STEP,
        value=lambda item: item.predicted.images_per_second.value,
    ),
    Column("efficiency", "Predicted efficiency", 3, interval=OF_STEP),
    Column(
        "measured_ms", "Measured step (ms)", 2, value=lambda item: scaled(item.row.measured, 1e3)
    ),
    Column(
        "error_percent",
        "Predicted / measured − 1 (%)",
        1,
        value=lambda item: percent(item.row.error),
    ),
    Column("warnings", "Warnings"),
)
INTERVAL_NOTE = (
    f"interval: 95 % of {REPLICATES} replicates that draw the measured steps and the"
    " ranges of the network; it does not contain errors of the model"
)
MEASURED_NOTE = Note(
    "measured: mean step of the runs of the same setting, batch, reducer and options on"
    " as many ranks (median over repeated runs)",
    ("measured_ms",),
)
TAIL_NOTE = (
    f"*: fewer than {PAIRS_PER_RANK} independent measured (step, rank) pairs per rank, so the delay"
    " of the slowest rank is little known and the interval may be too narrow; measure more steps or"
    " more ranks"
)
ONE_RANK_NOTE = (
    "one measured rank: its whole spread counts as difference between ranks, so the predictions are"
    " too long if the ranks of a step are slow together"
)
ONE_HOST_NOTE = (
    "the network was measured between the ranks of one host, which share its processors, caches and"
    " memory bandwidth; the model does not contain this, so steps on more ranks of the host than"
    " measured may take longer than predicted"
)


def prediction_table(rows):
    bases = bases_of_rows(rows)
    names = setting_names(basis.setting for basis in bases)
    shown = distinguishing([(basis.point.variant, basis.point.ranks) for basis in bases])
    letters = letters_of(rows)
    items = [
        TableItem(
            row,
            setting=names[row.predicted.basis.setting] or None,
            reducer=reducer_text(row.predicted.basis, shown),
            warnings=", ".join(letters[text] for text in row.warnings) or None,
        )
        for row in rows
    ]
    what = "global batch" if rows[0].is_strong else "batch per rank"
    return item_table(
        "predicted-step",
        f"Predicted step time at fixed {what}",
        COLUMNS,
        items,
        prediction_notes(rows, bases, letters),
    )


def bases_of_rows(rows):
    return list({id(row.predicted.basis): row.predicted.basis for row in rows}.values())


def letters_of(rows):
    """Returns {warning: letter} of all warnings, in their order."""
    texts = dict.fromkeys(text for row in rows for text in row.warnings)
    return {text: validity.letter(i) for i, text in enumerate(texts)}


def prediction_notes(rows, bases, letters):
    network = rows[0].predicted.network
    notes = [
        f"predicted, not measured; model of the all-reduce: {network.label}, network"
        f" {network.name}",
        *network.notes,
        *dict.fromkeys(basis_note(basis) for basis in bases),
        *dict.fromkeys(note for basis in bases for note in basis.notes),
        INTERVAL_NOTE,
        efficiency_note(rows[0]),
        MEASURED_NOTE,
        *model_notes(bases, network),
    ]
    if any(row.predicted.is_tail_extrapolated for row in rows):
        notes.append(TAIL_NOTE)
    if any(row.predicted.basis.ranks == 1 < row.predicted.ranks for row in rows):
        notes.append(ONE_RANK_NOTE)
    notes += [f"({letter}) {text}" for text, letter in letters.items()]
    return notes


def basis_note(basis):
    """Returns the note about the run that is the basis, and its setting."""
    parts = [basis.source, plural(basis.ranks, "rank")]
    if basis.ranks > 1:
        parts.append(basis.algorithm)
    parts.append(plural(len(basis.sizes), "bucket"))
    setting = ", ".join(filter(None, setting_texts(basis.setting)))
    return f"measured step of the basis: {', '.join(parts)}; {setting}"


def efficiency_note(row):
    """Returns the note about the efficiency, which is computed alike in all rows."""
    if row.base is None:
        return "no efficiency: no 1-rank run has the global batch"
    source = "measured" if row.base_source else "predicted from the work of a rank"
    formula = "t(1)/t(N), t(1)"
    if row.is_strong:
        formula = "t(1)/(N·t(N)), t(1) at the global batch"
    return f"efficiency: {formula} {source}"


def model_notes(bases, network):
    """Returns the notes about differences between the model of the all-reduce and the measured
    runs."""
    measured = [basis for basis in bases if basis.ranks > 1]
    notes = [
        f"the step was measured with {library}, the all-reduce is modelled for {network.library}"
        for library in sorted({basis.library for basis in measured} - {network.library})
    ]
    if network.is_of_one_host:
        notes.append(ONE_HOST_NOTE)
        modelled = labelled(network.algorithm, network.library)
        used = {basis.algorithm for basis in measured if basis.library == network.library}
        notes += [
            f"the step was measured with {algorithm}, the all-reduce is modelled as {modelled}"
            for algorithm in sorted(used - {modelled})
        ]
    return notes


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
