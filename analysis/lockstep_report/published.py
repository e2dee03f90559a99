"""Checks published figures against the epoch times beside them.

Nothing is known about any table: each column's figures are compared, digit by digit, with what
every candidate formula of `arithmetic.py` gives, and the simplest one that gives all of them is
named.
"""

from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal

from lockstep_report.arithmetic import Assumptions, Epochs, candidates_for, step_counts
from lockstep_report.metrics import bus_bandwidth, steps_per_epoch
from lockstep_report.tables import Column, Table

AGREES, EXCEPT, DIFFERS, UNEXPLAINED = "agrees", "agrees except", "differs", "not derivable"


@dataclass(frozen=True)
class Cell:
    row: object
    published: Decimal
    right: Decimal  # unrounded; None where it cannot be computed
    reproduced: Decimal  # by the candidate that was found, to the published digits
    agrees: bool  # the right figure rounds to the published digits
    remark: str = ""


@dataclass(frozen=True)
class Verdict:
    column: str
    mark: str
    right: str  # the right formula
    found: str  # the formula that gives the printed digits; empty where none does
    words: tuple  # what is wrong, in sentences
    cells: tuple
    tried: int  # candidates


def rounds_to(value, printed):
    """Whether `value` rounds to `printed` at its last printed digit (a tie rounds either way)."""
    if value is None:
        return False
    return abs(value - printed) <= Decimal(5).scaleb(printed.as_tuple().exponent - 1)


def to_digits_of(value, printed):
    """`value` with the digits of `printed`; a tie goes to `printed`."""
    if value is None:
        return None
    unit = Decimal(1).scaleb(printed.as_tuple().exponent)
    rounded = value.quantize(unit, ROUND_HALF_UP)
    if rounded != printed and rounds_to(value, printed):
        return value.quantize(unit, ROUND_HALF_DOWN)
    return rounded


def check_column(times, column, assumptions=Assumptions()):
    """The verdict on one published column."""
    epochs = Epochs(times.rows)
    rows = [row for row in times.rows if column in row.published]
    candidates = candidates_for(column, epochs, assumptions)
    if not candidates or not rows:
        return Verdict(column, UNEXPLAINED, "", "", ("no formula is known for such a column",), (),
                       0)
    hits = [sum(rounds_to(c.value(row), row.published[column]) for row in rows)
            for c in candidates]
    found = candidates[hits.index(len(rows))] if len(rows) in hits else None
    right = right_for(candidates, found)
    right_hits = hits[candidates.index(right)]
    if found is None and right_hits * 2 >= len(rows):
        found = right
    cells = tuple(check_cell(row, column, right, found) for row in rows)
    wrong = sum(not cell.agrees for cell in cells)
    if found is None:
        mark = UNEXPLAINED
        words = unexplained_words(times, column, cells, assumptions)
    elif wrong == 0:
        mark, words = AGREES, ()
    elif right_hits * 2 >= len(rows):
        mark = EXCEPT
        words = (*found.faults, *(cell_words(c) for c in cells if not c.agrees))
    else:
        mark, words = DIFFERS, found.faults
    return Verdict(column, mark, right.words, found.words if found else "", words, cells,
                   len(candidates))


def right_for(candidates, found):
    """The candidate without faults; of several (models), the one of the model that was found."""
    right = [c for c in candidates if not c.faults]
    if found is not None:
        model = found.words.rpartition("(")[2]
        for candidate in right:
            if candidate.words.rpartition("(")[2] == model:
                return candidate
    return right[0]


def check_cell(row, column, right, found):
    published = row.published[column]
    exact = right.value(row)
    agrees = rounds_to(exact, published)
    remark = ""
    if agrees and is_tie(exact, published):
        remark = f"{exact.normalize()} lies half way"
    elif not agrees and found is right and cut_off(exact, published) == published:
        remark = f"{shorten(exact)} cut off instead of rounded"
    reproduced = to_digits_of(found.value(row), published) if found else None
    return Cell(row, published, exact, reproduced, agrees, remark)


def cut_off(value, printed):
    """`value` cut off, not rounded, after the digits of `printed`."""
    if value is None:
        return None
    return value.quantize(Decimal(1).scaleb(printed.as_tuple().exponent), ROUND_DOWN)


def is_tie(value, printed):
    return abs(value - printed) == Decimal(5).scaleb(printed.as_tuple().exponent - 1)


def shorten(value, digits=6):
    """Six significant digits, without an exponent."""
    return f"{float(value):.{digits}g}" if value is not None else "–"


def where(row):
    batch = f" x batch {row.batch_per_rank}" if row.batch_per_rank else ""
    return f"{row.ranks}{batch}"


def cell_words(cell):
    text = (f"{where(cell.row)}: published {cell.published}, right is "
            f"{to_digits_of(cell.right, cell.published)} ({shorten(cell.right)})")
    return f"{text}: {cell.remark}" if cell.remark else text


def unexplained_words(times, column, cells, assumptions):
    """What can still be said of a column that does not follow from the epoch times."""
    words = ["does not follow from the epoch times by any formula tried: it must have been "
             "measured in another way"]
    cell = cells[0]
    if "communication" in column and cell.row.batch_per_rank and cell.published > 0:
        name, count = assumptions.models[0]
        steps = steps_per_epoch(assumptions.samples, cell.row.batch_per_rank, cell.row.ranks)
        rate = bus_bandwidth(4 * count * steps, float(cell.published), cell.row.ranks)
        words.append(
            f"{where(cell.row)}: {shorten(cell.published, 3)} s for {steps} all-reduces of "
            f"{4 * count:,} bytes (were it {name}) would be {rate / 1e9:.0f} GB/s of bus "
            "bandwidth; compare with the link: a timer that does not wait for the device measures "
            "the call, not the transfer")
    if "computation" in column:
        both = [(row, row.published[column] + communication_of(row))
                for row in times.rows if column in row.published and communication_of(row)]
        if both:
            row, accounted = max(both, key=lambda item: item[0].seconds - item[1])
            words.append(
                f"computation and communication leave {shorten(row.seconds - accounted, 4)} of "
                f"{shorten(row.seconds, 4)} s unexplained at {where(row)}")
    return tuple(words)


def communication_of(row):
    return next((v for c, v in row.published.items() if "communication" in c), None)


def check_times(times, assumptions=Assumptions()):
    """The verdicts on all published columns of a CSV."""
    return [check_column(times, column, assumptions) for column in times.published_columns]


def verdict_table(verdicts, name):
    """One line for each column."""
    rows = [{
        "column": v.column, "verdict": mark_text(v), "right": v.right,
        "found": v.found if v.found != v.right else "the same",
    } for v in verdicts]
    for row in rows:
        row["found"] = row["found"] or "none of those tried"
    return Table(f"{name}-verdicts", f"{name}: published columns",
                 [Column("column", "Column"), Column("verdict", "Verdict"),
                  Column("right", "Right formula"),
                  Column("found", "Formula that gives the printed digits")], rows)


def mark_text(verdict):
    if verdict.mark != EXCEPT:
        return verdict.mark
    wrong = sum(not cell.agrees for cell in verdict.cells)
    return f"{EXCEPT} {wrong} of {len(verdict.cells)} cells"


def column_table(verdict, name, assumptions=Assumptions()):
    """Published, reproduced and right figure of each cell."""
    per_rank, as_global, _ = step_counts(assumptions.samples)
    bandwidth = "bandwidth" in verdict.column
    keeps_steps = bandwidth and as_global.words in verdict.found
    rows = []
    for cell in verdict.cells:
        steps = per_rank.count(cell.row) if bandwidth else None
        rows.append({
            "ranks": cell.row.ranks, "batch": cell.row.batch_per_rank, "steps": steps,
            "published": str(cell.published),
            "reproduced": None if cell.reproduced is None else str(cell.reproduced),
            "right": str(to_digits_of(cell.right, cell.published)) if cell.agrees
            else shorten(cell.right),
            "ratio": None if cell.agrees or not cell.right or not cell.published
            else float(cell.right / cell.published),
            "same_steps": shorten(cell.right * as_global.count(cell.row) / steps)
            if keeps_steps else None,
            "mark": AGREES if cell.agrees else DIFFERS,
            "remark": cell.remark or None,
        })
    notes = [f"right: {verdict.right}"]
    if verdict.found and verdict.found != verdict.right:
        notes.append(f"reproduced by: {verdict.found} (the first of {verdict.tried} formulas "
                     "tried, simplest first, that gives every printed digit)")
    notes += verdict.words
    if keeps_steps:
        notes.append("if b was the batch of all ranks together after all, the column with the "
                     "published steps is the right one")
    return Table(f"{name}-{verdict.column}", f"{name}: {verdict.column} ({mark_text(verdict)})",
                 [Column("ranks", "Ranks"), Column("batch", "Batch per rank"),
                  Column("steps", "Steps per epoch"), Column("published", "Published"),
                  Column("reproduced", "Reproduced"), Column("right", "Right"),
                  Column("ratio", "Right / published", 3),
                  Column("same_steps", "GB/s with the published steps"),
                  Column("mark", "Mark"), Column("remark", "Remark")],
                 rows, notes)


def resolution_note(times):
    """What the printed digits of the epoch times allow; None where they are fine enough."""
    unit = Decimal(1).scaleb(max(row.seconds.as_tuple().exponent for row in times.rows))
    shortest = min(row.seconds for row in times.rows)
    if unit / shortest < Decimal("0.01"):
        return None
    return (f"the epoch times are given to {unit} s: a difference T(N) − T(1)/N is uncertain by "
            f"up to ±({unit / 2} + {unit / 2}/N) s, and a bandwidth from it as much in proportion")


def published_tables(times, assumptions=Assumptions()):
    """All that can be said of a CSV of published figures."""
    verdicts = check_times(times, assumptions)
    name = times.path.stem
    if not verdicts:
        return []
    overview = verdict_table(verdicts, name)
    note = resolution_note(times)
    overview.notes = [note] if note else []
    return [overview, *(column_table(v, name, assumptions) for v in verdicts)]
