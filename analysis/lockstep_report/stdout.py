"""The standard output of the commands: its encoding and its errors."""

import io
import os
import sys

from lockstep_report.errors import OUTPUT, ReportError, reason_of
from lockstep_report.escaping import ESCAPE_UNENCODABLE


def with_stdout(command, errors):
    """Returns the exit status of `command()`. Escapes characters that the encoding of stdout lacks.
    If stdout cannot be written, appends an error to `errors` and returns its status; a pipe that its
    reader (head, less) has closed is no error."""
    is_closed = sys.stdout is None  # as by >&-
    for name in ("stdout", "stderr"):  # otherwise an input would get the descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook has another class
        sys.stdout.reconfigure(errors=ESCAPE_UNENCODABLE)
    status = 0
    try:
        status = command()
        print(end="", flush=True)  # reports errors of stdout here, not at the end of the process
    except OSError as error:
        if error.filename is not None:  # not an error of stdout
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            status = OUTPUT
            errors.append(ReportError(
                OUTPUT, f"stdout: cannot be written ({reason_of(error)}); free disk space or redirect "
                        "it to another file"))
    if is_closed:
        errors.append(ReportError(OUTPUT, "stdout: is closed; redirect it to a file, or to /dev/null"))
    return status or (OUTPUT if is_closed else 0)
