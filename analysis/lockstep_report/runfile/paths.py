# SPDX-License-Identifier: BSD-3-Clause
"""Paths of run files on the command line: files or directories."""

import os
from pathlib import Path

from lockstep_report.errors import INPUT, ReportError, reason_of


def run_files(names):
    """Returns the paths of the files `names`. A directory is replaced by the *.h5 files in it,
    sorted by name. Raises `ReportError` if a directory has none or cannot be listed."""
    found = []
    for path in map(Path, names):
        if not os.path.isdir(path):
            found.append(path)
            continue
        inside = run_files_in(path)
        if not inside:
            raise ReportError(INPUT, f"{path}: is a directory without *.h5 files; give run files, "
                                     "or the directory that holds them")
        found += inside
    return found


def one_file(name):
    """Returns `name`, for a command that reads one file. Raises `ReportError` for a directory."""
    path = Path(name)
    if os.path.isdir(path):
        example = next(iter(run_files_in(path)), path / "RUN.h5")
        raise ReportError(INPUT, f"{path}: is a directory; give one run file, such as {example}")
    return name


def run_files_in(folder):
    return [folder / name for name in sorted_names(folder, "give run files") if name.endswith(".h5")]


def sorted_names(folder, advice):
    """Returns the names in the folder. Raises `ReportError` (input) with the advice if it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise ReportError(INPUT, f"{folder}: the folder cannot be listed ({reason_of(error)}); {advice}") from error
