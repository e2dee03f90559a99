# SPDX-License-Identifier: BSD-3-Clause
"""The tables that check published values: the columns published_* of a CSV of epoch times, and its
network traffic, which is compared with that of gradient all-reduces."""

import math
import statistics
from decimal import Decimal

from lockstep_report.measure.metrics import ring_bytes, speedup
from lockstep_report.models.published import (
    AGREES,
    DIFFERS,
    EXCEPT,
    Assumptions,
    Epochs,
    check_times,
    shorten,
    step_counts,
    to_digits_of,
)
from lockstep_report.tables.table import Column, item_table


def verdict_table(verdicts, name, notes):
    columns = [
        Column("column", "Column", value=lambda v: v.column),
        Column("verdict", "Verdict", value=mark_text),
        Column("correct", "Correct formula", value=lambda v: v.correct or None),
        Column(
            "found",
            "Formula that gives the printed digits",
            value=lambda v: (
                None
                if not v.cells
                else (
                    "the correct one"
                    if v.found == v.correct
                    else v.found or "none of the formulas that were tried"
                )
            ),
        ),
    ]
    return item_table(
        f"{name}-verdicts",
        f"{name}: published columns",
        columns,
        verdicts,
        [
            *notes,
            *(f"{v.column}: {reason}" for v in verdicts if not v.cells for reason in v.mistakes),
        ],
    )


def mark_text(verdict):
    if verdict.mark != EXCEPT:
        return verdict.mark
    return (
        f"{EXCEPT} {sum(not cell.agrees for cell in verdict.cells)} of {len(verdict.cells)} cells"
    )


def column_table(verdict, name, assumptions=Assumptions()):
    (_, steps, _), (as_global, published_steps, _), _ = step_counts(assumptions.samples)
    is_bandwidth = "bandwidth" in verdict.column
    keeps_steps = is_bandwidth and as_global in verdict.found
    columns = [
        Column("ranks", "Ranks", value=lambda cell: cell.row.ranks),
        Column("batch", "Batch per rank", value=lambda cell: cell.row.batch_per_rank),
        Column(
            "steps", "Steps per epoch", value=lambda cell: steps(cell.row) if is_bandwidth else None
        ),
        Column("published", "Published", value=lambda cell: str(cell.published)),
        Column(
            "reproduced",
            "Reproduced",
            value=lambda cell: None if cell.reproduced is None else str(cell.reproduced),
        ),
        Column(
            "correct",
            "Correct",
            value=lambda cell: (
                str(to_digits_of(cell.correct, cell.published))
                if cell.agrees
                else shorten(cell.correct)
            ),
        ),
        Column(
            "ratio",
            "Correct / published",
            3,
            value=lambda cell: (
                None
                if cell.agrees or not cell.correct or not cell.published
                else float(cell.correct / cell.published)
            ),
        ),
        Column(
            "same_steps",
            "GB/s with the published steps",
            value=lambda cell: (
                shorten(cell.correct * published_steps(cell.row) / steps(cell.row))
                if keeps_steps
                else None
            ),
        ),
        Column("mark", "Verdict", value=lambda cell: AGREES if cell.agrees else DIFFERS),
        Column("remark", "Remark", value=lambda cell: cell.remark or None),
    ]
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
        columns,
        verdict.cells,
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


def published_tables(times, assumptions=Assumptions()):
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


def traffic_table(times, assumptions=Assumptions()):
    """Returns a table of speedup, CPU use and network traffic; None if the CSV has no traffic."""
    measured = [row for row in times.rows if row.network_mb_per_s and row.ranks > 1]
    if not measured:
        return None

    def distance(model):
        """Returns the median distance of the implied batches from a power of two."""
        batches = (
            math.log2(assumptions.samples / implied_allreduces(row, model[1])) for row in measured
        )
        return statistics.median_high(abs(batch - round(batch)) for batch in batches)

    model, parameters = min(assumptions.models, key=distance)
    implied = {row.ranks: implied_allreduces(row, parameters) for row in measured}
    middle = statistics.median_low(implied.values())
    batch = 2 ** round(math.log2(assumptions.samples / middle))
    steps, epochs = math.ceil(assumptions.samples / batch), Epochs(times.rows)

    def speedup_per(ranks, row):
        t_1 = epochs.one_rank(row)
        return float(speedup(t_1, row.seconds) / ranks) if t_1 else None

    columns = [
        Column("ranks", "Workers", value=lambda row: row.ranks),
        Column("epoch_seconds", "Epoch (s)", 0, value=lambda row: float(row.seconds)),
        Column("speedup", "T(1)/T(N)", 2, value=lambda row: speedup_per(1, row)),
        Column("efficiency", "T(1)/(N·T(N))", 3, value=lambda row: speedup_per(row.ranks, row)),
        Column("cpu_percent", "CPU use (%)", 1, value=lambda row: row.cpu_percent),
        Column("network", "Measured (MB/s)", 1, value=lambda row: row.network_mb_per_s),
        Column(
            "gigabytes",
            "Sent per epoch (GB)",
            2,
            value=lambda row: (
                row.network_mb_per_s * float(row.seconds) / 1e3 if row.network_mb_per_s else None
            ),
        ),
        Column("implied", "Implied all-reduces", 1, value=lambda row: implied.get(row.ranks)),
        Column(
            "needed",
            f"Needed at global batch {batch} (MB/s)",
            1,
            value=lambda row: (
                steps * ring_bytes(4 * parameters, row.ranks) / float(row.seconds) / 1e6
                if row.ranks > 1
                else None
            ),
        ),
    ]
    return item_table(
        f"{times.path.stem}-traffic",
        f"{times.path.name}: CPU use and network traffic",
        columns,
        times.rows,
        [
            f"one all-reduce sends 2(N−1)/N · {parameters:,} · 4 bytes from each worker ({model}; "
            + (
                "given"
                if len(assumptions.models) == 1
                else "inferred: the known model whose implied batch is nearest to a power of two"
            )
            + ")",
            (
                f"the traffic corresponds to about {middle:.0f} all-reduces per epoch; with"
                f" {assumptions.samples:,} images this implies a global batch of"
                f" {assumptions.samples / middle:.0f}, so {batch} is assumed: {steps} steps"
            ),
            (
                "the number of all-reduces does not decrease with the number of workers: the global"
                " batch was fixed (strong scaling)"
                if max(implied.values()) < 1.3 * min(implied.values())
                else (
                    "the number of all-reduces changes with the number of workers: the batch per"
                    " worker was fixed (weak scaling)"
                )
            ),
            "CPU use: user + system, mean over the nodes; MB = 1e6 bytes",
        ],
    )
