# SPDX-License-Identifier: BSD-3-Clause
"""The input files of a command: the files of the paths on its command line, and the parts of each run joined. A resumed run
writes one file per part. A file that cannot be used is skipped: the rest is reported, the command prints one line about the
file, and ends with the status of an input error."""

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from lockstep_report.errors import INPUT, ReportError, reason_of
from lockstep_report.escaping import one_line
from lockstep_report.groups import grouped
from lockstep_report.runfile.experiment import affected_by, options_of, software_of
from lockstep_report.runfile.file_kind import NCCL_TESTS, kind_of_file
from lockstep_report.runfile.hdf5_access import errors_of_hdf5, open_run
from lockstep_report.runfile.nccl_tests import read_sweeps
from lockstep_report.runfile.read import check_header, read_run
from lockstep_report.runfile.schema import QUANTITIES
from lockstep_report.runfile.settings import plural
from lockstep_report.runfile.stored import join_rows

PART_NAME = re.compile(r"(?P<stem>.+?)(\.part\d+)?(?P<suffix>\.[^.]+)(\.partial)?")
CLOCKS = ("clock_offset_seconds", "clock_error_seconds")  # columns of /epochs
# Columns of /epochs that are measured by one process and are valid only if it ran the complete epoch.
MEASURED = ("seconds", *CLOCKS, *(quantity.name for quantity in QUANTITIES))


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


def run_files(names):
    """Returns the paths of the files `names`. A directory is replaced by the *.h5 files in it,
    sorted by name. Raises `ReportError` if a directory has none or cannot be listed."""
    found = []
    for path in map(Path, names):
        inside = run_files_in(path) if os.path.isdir(path) else [path]
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


@dataclass
class Loaded:
    """The runs that were read, and notes about joined and dropped files, one line each."""

    runs: list
    notes: list = field(default_factory=list)


def load_runs(paths, skipped=None):
    """Reads run files and outputs of nccl-tests, drops duplicates and joins the parts of each run.

    Other parts of a run in the same directory are read as well: all parts that are named after a file, and earlier
    parts with any name. `skipped`: as for `each`.
    """
    loaded = Loaded([])
    files = {}
    for path in map(Path, paths):
        if os.path.realpath(path) in files:
            loaded.notes.append(f"{path} was given more than once and is counted once")
        else:
            files[os.path.realpath(path)] = each(skipped, [path], read_runs)
    folders = {}
    for run in runs_of(files):
        for path in other_parts(run, loaded.notes, folders, skipped):
            if os.path.realpath(path) not in files:
                files[os.path.realpath(path)] = each(skipped, [path], read_runs)
    for group in grouped(runs_of(files), lambda run: run.run_id or run.path).values():
        joined = join_group(group, loaded.notes)
        loaded.runs += joined
        if len(joined) == 1:  # otherwise a note says that the parts are separate
            loaded.notes += missing_steps_notes(joined[0])
    loaded.runs = with_distinct_names(loaded.runs)
    return loaded


def read_runs(path):
    """Returns the runs of a file: that of a run file, or the sweeps in an output of nccl-tests."""
    return read_sweeps(path) if kind_of_file(path) == NCCL_TESTS else [read_run(path)]


def runs_of(files):
    return [run for found in files.values() for _, runs in found for run in runs]


def with_distinct_names(runs):
    """Returns the runs with as many folders in their names as tell files of the same name apart."""
    named, count = list(runs), 0
    while len(names := [run.file_name for run in named]) > len(set(names)) and count < max(
            len(run.path.parts) for run in named):
        count += 1
        named = [replace(run, named_folders=count) if names.count(run.file_name) > 1 else run for run in named]
    return named


def each(skipped, items, function):
    """Returns [(item, function(item))]. Items for which the function raises an input error are left
    out, and the error is appended to the list `skipped`; if it is None, the error is raised."""
    done = []
    for item in items:
        try:
            done.append((item, function(item)))
        except ReportError as error:
            if skipped is None or error.status != INPUT:
                raise
            skipped.append(error)
    return done


def other_parts(run, notes, folders, skipped):
    """Returns the paths of the files in the directory of `run` that are other parts of the same run: parts with
    any number that are named after the file, and earlier parts with any name, because each process may have been
    given another one. Files that are named after `run` and cannot be read are reported in `notes`, and a directory
    that cannot be listed in `skipped`. `folders` keeps each directory for further calls."""
    own = PART_NAME.fullmatch(run.path.name)
    if own is None or not run.run_id:
        return []
    found = []
    if run.path.parent not in folders:
        folders[run.path.parent] = Folder(run.path.parent, skipped)
    folder = folders[run.path.parent]
    for path in folder.names.get((own["stem"], own["suffix"]), ()):
        if path == run.path:
            continue
        try:
            if run_and_part(path)[0] == run.run_id:
                found.append(path)
        except ReportError as error:
            notes.append(f"not joined with {run.file_name}: {error}")
    if run.integer("part") > 1:
        found += [path for part, path in folder.parts_of(run.run_id, own["suffix"])
                  if part < run.integer("part") and path not in found]
    return found


class Folder:
    """A directory with run files."""

    def __init__(self, path, skipped):
        listed = each(skipped, [path], lambda folder: sorted_names(folder, "other parts of runs are found only if it can be"))
        matches = filter(None, (PART_NAME.fullmatch(name) for _, names in listed for name in names))
        # (stem, suffix) -> the paths that are named as parts of one run
        self.names = grouped(matches, lambda part: (part["stem"], part["suffix"]), lambda part: path / part[0])
        self.parts = {}  # suffix -> {run id: [(part, path)]}

    def parts_of(self, run_id, suffix):
        """Returns [(part, path)] of the readable files with this suffix, also .partial, that belong to the run."""
        if suffix not in self.parts:
            found = self.parts[suffix] = {}
            for path in (path for key, paths in self.names.items() if key[1] == suffix for path in paths):
                with suppress(ReportError):
                    owner, part = run_and_part(path)
                    found.setdefault(owner, []).append((part, path))
        return self.parts[suffix].get(run_id, [])


def run_and_part(path):
    """Returns (run id, number of the part) of a run file."""
    with errors_of_hdf5(path), open_run(path) as file:
        attributes = check_header(path, file)
        return str(attributes.get("run_id")), int(attributes.get("part", 1))


def join_group(group, notes):
    """Joins the files of one run id. Returns one run, or several if they cannot be joined."""
    kept = {}
    for run in sorted(group, key=lambda run: len(run.epoch), reverse=True):
        key = (run.integer("part") or 1, str(run.attributes.get("date_utc", "")))
        if key in kept:
            notes.append(f"{run.path} is a copy of {kept[key].path} and is not counted")
        else:
            kept[key] = run
    parts = [kept[key] for key in sorted(kept)]
    if len(parts) == 1:
        return parts
    names = ", ".join(part.file_name for part in parts)
    if any(shape_of(part) != shape_of(parts[0]) for part in parts):
        notes.append(f"{names} are parts of one run, but differ in ranks, phases or buckets: they "
                     "are reported as separate runs")
        return parts
    notes.append(f"{names} are parts of one run and were joined")
    run = join(parts)
    changes = "; ".join(changed_options(parts))
    if changes:
        notes.append(f"{names}: options or software changed between the parts ({changes}); the tables show "
                     "those of the last part")
        # No repeat of runs that have had the options of the last part from the start.
        run = replace(run, config=run.config | {"changed-on-resume": changes})
    return [run]


def changed_options(parts):
    """Returns texts such as "lr: 0.1, 0.001" one for each option with an effect, and property of the software, that changed."""
    recorded = [options_of(part) | dict(software_of(part)) for part in parts]
    names = sorted(name for name in set.intersection(*map(set, recorded)) if affected_by(name, parts[0].rank_count))
    values = {name: list(dict.fromkeys(options[name] for options in recorded)) for name in names}
    return [f"{name}: {', '.join(found)}" for name, found in values.items() if len(found) > 1]


def missing_steps_notes(run):
    """Returns a note about the steps before the last one that no file of the run has."""
    if not run.has_steps:
        return []
    count = int(run.step[-1]) + 1 - len(run.step)
    if count <= 0:
        return []
    first = int(np.flatnonzero(run.step != np.arange(len(run.step)))[0])
    found = {part.integer("part") or 1 for part in run.parts or (run,)}
    absent = next(number for number in range(1, len(found) + 2) if number not in found)
    lacks = f"training seconds lack {plural(count, 'step')}, from step {first + 1} on"
    if absent < max(found):
        lacks = f"part {absent} of this run was not found; {lacks}"
    return [f"{run.label}: {lacks}"]


def shape_of(run):
    return (run.rank_count, run.phases, tuple(run.bucket_bytes))


def join(parts):
    """Joins the parts of one run, which must be in order, and returns the run. A part replaces the rows of earlier
    parts from its first step on. Attributes and options are those of the last part."""
    kept = []
    limit = None
    for part in reversed(parts):  # keep the rows before the first row of all later parts
        kept.insert(0, np.flatnonzero(part.step < limit) if limit is not None else np.arange(len(part.step)))
        if part.has_steps:
            limit = min(part.step[0], limit) if limit is not None else part.step[0]

    def rows(name):
        return join_rows([getattr(part, name) for part in parts], kept)

    joined = {name: rows(name) for name in (
        "step", "starts_part", "epoch", "images", "loss", "learning_rate", "step_start",
        "phase_seconds", "bucket_start", "bucket_end")}
    has_calls = all(part.bucket_calls is not None for part in parts)
    joined["bucket_calls"] = rows("bucket_calls") if has_calls else None
    joined["traffic"] = {
        name: join_rows([part.traffic[name] for part in parts], kept)
        for name in parts[-1].traffic if all(name in part.traffic for part in parts)}
    numbers, epochs = join_epochs(parts, kept)
    return replace(
        parts[-1], path=parts[0].path, parts=tuple(parts), telemetry={}, step_end=None,
        epoch_numbers=numbers, epochs=epochs,
        part_of_step=np.repeat(np.arange(len(parts)), list(map(len, kept))), **joined)


def join_epochs(parts, kept):
    """Returns (numbers, columns) of /epochs. If several parts contain an epoch, the latest value is
    used; times and sensor readings of an epoch that was trained in several parts are NaN."""
    numbers = np.unique(np.concatenate([part.epoch_numbers for part in parts]))
    columns = {}
    for name in sorted(set().union(*(part.epochs for part in parts))):
        sample = next(part.epochs[name] for part in parts if name in part.epochs)
        values = [epoch_value(parts, kept, name, number, sample) for number in numbers]
        columns[name] = np.array(values, dtype=sample.dtype)
    return numbers, columns


def epoch_value(parts, kept, name, number, sample):
    is_number = sample.dtype.kind == "f"
    missing = np.full(sample.shape[1:], np.nan) if is_number else ""
    found = []
    trained = [i for i, part in enumerate(parts) if np.any(part.epoch[kept[i]] == number)]
    for i, part in enumerate(parts):
        rows = np.flatnonzero(part.epoch_numbers == number)
        if name not in part.epochs or len(rows) == 0:
            continue
        value = part.epochs[name][rows[0]]
        if name in MEASURED and (trained != [i] or np.sum(part.epoch == number) != np.sum(
                part.epoch[kept[i]] == number)):
            continue
        if not is_number or not np.all(np.isnan(value)):
            found.append(value)
    return found[-1] if found else missing
