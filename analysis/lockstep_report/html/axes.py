"""Axes of charts: scales and ticks."""

import math
from dataclasses import dataclass

from lockstep_report.ticks import spaced

STEPS = (1, 2, 2.5, 5, 10)  # of linear ticks, times a power of ten
CHARACTER = 6.4  # width of a character of the tick labels, in units of the drawing


@dataclass(frozen=True)
class Axis:
    """Maps values between `low` and `high` to 0..1."""

    low: float
    high: float
    base: int = 0  # of a logarithmic axis; 0: linear

    def place(self, value):
        if not self.base:
            return (value - self.low) / ((self.high - self.low) or 1)
        span = math.log(self.high / self.low) or 1
        return math.log(value / self.low) / span

    def accepts(self, value):
        return value is not None and math.isfinite(value) and (value > 0 or not self.base)


def linear(values, most=None):
    """Returns a linear axis from 0 (or below, for negative values) to the largest value."""
    high = max([*values, most or 0], default=1) or 1
    low = min([*values, 0])
    return Axis(low * 1.05, high * 1.05)


def logarithmic(values, base):
    """Returns a logarithmic axis that contains the values, with a margin."""
    low, high = min(values), max(values)
    margin = (high / low) ** 0.04 if high > low else base ** 0.5
    return Axis(low / margin, high * margin, base)


def linear_ticks(axis, count=5):
    """Returns round values within the axis, at most about `count`."""
    rough = (axis.high - axis.low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(s for s in (n * power for n in STEPS) if s >= rough * 0.999)
    first = math.ceil(axis.low / step - 1e-9)
    return [step * n for n in range(first, math.floor(axis.high / step + 1e-9) + 1)]


def power_ticks(axis, count=6):
    """Returns powers of the base within a logarithmic axis, at most about `count`. An axis with
    fewer than two powers has round values between them."""
    first = math.ceil(math.log(axis.low, axis.base) - 1e-9)
    last = math.floor(math.log(axis.high, axis.base) + 1e-9)
    stride = max(1, -(-(last - first + 1) // count))
    found = [axis.base**n if n >= 0 else 1 / axis.base**-n
             for n in range(first, last + 1) if n % stride == 0]
    return found if len(found) > 1 else linear_ticks(axis, 4)


def given_ticks(axis, values, width, text):
    """Returns those of the values whose labels do not overlap on `width`; the largest value and
    powers of two come first."""
    return spaced(values, lambda v: axis.place(v) * width,
                  lambda v: CHARACTER * len(text(v)) / 2 + 3)


def plain(value):
    """Returns the label of a tick: "0.25", "1,000"."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def bytes_text(value):
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= unit:
            return f"{value / unit:.3g} {name}"
    return f"{value:.3g} B"
