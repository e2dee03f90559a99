# SPDX-License-Identifier: BSD-3-Clause
"""Shows the runs of a study: one line per run, and in a terminal also the state of the present
one."""

import shutil
import sys
import time
from contextlib import suppress

from lockstep_study.durations import duration, known, total
from lockstep_study.errors import one_line

CLEAR = "\r\x1b[K"  # returns to the start of the line and erases it
USUAL_COLUMNS = 80  # of a terminal


class Progress:
    """Prints one line per run. `total`: runs of the study; `estimates`: {point: seconds or None}"""

    def __init__(self, total, estimates):
        self.total, self.estimates = total, dict(estimates)
        self.is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self.begin = time.monotonic()
        self.number = 0
        self.name_width = 0

    def head(self, runs):
        """Remembers the width of the names, and prints how long the study will take."""
        self.name_width = max((len(run.name) for run in runs), default=0)
        if not runs:
            return
        print(f"{count(len(runs))}: {total(self.estimates_of(runs))}")

    def estimates_of(self, runs):
        return [self.estimates.get(run.point) for run in runs]

    def now(self, run, elapsed, epochs):
        """Shows the state of the present run in a terminal."""
        if not self.is_terminal:
            return
        estimate = self.estimates.get(run.point)
        parts = [f"running {clock(elapsed)}"]
        if estimate is not None:
            parts.append(f"of {duration(estimate)}")
        if epochs:
            parts.append(f"epoch {epochs}")
        line = f"{self.label(run)}  {'  '.join(parts)}"
        # A terminal may not know its size; Python before 3.11 then returns 0.
        columns = shutil.get_terminal_size().columns or USUAL_COLUMNS
        write(CLEAR + line[: columns - 1], end="")

    def ended(self, run, state, elapsed, details=""):
        """Prints the line of a run. `elapsed`: seconds, or None if it was not started."""
        time_text = "" if elapsed is None else f"{clock(elapsed):>8}"
        line = f"{self.label(run)}  {state:<10} {time_text:>8}  {one_line(details)}".rstrip()
        write((CLEAR if self.is_terminal else "") + line)

    def learn(self, run, elapsed):
        """Takes the duration of a complete run as the estimate of its repeats."""
        self.estimates[run.point] = elapsed

    def repeat_ended(self, repeat, repeats, rest):
        """Prints how far the study is."""
        if rest:
            elapsed = clock(time.monotonic() - self.begin)
            print(
                f"repeat {repeat} of {repeats} after {elapsed}; {count(len(rest))} to go,"
                f" {duration(known(self.estimates_of(rest)))}",
                flush=True,
            )

    def label(self, run):
        width = len(str(self.total))
        return f"[{self.number:>{width}}/{self.total}] {run.name:<{self.name_width}}"


def write(text, end="\n"):
    """Prints a text. A terminal that was closed does not end the study: the run is stopped by the
    signal."""
    with suppress(OSError):
        print(text, end=end, flush=True)


def count(runs):
    return f"{runs} run" if runs == 1 else f"{runs} runs"


def clock(seconds):
    """Returns a duration as text: 4.3 s, 2:05 min or 1:02:03 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"
