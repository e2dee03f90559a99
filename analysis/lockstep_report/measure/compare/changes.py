# SPDX-License-Identifier: BSD-3-Clause
"""The change of a quantity, and whether it is significant or a regression. docs/analysis.md states the method."""

from dataclasses import dataclass

from lockstep_report.measure.significance import are_apart

BETTER, WORSE = "better", "worse"


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

    @property
    def is_significant(self):
        """Whether runs of A and B differ; None if it is unknown, as for the steps of single runs, which do
        not show how much runs differ."""
        return self.is_apart if self.over == "runs" else None


def change(a, b):
    """Returns the change between two estimates. It has an interval if both have one over the same
    kind of values: from the lowest to the highest result for values in the two intervals."""
    ratio = b.median / a.median if a.median > 0 else None
    if a.low is None or b.low is None or a.over != b.over:
        return Change(b.median - a.median, ratio=ratio)
    low = high = None
    if ratio is not None and a.low > 0:
        low, high = b.low / a.high, b.high / a.low
    return Change(b.median - a.median, b.low - a.high, b.high - a.low, ratio, low, high, are_apart(a, b), a.over)


def direction(found, quantity):
    """Returns whether the quantity became better or worse; None if it did neither."""
    if quantity.better == 0 or found.difference == 0:
        return None
    return BETTER if (found.difference > 0) == (quantity.better > 0) else WORSE


def verdict(found, quantity):
    """Returns the text of the column "Change is"."""
    if found.is_apart is None:
        return "unknown (no interval)"
    kind = "significant" if found.over == "runs" else "within these runs"
    if not found.is_apart:
        return "not significant" if found.over == "runs" else f"none {kind}"
    return f"{kind}: {direction(found, quantity) or 'different'}"


def is_regression(found, quantity, tolerance):
    """Returns whether the quantity is worse by more than the share `tolerance` of A. A change whose
    interval includes 0 is no regression."""
    if direction(found, quantity) != WORSE or found.is_apart is False:
        return False
    if found.ratio is None:
        return True  # from 0 to a worse value
    return abs(found.ratio - 1) > tolerance
