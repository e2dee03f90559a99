# SPDX-License-Identifier: BSD-3-Clause
"""The input files of a command. A file that cannot be used is skipped: the rest is reported, the
command prints one line about the file, and ends with the status of an input error."""

import sys

from lockstep_report.escaping import one_line
from lockstep_report.runfile.joining import Loaded, each, load_runs
from lockstep_report.runfile.paths import run_files


def read_files(options, names):
    """Returns the `Loaded` runs of files and directories. Appends the errors of skipped files to
    `options.skipped`, and prints notes about joined and dropped files to stderr. Raises
    `ReportError` if no file can be read."""
    loaded = read_some(options, names)
    require(options.skipped, loaded.runs)
    return loaded


def read_some(options, names):
    """As `read_files`, but returns no runs if no file can be read or `names` is empty."""
    loaded = load_runs(paths_of(options, names), options.skipped) if names else Loaded([])
    for note in loaded.notes:
        print(f"lockstep-report: note: {one_line(note)}", file=sys.stderr)
    return loaded


def paths_of(options, names):
    """Returns the paths of the files and of those in the directories; skips empty directories."""
    found = each(options.skipped, names, lambda name: run_files([name]))
    return [path for _, paths in found for path in paths]


def require(skipped, found):
    """Raises the last of the errors `skipped` if nothing was found."""
    if skipped and not found:
        raise skipped.pop()


def skipped_lines(options):
    return [f"not used: {error}" for error in options.skipped]
