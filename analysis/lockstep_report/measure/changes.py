# SPDX-License-Identifier: BSD-3-Clause
"""Changes of quantities between two cases: whether a change is significant, exceeds the spread
that is assumed for single runs, or is a regression. docs/analysis.md ("Comparison") states the
method."""

from dataclasses import dataclass
from typing import NamedTuple

from lockstep_report.measure import metrics
from lockstep_report.measure.estimates import QUANTITIES, ComparedQuantity, MedianEstimate
from lockstep_report.measure.inference import assumed_half_width

BETTER, WORSE = "better", "worse"
CHECKED = ("epoch_seconds", "training_seconds", "step_seconds")  # unless --check names others


@dataclass(frozen=True)
class Change:
    """The change from A to B: B - A, and B/A of the medians. The intervals are None if unknown."""

    difference: float
    difference_low: float = None
    difference_high: float = None
    ratio: float = None
    ratio_low: float = None
    ratio_high: float = None
    is_apart: bool = None  # whether the intervals do not overlap; None if one is unknown
    over: str = "runs"  # values of the intervals
    # Half of the 95 % interval of the difference of runs that are assumed to vary by RUN_SPREAD;
    # None with intervals over runs, and if no spread of the quantity is assumed.
    assumed_half_width: float = None

    @property
    def is_significant(self):
        """Whether A and B differ; None if it is unknown, as for steps of single runs, which do not
        show how much runs differ."""
        return self.is_apart if self.over == "runs" else None

    @property
    def exceeds_assumed(self):
        """Whether A and B differ by more than runs that vary by RUN_SPREAD; None if no spread is
        assumed."""
        if self.assumed_half_width is None:
            return None
        return abs(self.difference) > self.assumed_half_width


def change(a, b, half_width=None):
    """Returns the change between two estimates. It has an interval if both have one over the same
    kind of values: from the lowest to the highest result for values in the two intervals.
    `half_width`: the assumed one, for estimates without intervals over runs."""
    difference = b.median - a.median
    ratio = b.median / a.median if a.median > 0 else None
    if a.low is None or b.low is None or a.over != b.over:
        return Change(difference, ratio=ratio, assumed_half_width=half_width)
    ratio_low, ratio_high = metrics.ratio_interval(b, a) if ratio is not None else (None, None)
    return Change(
        difference,
        difference_low=b.low - a.high,
        difference_high=b.high - a.low,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        is_apart=a.high < b.low or b.high < a.low,
        over=a.over,
        assumed_half_width=half_width if a.over == "steps" else None,
    )


def half_width_of(a, b, quantity):
    """Returns the assumed half width of the difference of a quantity of the cases `a` and `b`.
    Parts of a step or epoch are assumed to vary by as many seconds as the whole. None if no spread
    of the quantity is assumed, or the whole is unknown."""
    if quantity.whole not in a.estimates or quantity.whole not in b.estimates:
        return None
    return assumed_half_width(
        a.estimates[quantity.whole].median,
        b.estimates[quantity.whole].median,
        len(a.sources),
        len(b.sources),
    )


def direction(found, quantity):
    """Returns whether the quantity became better or worse; None if it did neither."""
    if quantity.better == 0 or found.difference == 0:
        return None
    return BETTER if (found.difference > 0) == (quantity.better > 0) else WORSE


def verdict(found, quantity):
    """Returns the text of the column "Change is"."""
    way = direction(found, quantity) or "different"
    if found.is_apart is None:
        return assumed_verdict(found, way)
    if found.over == "runs":
        return f"significant: {way}" if found.is_apart else "not significant"
    return f"within these runs: {way}" if found.is_apart else "none within these runs"


def assumed_verdict(found, way):
    if found.exceeds_assumed is None:
        return "unknown (no interval)"
    if found.exceeds_assumed:
        return f"larger than runs differ (assumed): {way}"
    return "within what runs differ (assumed)"


def is_regression(found, quantity, tolerance):
    """Returns whether the quantity is worse by more than the share `tolerance` of A. A change whose
    interval includes 0 is no regression."""
    if direction(found, quantity) != WORSE or found.is_apart is False:
        return False
    if found.ratio is None:
        return True  # from 0 to a worse value
    return abs(found.ratio - 1) > tolerance


class QuantityChange(NamedTuple):
    """A quantity that two cases have, with its change."""

    quantity: ComparedQuantity
    a: MedianEstimate
    b: MedianEstimate
    change: Change
    is_regression: bool  # beyond the tolerance; None if the quantity is not checked


def changes_of(a, b, checked=(), tolerance=None):
    """Yields the `QuantityChange` of each quantity that the cases `a` and `b` have. `checked`: the
    names of those that must not be worse by more than `tolerance`; None checks nothing."""
    for quantity in QUANTITIES:
        if quantity.name not in a.estimates or quantity.name not in b.estimates:
            continue
        of_a, of_b = a.estimates[quantity.name], b.estimates[quantity.name]
        found = change(of_a, of_b, half_width_of(a, b, quantity))
        is_worse = None
        if tolerance is not None and quantity.name in checked:
            is_worse = is_regression(found, quantity, tolerance)
        yield QuantityChange(quantity, of_a, of_b, found, is_worse)


def regressions(a, b, checked, tolerance):
    """Returns the quantities of `checked` that are worse than the tolerance permits."""
    return [item.quantity for item in changes_of(a, b, checked, tolerance) if item.is_regression]
