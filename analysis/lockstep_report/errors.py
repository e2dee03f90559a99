"""Exit statuses of Lockstep, as far as the analysis needs them."""

USAGE = 2
INPUT = 3
OUTPUT = 6


class ReportError(Exception):
    """What went wrong in one line: what, why, what to do. Ends the program with `status`."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
