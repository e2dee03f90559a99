# SPDX-License-Identifier: BSD-3-Clause
"""The tables that check published values: the columns published_* of a CSV of epoch times, and its network traffic, which is
compared with that of gradient all-reduces."""

import math
from decimal import Decimal

from lockstep_report.measure.metrics import ring_bytes, speedup
from lockstep_report.models.published import (
    AGREES, DIFFERS, EXCEPT, Assumptions, check_times, shorten, step_counts, to_digits_of)
from lockstep_report.tables.table import Column, Table


def verdict_table(verdicts, name, notes):
    rows = [{"column": v.column, "verdict": mark_text(v), "correct": v.correct,
             "found": "the correct one" if v.found == v.correct else v.found or "none of the formulas that were tried"}
            for v in verdicts]
    return Table(f"{name}-verdicts", f"{name}: published columns",
                 [Column("column", "Column"), Column("verdict", "Verdict"),
                  Column("correct", "Correct formula"),
                  Column("found", "Formula that gives the printed digits")], rows, notes)


def mark_text(verdict):
    if verdict.mark != EXCEPT:
        return verdict.mark
    wrong = sum(not cell.agrees for cell in verdict.cells)
    return f"{EXCEPT} {wrong} of {len(verdict.cells)} cells"


def column_table(verdict, name, assumptions=Assumptions()):
    per_rank, as_global, _ = step_counts(assumptions.samples)
    bandwidth = "bandwidth" in verdict.column
    keeps_steps = bandwidth and as_global.description in verdict.found
    rows = []
    for cell in verdict.cells:
        steps = per_rank.count(cell.row) if bandwidth else None
        rows.append({
            "ranks": cell.row.ranks, "batch": cell.row.batch_per_rank, "steps": steps,
            "published": str(cell.published),
            "reproduced": None if cell.reproduced is None else str(cell.reproduced),
            "correct": str(to_digits_of(cell.correct, cell.published)) if cell.agrees else shorten(cell.correct),
            "ratio": None if cell.agrees or not cell.correct or not cell.published
            else float(cell.correct / cell.published),
            "same_steps": shorten(cell.correct * as_global.count(cell.row) / steps) if keeps_steps else None,
            "mark": AGREES if cell.agrees else DIFFERS, "remark": cell.remark or None})
    notes = [f"correct: {verdict.correct}"]
    if verdict.found and verdict.found != verdict.correct:
        notes.append(f"reproduced by: {verdict.found} (the first of {verdict.tried} formulas, "
                     "sorted by the number of mistakes, that gives every printed digit)")
    notes += verdict.mistakes
    if keeps_steps:
        notes.append("if b was the global batch, the column with the published number of steps "
                     "is correct")
    return Table(f"{name}-{verdict.column}", f"{name}: {verdict.column} ({mark_text(verdict)})",
                 [Column("ranks", "Ranks"), Column("batch", "Batch per rank"),
                  Column("steps", "Steps per epoch"), Column("published", "Published"),
                  Column("reproduced", "Reproduced"), Column("correct", "Correct"),
                  Column("ratio", "Correct / published", 3),
                  Column("same_steps", "GB/s with the published steps"),
                  Column("mark", "Verdict"), Column("remark", "Remark")],
                 rows, notes)


def resolution_notes(times):
    """Returns a note about rounded epoch times, if their unit is at least 1 % of the shortest time."""
    unit = Decimal(1).scaleb(max(row.seconds.as_tuple().exponent for row in times.rows))
    shortest = min(row.seconds for row in times.rows)
    if unit / shortest < Decimal("0.01"):
        return []
    return [f"the epoch times are given to {unit} s: a difference T(N) − T(1)/N is uncertain by "
            f"up to ±({unit / 2} + {unit / 2}/N) s; a bandwidth has the same relative uncertainty"]


def published_tables(times, assumptions=Assumptions()):
    """Returns all tables that check a CSV; empty if it has neither published columns nor network traffic."""
    verdicts, name = check_times(times, assumptions), times.path.stem
    found = verdicts and [verdict_table(verdicts, name, resolution_notes(times)),
                          *(column_table(v, name, assumptions) for v in verdicts)]
    return [*found, *filter(None, [traffic_table(times, assumptions)])]


def implied_allreduces(row, parameters):
    """Returns the ring all-reduces of float32 gradients per epoch that correspond to the measured traffic."""
    sent = row.network_mb_per_s * 1e6 * float(row.seconds)
    return sent / ring_bytes(4 * parameters, row.ranks)


def likeliest_model(rows, assumptions):
    def median_distance(model):
        batches = (math.log2(assumptions.samples / implied_allreduces(row, model[1])) for row in rows)
        return sorted(abs(batch - round(batch)) for batch in batches)[len(rows) // 2]

    return min(assumptions.models, key=median_distance)


def traffic_table(times, assumptions=Assumptions()):
    """Returns a table of speedup, CPU use and network traffic; None if the CSV has no traffic."""
    measured = [row for row in times.rows if row.network_mb_per_s and row.ranks > 1]
    if not measured:
        return None
    model, parameters = likeliest_model(measured, assumptions)
    implied = {row.ranks: implied_allreduces(row, parameters) for row in measured}
    middle = sorted(implied.values())[(len(implied) - 1) // 2]
    batch = 2 ** round(math.log2(assumptions.samples / middle))
    steps = math.ceil(assumptions.samples / batch)
    alone = {row.batch_per_rank: row.seconds for row in times.rows if row.ranks == 1}
    rows = [traffic_row(row, alone.get(row.batch_per_rank), implied, parameters, steps)
            for row in times.rows]
    fixed = max(implied.values()) < 1.3 * min(implied.values())
    return Table(
        f"{times.path.stem}-traffic", f"{times.path.name}: CPU use and network traffic",
        [Column("ranks", "Workers"), Column("epoch_seconds", "Epoch (s)", 0),
         Column("speedup", "T(1)/T(N)", 2),
         Column("efficiency", "T(1)/(N·T(N))", 3), Column("cpu_percent", "CPU use (%)", 1),
         Column("network", "Measured (MB/s)", 1), Column("gigabytes", "Sent per epoch (GB)", 2),
         Column("implied", "Implied all-reduces", 1),
         Column("needed", f"Needed at global batch {batch} (MB/s)", 1)],
        rows,
        [f"one all-reduce sends 2(N−1)/N · {parameters:,} · 4 bytes from each worker ({model}; "
         + ("given" if len(assumptions.models) == 1 else
            "inferred: the known model whose implied batch is nearest to a power of two") + ")",
         f"the traffic corresponds to about {middle:.0f} all-reduces per epoch; with "
         f"{assumptions.samples:,} images this implies a global batch of "
         f"{assumptions.samples / middle:.0f}, so {batch} is assumed: {steps} steps",
         ("the number of all-reduces does not decrease with the number of workers: the global "
          "batch was fixed (strong scaling)") if fixed else
         "the number of all-reduces changes with the number of workers: the batch per worker was "
         "fixed (weak scaling)",
         "CPU use: user + system, mean over the nodes; MB = 1e6 bytes"])


def traffic_row(row, t_1, implied, parameters, steps):
    several = row.ranks > 1
    seconds = float(row.seconds)
    return {
        "ranks": row.ranks, "epoch_seconds": seconds,
        "speedup": float(speedup(t_1, row.seconds)) if t_1 else None,
        "efficiency": float(t_1 / row.seconds / row.ranks) if t_1 else None,
        "cpu_percent": row.cpu_percent, "network": row.network_mb_per_s,
        "gigabytes": row.network_mb_per_s * seconds / 1e3 if row.network_mb_per_s else None,
        "implied": implied.get(row.ranks),
        "needed": steps * ring_bytes(4 * parameters, row.ranks) / seconds / 1e6
        if several else None,
    }
