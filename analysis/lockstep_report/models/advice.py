# SPDX-License-Identifier: BSD-3-Clause
"""Advice in words, with its evidence; docs/report-reference.md lists the rules and thresholds."""

import re
from dataclasses import dataclass

# Thresholds, as shares of the step or epoch time unless stated otherwise.
EXPOSED_SHARE = 0.05
MIB = 2**20
LACKING_PROCESSORS = "lacking-processors"  # rule
OPTION = re.compile(r" \(--[^)]*\)")  # of Lockstep, in the text of an advice


@dataclass(frozen=True)
class Advice:
    """`evidence`: name with unit -> number, the size of the effect first; `threshold`: the value
    that the evidence reached; `case`: what distinguishes advice of the same rule, such as a
    rank."""

    rule: str
    source: str
    text: str
    evidence: dict
    threshold: float
    case: str = ""
    repeats: int = 1  # repeated runs with this advice, of which `source` has the median effect
    of: int = 1  # repeated runs of the point


def percent_text(share):
    return f"{100 * share:.1f} %"


def duration(seconds):
    """Formats a time with three significant digits: "2.10 ms", "85.0 µs"."""
    rounded = float(f"{seconds:.3g}")
    unit, factor = next(
        (pair for pair in (("s", 1), ("ms", 1e3)) if abs(rounded) * pair[1] >= 1), ("µs", 1e6)
    )
    value = rounded * factor
    return f"{value:.0f} {unit}" if abs(value) >= 99.95 else f"{value:#.3g} {unit}"


def with_interval(estimate, more=""):
    return (
        f"{duration(estimate.value)} ({duration(estimate.low)} to {duration(estimate.high)}{more})"
    )


def size(count):
    return f"{count / MIB:.3g} MiB" if count >= MIB / 10 else f"{count / 1024:.3g} KiB"


def exposes_transfer(step):
    return step.transfer is not None and step.transfer >= EXPOSED_SHARE * step.step
