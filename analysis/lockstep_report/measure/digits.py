# SPDX-License-Identifier: BSD-3-Clause
"""Numbers as text, with as many digits as their intervals support, in tables and answers alike."""

import math


def supported_digits(width, most):
    """Returns `most`, or the fewer digits with which an interval of this width has two digits;
    negative if digits before the point are rounded."""
    return min(most, 1 - math.floor(math.log10(width))) if 0 < width < math.inf else most


def number_text(value, digits):
    """Returns a number with `digits` digits after the point, without the sign of a zero."""
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    is_zero = not text.strip("-0.,")
    return text.lstrip("-") if is_zero else text
