# SPDX-License-Identifier: BSD-3-Clause
"""Names of run files, and the run files of a folder."""

import os
import re
from pathlib import Path

from lockstep_report.errors import INPUT, ReportError, reason_of
from lockstep_report.runfile import schema
from lockstep_report.runfile.file_kind import HDF5, kind_of_file
from lockstep_report.runfile.hdf5_access import errors_of_hdf5, open_run, read_attributes
from lockstep_report.runfile.settings import some_of

SUFFIXES = (".h5", ".hdf5", ".he5", ".hdf")
PARTIAL = ".partial"  # of the file of a run that has not ended
MOST_ENTRIES, DEPTH = 2000, 3  # of the search for run files in subfolders


def is_hidden(name):
    """Returns whether programs create files of this name beside others (._a.h5 of macOS, .nfs...,
    .~lock.a.h5#)."""
    return name.startswith(".") or name == "__MACOSX"


def stem_of(name):
    """Returns the name of a run file without its suffixes: "a" for a.h5 and a.hdf5.partial."""
    suffixes = "|".join(map(re.escape, SUFFIXES))
    return re.sub(rf"({suffixes})?({re.escape(PARTIAL)})?$", "", name, flags=re.IGNORECASE)


def has_run_name(name):
    """Returns whether the name is that of a run file."""
    return name.lower().removesuffix(PARTIAL).endswith(SUFFIXES)


def sorted_names(folder, advice):
    """Returns the names in the folder, but no hidden ones. Raises `ReportError` (input) with the
    advice if it cannot be listed."""
    try:
        return sorted(name for name in os.listdir(folder) if not is_hidden(name))
    except OSError as error:
        what = f"the folder cannot be listed ({reason_of(error)})"
        raise ReportError(INPUT, f"{folder}: {what}; {advice}") from error


def run_files_in(folder):
    """Returns the run files in a folder, sorted by name: all *.h5, and files with other suffixes of
    HDF5 that are run files."""
    paths = [folder / name for name in sorted_names(folder, "give run files")]
    return [
        path
        for path in paths
        if path.suffix == SUFFIXES[0] or path.suffix.lower() in SUFFIXES and is_run_file(path)
    ]


def is_run_file(path):
    """Returns whether a file has the content of a run file, whatever its name is."""
    if kind_of_file(path) != HDF5:
        return False
    try:
        with errors_of_hdf5(path), open_run(path) as file:
            return read_attributes(file).get("format") == schema.FORMAT
    except ReportError:
        return False


def files_at(path):
    """Returns the path of a file, or the run files in a directory. Raises `ReportError` (input) if
    it has none."""
    if not os.path.isdir(path):
        return [path]
    inside = run_files_in(path)
    if not inside:
        raise ReportError(INPUT, f"{path}: is a directory without *.h5 files; {advice_for(path)}")
    return inside


def advice_for(folder):
    """Returns what to do about a folder without run files: the first files or subfolders that are
    meant, if there are any."""
    names = sorted_names(folder, "give run files")[:MOST_ENTRIES]
    others = [name for name in names if is_run_file(folder / name)]
    if others:
        return f"give its run files by name: {some_of([str(folder / name) for name in others])}"
    below = folders_with_runs(folder)
    if below:
        return f"give its subfolders with run files: {some_of([str(path) for path in below])}"
    return "give run files, or the directory that holds them"


def folders_with_runs(folder):
    """Returns the folders below `folder` that have run files."""
    found, count = [], 0
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not is_hidden(name))
        count += 1 + len(names)
        depth = len(Path(place).relative_to(folder).parts)
        likely = [name for name in names if has_run_name(name) and not is_hidden(name)]
        if depth and any(is_run_file(Path(place) / name) for name in likely):
            found.append(Path(place))
        if depth >= DEPTH or count > MOST_ENTRIES:
            inner[:] = []
    return found


def one_file(name):
    """Returns `name`, for a command that reads one file. Raises `ReportError` for a directory."""
    path = Path(name)
    if os.path.isdir(path):
        example = next(iter(run_files_in(path)), path / "RUN.h5")
        raise ReportError(INPUT, f"{path}: is a directory; give one run file, such as {example}")
    return name
