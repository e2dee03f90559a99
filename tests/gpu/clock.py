"""Time of one call of the acceptance test, divided among its parts."""

import time


class Clock:
    """Divides the seconds of a call among its parts in proportion to their weights.

    A part that begins receives its share of the time that is left at this moment, so the time that
    earlier parts did not use, or used in excess, is distributed over all later parts."""

    def __init__(self, seconds, weights):
        self.began = time.monotonic()
        self.end = self.began + seconds
        self.weights = dict(weights)
        self.deadline = self.end

    def begin(self, part):
        """Starts a part: sets the deadline to its end."""
        now, numbers = time.monotonic(), list(self.weights)
        later = sum(self.weights[other] for other in numbers[numbers.index(part):])
        self.deadline = now + max(self.end - now, 0.0) * self.weights[part] / later

    def extend(self, seconds):
        """Moves the deadline of the current part to at least `seconds` from now, for automatic
        reruns of a failed command. Later parts become shorter; the end of the call is fixed."""
        self.deadline = min(max(self.deadline, time.monotonic() + seconds), self.end)

    @property
    def left(self):
        """Seconds until the deadline of the current part."""
        return self.deadline - time.monotonic()

    @property
    def seconds(self):
        """Seconds since the start of the call."""
        return time.monotonic() - self.began
