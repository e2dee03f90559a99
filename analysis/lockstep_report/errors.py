# SPDX-License-Identifier: BSD-3-Clause
"""The exit statuses of Lockstep that the analysis uses, and errors of the operating system and of
missing libraries."""

import errno
import importlib.util
import os
import re
import sys

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


# What to do about errors of the operating system that say nothing about the content of a file.
REMEDIES = {
    errno.EMFILE: "permit more open files: ulimit -n 4096",
    errno.ESTALE: "the server of the network file system has replaced or removed it; try again",
    errno.EIO: "the disk or the network file system failed; try again, or use a copy of the file",
    **dict.fromkeys(
        (errno.EAGAIN, errno.ENOLCK),
        "let HDF5 read without locks: export HDF5_USE_FILE_LOCKING=FALSE",
    ),
}


def errno_of(error):
    """Returns the number of the error of the operating system; None if HDF5 states none."""
    found = re.search(r"errno = (\d+)", str(error))
    return int(found[1]) if found else getattr(error, "errno", None)


def reason_of(error):
    """Returns what the operating system or HDF5 states about an error, as one line."""
    if re.search(r"errno = \d+", str(error)):  # a message of HDF5 that contains one
        return os.strerror(errno_of(error))
    text = getattr(error, "strerror", None) or (error.args[0] if error.args else error)
    return (str(text).splitlines() or [type(error).__name__])[0]


def cannot_read(path, error):
    """Returns the error of an input that the operating system or HDF5 cannot read."""
    remedy = REMEDIES.get(errno_of(error))
    return ReportError(
        INPUT, f"{path}: cannot be read ({reason_of(error)})" + (f"; {remedy}" if remedy else "")
    )


def require_module(name, what, remedy="install python3-{0} (Debian) or pip install {0}"):
    """Returns the module `name`, which `what` needs. Raises `ReportError` with the remedy if it is
    not installed, and with the reason if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except (
        Exception
    ) as error:  # a library for another NumPy raises ImportError, ValueError or AttributeError
        package = name.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name in (name, package):
            raise ReportError(USAGE, f"{what} needs {name}: {remedy.format(name)}") from error
        folder = os.path.dirname(importlib.util.find_spec(package).origin or "")
        reason = f"{type(error).__name__}: {reason_of(error)}"
        raise ReportError(
            USAGE,
            f"{what} needs {name}, which {sys.executable} cannot import from {folder} ({reason}); "
            "repair this library, or use another Python",
        ) from error
