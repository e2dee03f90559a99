# SPDX-License-Identifier: BSD-3-Clause
"""Checks published values against the epoch times in the same CSV: finds the simplest candidate of `formulas.py`
that gives the printed digits of all values of a column."""

from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from lockstep_report.measure.metrics import bus_bandwidth, steps_per_epoch
from lockstep_report.models.published.formulas import Assumptions, Epochs, candidates_for, printed

AGREES, EXCEPT, DIFFERS, UNEXPLAINED = "agrees", "agrees except", "differs", "not derivable"


@dataclass(frozen=True)
class Cell:
    row: object
    published: Decimal
    correct: Decimal  # correct value, unrounded; None if it cannot be computed
    reproduced: Decimal  # result of the formula `found`, rounded to the published digits
    agrees: bool  # the correct value rounds to the published digits
    remark: str = ""


@dataclass(frozen=True)
class Verdict:
    column: str
    mark: str
    correct: str  # the correct formula
    found: str  # the formula that reproduces the printed digits; empty if none does
    mistakes: tuple  # what is wrong, one sentence each
    cells: tuple
    tried: int  # number of candidates


def unit_of(printed):
    """Returns the unit of the last printed digit."""
    return Decimal(1).scaleb(printed.as_tuple().exponent)


def rounds_to(value, printed):
    """Returns whether `value` rounds to `printed` at its last printed digit. A tie may round either
    way."""
    return value is not None and abs(value - printed) <= unit_of(printed) / 2


def to_digits_of(value, printed):
    """Returns `value` rounded to the digits of `printed`; a tie is rounded to `printed`."""
    if value is None:
        return None
    return printed if rounds_to(value, printed) else value.quantize(unit_of(printed), ROUND_HALF_UP)


def check_column(times, column, assumptions=Assumptions()):
    epochs = Epochs(times.rows)
    rows = [row for row in times.rows if column in row.published]
    candidates = candidates_for(column, epochs, assumptions)
    if not candidates or not rows:
        return Verdict(column, UNEXPLAINED, "", "", ("no formula is known for such a column",), (), 0)
    hits = [sum(rounds_to(c.value(row), row.published[column]) for row in rows) for c in candidates]
    found = candidates[hits.index(len(rows))] if len(rows) in hits else None
    correct = correct_for(candidates, found)
    correct_hits = hits[candidates.index(correct)]
    if found is None and correct_hits * 2 >= len(rows):
        found = correct
    cells = tuple(check_cell(row, column, correct, found) for row in rows)
    if found is None:
        mark = UNEXPLAINED
        mistakes = unexplained_mistakes(times, column, cells, assumptions)
    elif all(cell.agrees for cell in cells):
        mark, mistakes = AGREES, ()
    elif correct_hits * 2 >= len(rows):
        mark = EXCEPT
        mistakes = (*found.mistakes, *(describe_cell(c) for c in cells if not c.agrees))
    else:
        mark, mistakes = DIFFERS, found.mistakes
    return Verdict(column, mark, correct.description, found.description if found else "", mistakes,
                   cells, len(candidates))


def correct_for(candidates, found):
    """Returns the candidate without mistakes; if there are several, that of `found`'s model."""
    correct = [c for c in candidates if not c.mistakes]
    model = found and found.description.rpartition("(")[2]
    return next((c for c in correct if c.description.rpartition("(")[2] == model), correct[0])


def check_cell(row, column, correct, found):
    published = row.published[column]
    exact = correct.value(row)
    agrees = rounds_to(exact, published)
    remark = ""
    if agrees and abs(exact - published) == unit_of(published) / 2:
        remark = f"{exact.normalize()} is a tie"
    elif exact is not None and not agrees and found is correct and (
            exact.quantize(unit_of(published), ROUND_DOWN) == published):
        remark = f"{shorten(exact)} truncated instead of rounded"
    reproduced = to_digits_of(found.value(row), published) if found else None
    return Cell(row, published, exact, reproduced, agrees, remark)


def shorten(value, digits=6):
    """Formats with `digits` significant digits; "–" if there is no value."""
    return f"{float(value):.{digits}g}" if value is not None else "–"


def describe_row(row):
    batch = f" x batch {row.batch_per_rank}" if row.batch_per_rank else ""
    return f"{row.ranks}{batch}"


def describe_cell(cell):
    text = (f"{describe_row(cell.row)}: published {cell.published}, correct is "
            f"{to_digits_of(cell.correct, cell.published)} ({shorten(cell.correct)})")
    return f"{text}: {cell.remark}" if cell.remark else text


def unexplained_mistakes(times, column, cells, assumptions):
    """Returns remarks about a column that no formula derives from the epoch times."""
    mistakes = ["does not follow from the epoch times by any formula that was tried: it must have "
                "been measured separately"]
    cell = cells[0]
    if "communication" in column and cell.row.batch_per_rank and cell.published > 0:
        name, count = assumptions.models[0]
        steps = steps_per_epoch(assumptions.samples, cell.row.batch_per_rank, cell.row.ranks)
        rate = bus_bandwidth(4 * count * steps, float(cell.published), cell.row.ranks)
        mistakes.append(
            f"{describe_row(cell.row)}: {shorten(cell.published, 3)} s for {steps} all-reduces of "
            f"{4 * count:,} bytes (if the model is {name}) would be {rate / 1e9:.0f} GB/s of bus "
            "bandwidth; compare this with the rate of the link: a timer that does not wait for the "
            "device measures the call, not the transfer")
    if "computation" in column:
        both = [(row.seconds - row.published[column] - printed(row, "communication"), row)
                for row in times.rows if column in row.published and printed(row, "communication")]
        if both:
            rest, row = max(both, key=lambda item: item[0])
            mistakes.append(f"computation and communication do not account for {shorten(rest, 4)} of "
                            f"{shorten(row.seconds, 4)} s at {describe_row(row)}")
    return tuple(mistakes)


def check_times(times, assumptions=Assumptions()):
    return [check_column(times, column, assumptions) for column in times.published_columns]
