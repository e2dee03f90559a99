# SPDX-License-Identifier: BSD-3-Clause
"""Candidate formulas for published values: the correct one, and those of common mistakes."""

import itertools
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from typing import Callable, NamedTuple

from lockstep_report.measure.metrics import steps_per_epoch


@dataclass(frozen=True)
class Candidate:
    description: str
    value: Callable  # Row -> Decimal, or None if it cannot be computed
    mistakes: tuple = ()
    model: str = ""  # whose parameters it uses


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


class Alternative(NamedTuple):
    """One form of a part of the bandwidth formula."""

    text: str  # in the formula
    value: object
    mistake: str = ""  # empty for the correct form


def step_alternatives(samples):
    """Returns the forms of the number of steps of an epoch, first the correct one. Values are
    functions of the row."""
    return (
        Alternative(
            "ceil(D/(b·N)) steps",
            lambda row: steps_per_epoch(samples, row.batch_per_rank, row.ranks),
        ),
        Alternative(
            "ceil(D/b) steps",
            lambda row: steps_per_epoch(samples, row.batch_per_rank, 1),
            "counts ceil(D/b) steps on every number of ranks, as if b were the global batch;"
            " with batch b on each of N ranks an epoch has ceil(D/(b·N)) steps, about N times"
            " fewer",
        ),
        Alternative(
            "one all-reduce",
            lambda row: 1,
            "divides the bytes of ONE all-reduce by the communication time of an epoch: too"
            " small by a factor equal to the number of steps, ceil(D/(b·N))",
        ),
    )


# Bytes per parameter.
ELEMENTS = (
    Alternative("· 4 bytes ", Decimal(4)),
    Alternative(
        "",
        Decimal(1),
        "counts parameters, not bytes: the value in bytes is 4 times as large (float32)",
    ),
)
# Bytes per unit.
UNITS = (
    Alternative("1e9", Decimal(10**9)),
    Alternative(
        "2^30", Decimal(2**30), "is in GiB/s (2^30 bytes), 1.074 times smaller than in GB/s"
    ),
)
# Share of the array that a rank sends, as functions of the number of ranks.
RINGS = (
    Alternative("2(N−1)/N", lambda n: Decimal(2 * (n - 1)) / n),
    Alternative(
        "(N−1)/N",
        lambda n: Decimal(n - 1) / n,
        "counts half of the bytes of a ring: (N−1)/N, not 2(N−1)/N",
    ),
    Alternative("1", lambda n: Decimal(1), "omits the factor 2(N−1)/N of the ring algorithm"),
)
# Decimals to which the amount sent is rounded; None: not rounded.
ROUNDINGS = (
    Alternative("", None),
    *(
        Alternative("", digits, f"rounds the amount sent to {digits} decimals before dividing")
        for digits in (2, 3, 4)
    ),
)
# Whether the communication time is that which was printed.
TIMES = (
    Alternative("", False),
    Alternative("", True, "divides by the communication time as printed, after rounding"),
)


class BandwidthFormula(NamedTuple):
    """A formula of the bandwidth: a choice of alternatives."""

    model: tuple  # name, number of parameters
    element: Alternative
    steps: Alternative
    unit: Alternative
    ring: Alternative
    rounding: Alternative
    time: Alternative

    @property
    def description(self):
        model, parameters = self.model
        return (
            f"{self.ring.text} · {parameters:,} {self.element.text}· {self.steps.text}"
            f" / communication / {self.unit.text} ({model})"
        )

    @property
    def mistakes(self):
        alternatives = self[1:]
        return tuple(one.mistake for one in alternatives if one.mistake)

    def value(self, epochs, row):
        """Returns the bandwidth of a row; None if it cannot be computed."""
        if row.ranks < 2 or not row.batch_per_rank:
            return None
        seconds = rest(row, epochs.computation(row))
        if self.time.value:
            seconds = printed(row, "communication")
        if not seconds or seconds <= 0:
            return None
        _, parameters = self.model
        array = parameters * self.element.value
        sent = self.ring.value(row.ranks) * array * self.steps.value(row) / self.unit.value
        if self.rounding.value is not None:
            sent = sent.quantize(Decimal(1).scaleb(-self.rounding.value), ROUND_HALF_UP)
        return sent / seconds


def bandwidth_candidates(epochs, assumptions):
    """Returns every combination of the alternatives, sorted by the number of mistakes."""
    formulas = itertools.starmap(
        BandwidthFormula,
        itertools.product(
            assumptions.models,
            ELEMENTS,
            step_alternatives(assumptions.samples),
            UNITS,
            RINGS,
            ROUNDINGS,
            TIMES,
        ),
    )
    candidates = [
        Candidate(
            formula.description, partial(formula.value, epochs), formula.mistakes, formula.model[0]
        )
        for formula in formulas
    ]
    return sorted(candidates, key=lambda c: len(c.mistakes))
