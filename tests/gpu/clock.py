# SPDX-License-Identifier: BSD-3-Clause
"""Time of one call of the acceptance test, divided among its steps."""

import time


class Clock:
    """Divides the seconds of a call among its steps in proportion to their weights.

    A step that begins receives its share of the time that is left at this moment, so the time that
    earlier steps did not use, or used in excess, is distributed over all later steps."""

    def __init__(self, seconds, weights):
        self.began = time.monotonic()
        self.end = self.began + seconds
        self.weights = dict(weights)
        self.deadline = self.end

    def begin(self, step):
        """Starts a step: sets the deadline to its end."""
        now, steps = time.monotonic(), list(self.weights)
        later = sum(self.weights[other] for other in steps[steps.index(step):])
        self.deadline = now + max(self.end - now, 0.0) * self.weights[step] / later

    def extend(self, seconds):
        """Moves the deadline of the current step to at least `seconds` from now, for automatic
        reruns of a failed command. Later steps become shorter; the end of the call is fixed."""
        self.deadline = min(max(self.deadline, time.monotonic() + seconds), self.end)

    @property
    def left(self):
        """Seconds until the deadline of the current step."""
        return self.deadline - time.monotonic()

    @property
    def seconds(self):
        """Seconds since the start of the call."""
        return time.monotonic() - self.began
