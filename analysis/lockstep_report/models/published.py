# SPDX-License-Identifier: BSD-3-Clause
"""Checks published values against the epoch times in the same CSV. The candidate formulas for a
value are the correct formula, which has no `mistakes`, and common mistakes; a column is explained
by the simplest one that gives the printed digits of all its values."""

import itertools
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from functools import partial
from typing import Callable

from lockstep_report.measure.metrics import bus_bandwidth, steps_per_epoch

AGREES, EXCEPT, DIFFERS, UNEXPLAINED = "agrees", "agrees except", "differs", "not derivable"
KNOWN_PARAMETERS = {  # trainable parameters
    "resnet18-cifar (10 classes)": 11_173_962,
    "resnet18-imagenet (1,000 classes)": 11_689_512,
    "vgg11 with batch norm (10 classes)": 9_231_114,
}


@dataclass(frozen=True)
class Candidate:
    description: str
    value: Callable  # Row -> Decimal, or None if it cannot be computed
    mistakes: tuple = ()
    model: str = ""  # whose parameters it uses


@dataclass(frozen=True)
class Assumptions:
    """Values that are needed but not part of the CSV."""

    samples: int = 50_000
    models: tuple = tuple(KNOWN_PARAMETERS.items())


class Epochs:
    """The epoch times of one CSV, for access to other rows than the current one."""

    def __init__(self, rows):
        self.rows = rows
        self.seconds = {(row.ranks, row.batch_per_rank): row.seconds for row in rows}

    def one_rank(self, row):
        """Returns T(1) at the row's batch per rank; None if the CSV has no such row."""
        return self.seconds.get((1, row.batch_per_rank))

    def computation(self, row):
        t_1 = self.one_rank(row)
        return t_1 and t_1 / row.ranks

    def previous_batch(self, row):
        """Returns T at the same ranks and the next smaller batch, or the same one if it is the
        smallest; None without it."""
        if not row.batch_per_rank:
            return None
        smaller = [batch for _, batch in self.seconds if batch and batch < row.batch_per_rank]
        return self.seconds.get((row.ranks, max(smaller, default=row.batch_per_rank)))


def candidates_for(column, epochs, assumptions):
    """Returns the candidates for a column by what its name contains, first a correct one; None if
    no formula is known."""
    if "speedup" in column:
        return speedup_candidates(epochs, "n_t1_over_tn" in column)
    if "computation" in column:
        return [
            Candidate("T(1)/N", epochs.computation),
            Candidate("T(1)", epochs.one_rank, ("is T(1), not divided by the number of ranks",)),
            Candidate("T(N)", lambda row: row.seconds, ("is the time of the complete epoch",)),
        ]
    if "communication" in column:
        return [
            Candidate("T(N) − T(1)/N", lambda row: rest(row, epochs.computation(row))),
            Candidate(
                "T(N) − the computation as printed",
                lambda row: rest(row, printed(row, "computation")),
                ("subtracts the computation as it was printed, after rounding",),
            ),
            Candidate(
                "T(N) − T(1)",
                lambda row: rest(row, epochs.one_rank(row)),
                ("subtracts all of T(1), not T(1)/N",),
            ),
        ]
    return bandwidth_candidates(epochs, assumptions) if "bandwidth" in column else None


def rest(row, part):
    return None if part is None else row.seconds - part


def printed(row, kind):
    """Returns the first published value of the row whose column name contains `kind`, or None."""
    return next((value for column, value in row.published.items() if kind in column), None)


def speedup_candidates(epochs, is_scaled):
    """`is_scaled`: N·T(1)/T(N) is correct, not T(1)/T(N)."""

    def over(time, factor=lambda row: 1):
        return lambda row: None if time(row) is None else factor(row) * time(row) / row.seconds

    plain = ("T(1)/T(N)", over(epochs.one_rank))
    scaled = ("N·T(1)/T(N)", over(epochs.one_rank, lambda row: row.ranks))
    correct, other = (scaled, plain) if is_scaled else (plain, scaled)
    return [
        Candidate(*correct),
        Candidate(*other, (f"is {other[0]}, not {correct[0]}",)),
        Candidate(
            "T(previous batch, same N)/T(N)",
            over(epochs.previous_batch),
            (
                (
                    "divides the time at the previous batch size and the SAME number of ranks by"
                    " the time of the row: this is the effect of a larger batch, not of more ranks;"
                    " a speedup is relative to one rank at the same batch per rank"
                ),
            ),
        ),
        Candidate(
            "T(previous row)/T",
            over(lambda row: epochs.rows[max(0, epochs.rows.index(row) - 1)].seconds),
            ("is relative to the previous row of the table, not to one rank",),
        ),
        Candidate(
            "T(first row)/T",
            over(lambda row: epochs.rows[0].seconds),
            ("is relative to the first row of the table, at another batch size",),
        ),
    ]


def step_counts(samples):
    """Returns alternatives, see below: the number of steps of the epoch of a row."""
    return (
        (
            "ceil(D/(b·N)) steps",
            lambda row: steps_per_epoch(samples, row.batch_per_rank, row.ranks),
            None,
        ),
        (
            "ceil(D/b) steps",
            lambda row: steps_per_epoch(samples, row.batch_per_rank, 1),
            (
                "counts ceil(D/b) steps on every number of ranks, as if b were the global batch;"
                " with batch b on each of N ranks an epoch has ceil(D/(b·N)) steps, about N times"
                " fewer"
            ),
        ),
        (
            "one all-reduce",
            lambda row: 1,
            (
                "divides the bytes of ONE all-reduce by the communication time of an epoch: too"
                " small by a factor equal to the number of steps, ceil(D/(b·N))"
            ),
        ),
    )


# Alternatives: (text, value, mistake).
ELEMENTS = (
    ("· 4 bytes ", Decimal(4), None),
    (
        "",
        Decimal(1),
        "counts parameters, not bytes: the value in bytes is 4 times as large (float32)",
    ),
)
UNITS = (
    ("1e9", Decimal(10**9), None),
    ("2^30", Decimal(2**30), "is in GiB/s (2^30 bytes), 1.074 times smaller than in GB/s"),
)
RINGS = (
    ("2(N−1)/N", lambda n: Decimal(2 * (n - 1)) / n, None),
    (
        "(N−1)/N",
        lambda n: Decimal(n - 1) / n,
        "counts half of the bytes of a ring: (N−1)/N, not 2(N−1)/N",
    ),
    ("1", lambda n: Decimal(1), "omits the factor 2(N−1)/N of the ring algorithm"),
)
ROUNDINGS = (
    ("", None, None),
    *(
        ("", digits, f"rounds the amount sent to {digits} decimals before dividing")
        for digits in (2, 3, 4)
    ),
)
TIMES = (
    ("", False, None),
    ("", True, "divides by the communication time as printed, after rounding"),
)


def bandwidth_candidates(epochs, assumptions):
    """Returns every combination of the alternatives above, sorted by the number of mistakes."""
    candidates = []
    for (model, count), *chosen in itertools.product(
        assumptions.models,
        ELEMENTS,
        step_counts(assumptions.samples),
        UNITS,
        RINGS,
        ROUNDINGS,
        TIMES,
    ):
        (element, steps, unit, ring, _, _), values, mistakes = zip(*chosen)
        candidates.append(
            Candidate(
                f"{ring} · {count:,} {element}· {steps} / communication / {unit} ({model})",
                partial(bandwidth, epochs, count, *values),
                tuple(filter(None, mistakes)),
                model,
            )
        )
    return sorted(candidates, key=lambda c: len(c.mistakes))


def bandwidth(epochs, count, element, steps, unit, ring, digits, as_printed, row):
    seconds = printed(row, "communication") if as_printed else rest(row, epochs.computation(row))
    if row.ranks < 2 or not seconds or seconds <= 0 or not row.batch_per_rank:
        return None
    sent = ring(row.ranks) * (count * element) * steps(row) / unit
    return (
        sent if digits is None else sent.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    ) / seconds


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
    return Decimal(1).scaleb(printed.as_tuple().exponent)


def rounds_to(value, printed):
    """Returns whether `value` rounds to `printed` at its last digit; a tie may round either way."""
    return value is not None and abs(value - printed) <= unit_of(printed) / 2


def to_digits_of(value, printed):
    """Returns `value` rounded to the digits of `printed`; a tie is rounded to `printed`."""
    if value is None:
        return None
    return printed if rounds_to(value, printed) else value.quantize(unit_of(printed), ROUND_HALF_UP)


def check_column(times, column, assumptions=Assumptions()):
    rows = [row for row in times.rows if column in row.published]
    has_steps = "bandwidth" not in column or all(row.batch_per_rank for row in rows)
    candidates = candidates_for(column, Epochs(times.rows), assumptions) if has_steps else None
    if not candidates or not rows:
        reason = (
            "no formula is known for such a column"
            if has_steps
            else "the number of steps is unknown; add the column batch_per_rank"
        )
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
    if found is None:
        mark, mistakes = UNEXPLAINED, unexplained_mistakes(times, column, cells, assumptions)
    elif all(cell.agrees for cell in cells):
        mark, mistakes = AGREES, ()
    elif is_mostly_correct:
        mark, mistakes = (
            EXCEPT,
            (
                *found.mistakes,
                *(describe_cell(c) for c in cells if not c.agrees),
            ),
        )
    else:
        mark, mistakes = DIFFERS, found.mistakes
    return Verdict(
        column,
        mark,
        correct.description,
        found.description if found else "",
        mistakes,
        cells,
        len(candidates),
    )


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
    correct, remark = to_digits_of(cell.correct, cell.published), cell.remark and f": {cell.remark}"
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


def check_times(times, assumptions=Assumptions()):
    return [check_column(times, column, assumptions) for column in times.published_columns]
