# SPDX-License-Identifier: BSD-3-Clause
"""The tables that check published values: the columns published_* of a CSV of epoch times, and its
network traffic, which is compared with that of gradient all-reduces."""

import math
import statistics
from dataclasses import dataclass, replace
from decimal import Decimal

from lockstep_report.measure.metrics import ring_bytes, speedup
from lockstep_report.models.published import (
    AGREES,
    DEFAULT_ASSUMPTIONS,
    DIFFERS,
    EXCEPT,
    Cell,
    check_times,
    shorten,
    to_digits_of,
)
from lockstep_report.models.published_formulas import Epochs, step_alternatives
from lockstep_report.tables.table import Column, item_table

VERDICT_COLUMNS = (
    Column("column", "Column"),
    Column("verdict", "Verdict", value=lambda verdict: mark_text(verdict)),
    Column("correct", "Correct formula", value=lambda verdict: verdict.correct or None),
    Column(
        "found",
        "Formula that gives the printed digits",
        value=lambda verdict: formula_text(verdict),
    ),
)


def verdict_table(verdicts, name, notes):
    return item_table(
        f"{name}-verdicts",
        f"{name}: published columns",
        VERDICT_COLUMNS,
        verdicts,
        [
            *notes,
            *(f"{v.column}: {reason}" for v in verdicts if not v.cells for reason in v.mistakes),
        ],
    )


def formula_text(verdict):
    if not verdict.cells:
        return None
    if verdict.found == verdict.correct:
        return "the correct one"
    return verdict.found or "none of the formulas that were tried"


def mark_text(verdict):
    if verdict.mark != EXCEPT:
        return verdict.mark
    return (
        f"{EXCEPT} {sum(not cell.agrees for cell in verdict.cells)} of {len(verdict.cells)} cells"
    )


@dataclass(frozen=True)
class CheckedRow:
    """A row of the table of a column: a cell with the numbers of steps of its epoch."""

    cell: Cell
    steps: int = None  # None unless the column is a bandwidth
    published_steps: int = None  # of the mistake that the column has; None if the steps are correct

    @property
    def correct(self):
        """The correct value, at the published digits if it agrees with them."""
        cell = self.cell
        if cell.agrees:
            return str(to_digits_of(cell.correct, cell.published))
        return shorten(cell.correct)

    @property
    def ratio(self):
        cell = self.cell
        if cell.agrees or not cell.correct or not cell.published:
            return None
        return float(cell.correct / cell.published)

    @property
    def reproduced(self):
        return None if self.cell.reproduced is None else str(self.cell.reproduced)

    @property
    def same_steps(self):
        """The correct value with the published number of steps."""
        if self.published_steps is None:
            return None
        return shorten(self.cell.correct * self.published_steps / self.steps)

    @property
    def mark(self):
        return AGREES if self.cell.agrees else DIFFERS


COLUMNS = (
    Column("ranks", "Ranks", value=lambda item: item.cell.row.ranks),
    Column("batch", "Batch per rank", value=lambda item: item.cell.row.batch_per_rank),
    Column("steps", "Steps per epoch"),
    Column("published", "Published", value=lambda item: str(item.cell.published)),
    Column("reproduced", "Reproduced"),
    Column("correct", "Correct"),
    Column("ratio", "Correct / published", 3),
    Column("same_steps", "GB/s with the published steps"),
    Column("mark", "Verdict"),
    Column("remark", "Remark", value=lambda item: item.cell.remark or None),
)


def column_table(verdict, name, assumptions=DEFAULT_ASSUMPTIONS):
    correct_steps, global_steps, _ = step_alternatives(assumptions.samples)
    is_bandwidth = "bandwidth" in verdict.column
    keeps_steps = is_bandwidth and global_steps.text in verdict.found
    items = [CheckedRow(cell) for cell in verdict.cells]
    if is_bandwidth:
        items = [replace(item, steps=correct_steps.value(item.cell.row)) for item in items]
    if keeps_steps:
        items = [replace(item, published_steps=global_steps.value(item.cell.row)) for item in items]
    notes = [f"correct: {verdict.correct}"]
    if verdict.found and verdict.found != verdict.correct:
        notes.append(
            f"reproduced by: {verdict.found} (the first of {verdict.tried} formulas, "
            "sorted by the number of mistakes, that gives every printed digit)"
        )
    notes += verdict.mistakes
    if keeps_steps:
        notes.append(
            "if b was the global batch, the column with the published number of steps is correct"
        )
    return item_table(
        f"{name}-{verdict.column}",
        f"{name}: {verdict.column} ({mark_text(verdict)})",
        COLUMNS,
        items,
        notes,
    )


def resolution_notes(times):
    """Returns a note about rounded epoch times, if their unit is at least 1 % of the shortest
    time."""
    unit = Decimal(1).scaleb(max(row.seconds.as_tuple().exponent for row in times.rows))
    if unit / min(row.seconds for row in times.rows) < Decimal("0.01"):
        return []
    return [
        f"the epoch times are given to {unit} s: a difference T(N) − T(1)/N is uncertain by "
        f"up to ±({unit / 2} + {unit / 2}/N) s; a bandwidth has the same relative uncertainty"
    ]


def published_tables(times, assumptions=DEFAULT_ASSUMPTIONS):
    """Returns all tables that check a CSV; empty if it has neither published columns nor network
    traffic."""
    verdicts, name = check_times(times, assumptions), times.path.stem
    found = verdicts and [
        verdict_table(verdicts, name, resolution_notes(times)),
        *(column_table(v, name, assumptions) for v in verdicts if v.cells),
    ]
    return [*found, *filter(None, [traffic_table(times, assumptions)])]


def implied_allreduces(row, parameters):
    """Returns the ring all-reduces of float32 gradients per epoch that correspond to the measured
    traffic."""
    return row.network_mb_per_s * 1e6 * float(row.seconds) / ring_bytes(4 * parameters, row.ranks)


@dataclass(frozen=True)
class Traffic:
    """The network traffic of a CSV, and the all-reduces that it corresponds to."""

    model: str
    parameters: int
    implied: dict  # ranks -> all-reduces per epoch
    samples: int

    @property
    def all_reduces(self):
        """The median of the implied all-reduces."""
        return statistics.median_low(self.implied.values())

    @property
    def global_batch(self):
        """The power of two that is nearest to the implied global batch."""
        return 2 ** round(math.log2(self.samples / self.all_reduces))

    @property
    def steps(self):
        return math.ceil(self.samples / self.global_batch)

    def needed_mb_per_s(self, row):
        """Returns the traffic of the all-reduces of the global batch; None on one rank."""
        if row.ranks <= 1:
            return None
        size = self.steps * ring_bytes(4 * self.parameters, row.ranks)
        return size / float(row.seconds) / 1e6


def traffic_of_rows(rows, assumptions):
    """Returns the `Traffic` of rows, with the model whose implied batch is nearest to a power of
    two."""

    def distance(model):
        """Returns the median distance of the implied batches from a power of two."""
        batches = (
            math.log2(assumptions.samples / implied_allreduces(row, model[1])) for row in rows
        )
        return statistics.median_high(abs(batch - round(batch)) for batch in batches)

    model, parameters = min(assumptions.models, key=distance)
    implied = {row.ranks: implied_allreduces(row, parameters) for row in rows}
    return Traffic(model, parameters, implied, assumptions.samples)


def sent_gigabytes(row):
    if not row.network_mb_per_s:
        return None
    return row.network_mb_per_s * float(row.seconds) / 1e3


def traffic_table(times, assumptions=DEFAULT_ASSUMPTIONS):
    """Returns a table of speedup, CPU use and network traffic; None if the CSV has no traffic."""
    measured = [row for row in times.rows if row.network_mb_per_s and row.ranks > 1]
    if not measured:
        return None
    traffic = traffic_of_rows(measured, assumptions)
    return item_table(
        f"{times.path.stem}-traffic",
        f"{times.path.name}: CPU use and network traffic",
        traffic_columns(traffic, Epochs(times.rows)),
        times.rows,
        traffic_notes(traffic, is_given=len(assumptions.models) == 1),
    )


def traffic_columns(traffic, epochs):
    def speedup_per(ranks, row):
        t_1 = epochs.one_rank(row)
        return float(speedup(t_1, row.seconds) / ranks) if t_1 else None

    return [
        Column("ranks", "Workers"),
        Column("epoch_seconds", "Epoch (s)", 0, value=lambda row: float(row.seconds)),
        Column("speedup", "T(1)/T(N)", 2, value=lambda row: speedup_per(1, row)),
        Column("efficiency", "T(1)/(N·T(N))", 3, value=lambda row: speedup_per(row.ranks, row)),
        Column("cpu_percent", "CPU use (%)", 1),
        Column("network", "Measured (MB/s)", 1, value=lambda row: row.network_mb_per_s),
        Column("gigabytes", "Sent per epoch (GB)", 2, value=sent_gigabytes),
        Column(
            "implied", "Implied all-reduces", 1, value=lambda row: traffic.implied.get(row.ranks)
        ),
        Column(
            "needed",
            f"Needed at global batch {traffic.global_batch} (MB/s)",
            1,
            value=traffic.needed_mb_per_s,
        ),
    ]


def traffic_notes(traffic, is_given):
    origin = "inferred: the known model whose implied batch is nearest to a power of two"
    if is_given:
        origin = "given"
    scaling = (
        "the number of all-reduces changes with the number of workers: the batch per"
        " worker was fixed (weak scaling)"
    )
    if max(traffic.implied.values()) < 1.3 * min(traffic.implied.values()):
        scaling = (
            "the number of all-reduces does not decrease with the number of workers: the global"
            " batch was fixed (strong scaling)"
        )
    middle = traffic.all_reduces
    return [
        f"one all-reduce sends 2(N−1)/N · {traffic.parameters:,} · 4 bytes from each worker"
        f" ({traffic.model}; {origin})",
        f"the traffic corresponds to about {middle:.0f} all-reduces per epoch; with"
        f" {traffic.samples:,} images this implies a global batch of"
        f" {traffic.samples / middle:.0f}, so {traffic.global_batch} is assumed:"
        f" {traffic.steps} steps",
        scaling,
        "CPU use: user + system, mean over the nodes; MB = 1e6 bytes",
    ]
