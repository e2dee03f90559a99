# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the check of published values."""

from decimal import Decimal

from lockstep_report.models.published.check import AGREES, DIFFERS, EXCEPT, check_times, shorten, to_digits_of
from lockstep_report.models.published.formulas import Assumptions, step_counts
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
    """Returns a table with the published, reproduced and correct value of each cell."""
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
    """Returns a note about the uncertainty due to rounded epoch times; none if the rounding unit is
    below 1 % of the shortest time."""
    unit = Decimal(1).scaleb(max(row.seconds.as_tuple().exponent for row in times.rows))
    shortest = min(row.seconds for row in times.rows)
    if unit / shortest < Decimal("0.01"):
        return []
    return [f"the epoch times are given to {unit} s: a difference T(N) − T(1)/N is uncertain by "
            f"up to ±({unit / 2} + {unit / 2}/N) s; a bandwidth has the same relative uncertainty"]


def published_tables(times, assumptions=Assumptions()):
    """Returns all tables about the published columns of a CSV; empty if it has none."""
    verdicts, name = check_times(times, assumptions), times.path.stem
    return verdicts and [verdict_table(verdicts, name, resolution_notes(times)),
                         *(column_table(v, name, assumptions) for v in verdicts)]
