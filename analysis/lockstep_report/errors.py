"""The exit statuses of Lockstep that the analysis uses."""

USAGE = 2
INPUT = 3
OUTPUT = 6
REGRESSION = 7  # of `compare`; 1 is the status of a Python program that crashed


class ReportError(Exception):
    """An error that ends the program with `status`. `message` is one line: what failed, why, and
    what to do."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def reason_of(error):
    """Returns what the operating system or HDF5 states about an error, as one line."""
    text = getattr(error, "strerror", None) or (error.args[0] if error.args else error)
    return (str(text).splitlines() or [type(error).__name__])[0]
