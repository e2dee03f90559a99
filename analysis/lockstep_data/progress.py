# SPDX-License-Identifier: BSD-3-Clause
"""Progress of an import on stderr: a bar on a terminal, one line every ten seconds elsewhere."""

import sys
import time

SECONDS_BETWEEN_LINES = 10
WIDTH = 30


class Progress:
    def __init__(self, total, stream=None):
        self.total, self.stream = total, stream or sys.stderr
        self.begin = self.printed = time.monotonic()
        self.first = None  # the number of images that were complete before

    def show(self, done):
        """Shows that `done` images are complete."""
        now = time.monotonic()
        if self.first is None:
            self.first = done
        if self.stream.isatty():
            bar = "#" * (WIDTH * done // self.total)
            end = "\n" if done == self.total else ""
            print(
                f"\r[{bar:<{WIDTH}}] {self.text(done, now)}\033[K",
                end=end,
                file=self.stream,
                flush=True,
            )
        elif now - self.printed >= SECONDS_BETWEEN_LINES:
            self.printed = now
            print(f"lockstep-data: {self.text(done, now)}", file=self.stream, flush=True)

    def text(self, done, now):
        new, seconds = done - self.first, now - self.begin
        left = (
            f", {seconds / new * (self.total - done):,.0f} s left"
            if new and done < self.total
            else ""
        )
        return f"{done:,} of {self.total:,} images{left}"
