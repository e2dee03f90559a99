# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs alternately on a machine that others may disturb, and tells how quiet it was.

A loop of fixed work runs before and after each measurement. A round is quiet if none of its loops
takes more than 10 % longer than the fastest loop of all rounds. Other programs on the same
processors, or a neighbour on the other hardware thread of a core, make the loop slower.
"""

import hashlib
import statistics
import time
from dataclasses import dataclass

TOLERANCE = 1.1  # time of a loop in a quiet round relative to the fastest loop
MOST = 3  # rounds that are run at most, relative to the number of quiet rounds that are wanted


@dataclass(frozen=True)
class Rounds:
    """`values`: {program: results of the quiet rounds}; of all rounds if none was quiet."""

    values: dict
    quiet: int
    total: int

    @property
    def quiet_share(self):
        return (
            f"{self.quiet} of {self.total} rounds were quiet"
            f" ({100 * self.quiet / self.total:.0f} %)"
        )


def loop_seconds():
    """Returns the time of a loop of fixed work on one processor, about 20 ms; it hardly uses
    memory. The shortest of three loops counts, so that a single interruption of one loop does
    not."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        hashlib.pbkdf2_hmac("sha256", b"fixed", b"work", 50_000)
        times.append(time.perf_counter() - begin)
    return min(times)


def in_turn(programs, rounds, loop=loop_seconds):
    """Calls the functions {program: function} alternately (A B C A B C ...) until so many rounds
    were quiet, but at most MOST times as many rounds. Returns the `Rounds`."""
    loops, results, fastest = [], [], float("inf")
    while True:
        times, values = [loop()], []
        for run in programs.values():
            values.append(run())
            times.append(loop())
        loops.append(max(times))
        results.append(values)
        fastest = min(fastest, *times)
        quiet = [
            values for values, longest in zip(results, loops) if longest <= TOLERANCE * fastest
        ]
        if len(quiet) >= rounds or len(results) >= MOST * rounds:
            return Rounds(dict(zip(programs, zip(*(quiet or results)))), len(quiet), len(results))


def ratio_text(values, references, digits=2):
    """Returns the median, minimum and maximum of the ratio per round: "2.35 (2.00 - 2.39)"."""
    ratios = [value / reference for value, reference in zip(values, references)]
    return (
        f"{statistics.median(ratios):.{digits}f} ({min(ratios):.{digits}f} -"
        f" {max(ratios):.{digits}f})"
    )
