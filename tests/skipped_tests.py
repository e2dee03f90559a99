# SPDX-License-Identifier: BSD-3-Clause
"""Prints the reasons for skipped tests in a log of CTest, with the number of tests; jobs/check runs
it.

    skipped_tests.py LOG   for example build/cpu/Testing/Temporary/LastTest.log
"""

import re
import sys
from collections import Counter
from pathlib import Path


def skipped(lines):
    """Returns {reason: number of tests} of the lines of pytest, GoogleTest and scripts."""
    counts = Counter()
    lines = iter(lines)
    for line in lines:
        if of_pytest := re.match(r"SKIPPED \[(\d+)\] \S+ (.*)", line):
            counts[of_pytest[2]] += int(of_pytest[1])
        elif line.endswith(": Skipped"):  # GoogleTest prints the reason in the next line
            counts[next(lines, "")] += 1
        elif line.startswith("not requested: "):
            counts[line] += 1
    return counts


if __name__ == "__main__":
    try:
        log = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        print(f"skipped_tests.py: {error}", file=sys.stderr)
        sys.exit(2)
    for reason, count in sorted(skipped(log.split("\n")).items()):
        print(f"{count:4d}  {reason}")
