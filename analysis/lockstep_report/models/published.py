# SPDX-License-Identifier: BSD-3-Clause
"""Checks published values against the epoch times in the same CSV. A column is explained by the
simplest formula that gives the printed digits of all its values: the correct formula, which has no
`mistakes`, or one of a common mistake."""

from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from lockstep_report.measure.metrics import bus_bandwidth, steps_per_epoch
from lockstep_report.models.published_formulas import Epochs, candidates_for, printed

AGREES, EXCEPT = "agrees", "agrees except"
DIFFERS, UNEXPLAINED = "differs", "not derivable"
KNOWN_PARAMETERS = {  # trainable parameters
    "resnet18-cifar (10 classes)": 11_173_962,
    "resnet18-imagenet (1,000 classes)": 11_689_512,
    "vgg11 with batch norm (10 classes)": 9_231_114,
}


@dataclass(frozen=True)
class Assumptions:
    """Values that are needed but not part of the CSV."""

    samples: int = 50_000
    models: tuple = tuple(KNOWN_PARAMETERS.items())


DEFAULT_ASSUMPTIONS = Assumptions()


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


def unit_of(published):
    return Decimal(1).scaleb(published.as_tuple().exponent)


def rounds_to(value, published):
    """Returns whether `value` rounds to `published` at its last digit; a tie may round either
    way."""
    return value is not None and abs(value - published) <= unit_of(published) / 2


def to_digits_of(value, published):
    """Returns `value` rounded to the digits of `published`; a tie is rounded to `published`."""
    if value is None:
        return None
    if rounds_to(value, published):
        return published
    return value.quantize(unit_of(published), ROUND_HALF_UP)


def check_column(times, column, assumptions=DEFAULT_ASSUMPTIONS):
    rows = [row for row in times.rows if column in row.published]
    has_steps = "bandwidth" not in column or all(row.batch_per_rank for row in rows)
    candidates = candidates_for(column, Epochs(times.rows), assumptions) if has_steps else None
    if not candidates or not rows:
        reason = "no formula is known for such a column"
        if not has_steps:
            reason = "the number of steps is unknown; add the column batch_per_rank"
        return Verdict(column, UNEXPLAINED, "", "", (reason,), (), 0)

    def hits(candidate):
        return sum(rounds_to(candidate.value(row), row.published[column]) for row in rows)

    found = next((c for c in candidates if hits(c) == len(rows)), None)
    correct = next(
        c for c in candidates if not c.mistakes and (found is None or c.model == found.model)
    )
    is_mostly_correct = 2 * hits(correct) >= len(rows)
    if found is None and is_mostly_correct:
        found = correct
    cells = tuple(check_cell(row, column, correct, found) for row in rows)
    mark = mark_of(found, cells, is_mostly_correct)
    mistakes = ()
    if mark == UNEXPLAINED:
        mistakes = unexplained_mistakes(times, column, cells, assumptions)
    elif mark != AGREES:
        mistakes = found.mistakes
    if mark == EXCEPT:
        mistakes += tuple(describe_cell(cell) for cell in cells if not cell.agrees)
    description = found.description if found else ""
    return Verdict(column, mark, correct.description, description, mistakes, cells, len(candidates))


def mark_of(found, cells, is_mostly_correct):
    if found is None:
        return UNEXPLAINED
    if all(cell.agrees for cell in cells):
        return AGREES
    return EXCEPT if is_mostly_correct else DIFFERS


def check_cell(row, column, correct, found):
    published = row.published[column]
    exact = correct.value(row)
    agrees = rounds_to(exact, published)
    remark = ""
    if agrees and abs(exact - published) == unit_of(published) / 2:
        remark = f"{exact.normalize()} is a tie"
    elif (
        exact is not None
        and not agrees
        and found is correct
        and (exact.quantize(unit_of(published), ROUND_DOWN) == published)
    ):
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
    correct = to_digits_of(cell.correct, cell.published)
    remark = f": {cell.remark}" if cell.remark else ""
    return (
        f"{describe_row(cell.row)}: published {cell.published}, correct is {correct} "
        f"({shorten(cell.correct)}){remark}"
    )


def unexplained_mistakes(times, column, cells, assumptions):
    mistakes = [
        "does not follow from the epoch times by any formula that was tried: it must have "
        "been measured separately"
    ]
    cell = cells[0]
    if "communication" in column and cell.row.batch_per_rank and cell.published > 0:
        name, count = assumptions.models[0]
        steps = steps_per_epoch(assumptions.samples, cell.row.batch_per_rank, cell.row.ranks)
        rate = bus_bandwidth(4 * count * steps, float(cell.published), cell.row.ranks)
        mistakes.append(
            f"{describe_row(cell.row)}: {shorten(cell.published, 3)} s for {steps} all-reduces of"
            f" {4 * count:,} bytes (if the model is {name}) would be {rate / 1e9:.0f} GB/s of bus"
            " bandwidth; compare this with the rate of the link: a timer that does not wait for"
            " the device measures the call, not the transfer"
        )
    if "computation" in column:
        both = [
            (row.seconds - row.published[column] - printed(row, "communication"), row)
            for row in times.rows
            if column in row.published and printed(row, "communication")
        ]
        if both:
            rest, row = max(both, key=lambda item: item[0])
            mistakes.append(
                f"computation and communication do not account for {shorten(rest, 4)} of "
                f"{shorten(row.seconds, 4)} s at {describe_row(row)}"
            )
    return tuple(mistakes)


def check_times(times, assumptions=DEFAULT_ASSUMPTIONS):
    return [check_column(times, column, assumptions) for column in times.published_columns]
