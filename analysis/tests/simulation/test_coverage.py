# SPDX-License-Identifier: BSD-3-Clause
"""Runs the checks of the report against simulated measurements, and compares
docs/measurements/coverage.md with them.

`python3 analysis/tests/simulation/test_coverage.py` writes the page.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs" / "measurements" / "coverage.md"
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import cause_checks  # noqa: E402
import interval_checks  # noqa: E402
import prediction_checks  # noqa: E402
import pytest  # noqa: E402
import statement_checks  # noqa: E402

CHECKS = [
    *interval_checks.CHECKS,
    *prediction_checks.CHECKS,
    *statement_checks.CHECKS,
    *cause_checks.CHECKS,
]

# Of a share: other libraries round differently, so a few repeats may have another result.
ROUNDING = 0.03

HEAD = """# Coverage

The tables list how often the intervals of `lockstep-report` contain the true value, and how often its statements are made, in simulated
measurements whose truth is known (`analysis/tests/simulation`). Nominal coverage is 95 %. The column "Share" is of the repeats that have
an interval; "Bounds" is what the test accepts. [analysis.md](../analysis.md) states the methods. This command writes the page, and a slow
test compares it with the code:

```
python3 analysis/tests/simulation/test_coverage.py
```
"""  # noqa: E501
NOT_COVERED = """
No interval contains what the measurements do not show: an interval over steps or of one file describes its job, and a prediction contains
neither errors of its model nor the difference between jobs.
"""  # noqa: E501


def row_of(check):
    share, count = check.run()
    low, high = check.bounds
    limits = f"{low:g} to {high:g}"
    if high == 1:
        limits = f"at least {low:g}"
    elif low == 0:
        limits = f"at most {high:g}"
    return f"| {check.group} | {check.truth} | {share:.3f} | {count} | {limits} |"


def page():
    lines = [
        HEAD,
        "| Quantity or statement | Simulated system | Share | Repeats | Bounds |",
        "|---|---|---:|---:|---|",
    ]
    return "\n".join([*lines, *map(row_of, CHECKS)]) + "\n" + NOT_COVERED


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_share_is_within_its_bounds_and_that_of_the_page(check):
    share, count = check.run()
    assert count > 0 and check.bounds[0] <= share <= check.bounds[1], f"{share:.3f} of {count}"
    assert shares_of_page()[check.group, check.truth] == pytest.approx(share, abs=ROUNDING)


def shares_of_page():
    """Returns {(quantity, system): share} of the rows of the page."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {
        (row[0], row[1]): float(row[2]) for row in rows[1:] if len(row) == 5 and row[3].isdigit()
    }


def test_the_page_has_all_checks():
    assert set(shares_of_page()) == {(check.group, check.truth) for check in CHECKS}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
