# SPDX-License-Identifier: BSD-3-Clause
"""The input files of a command: the files of the paths on its command line, and the parts of
each run joined. A resumed run writes one file per part. A file that cannot be used is skipped:
the rest is reported, the command prints one line about the file, and ends with the status of an
input error."""

import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np

from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.groups import grouped
from lockstep_report.runfile import mpi_benchmarks
from lockstep_report.runfile.experiment import NEITHER, effect_of, options_of, software_of
from lockstep_report.runfile.file_kind import NCCL_TESTS, kind_of_file
from lockstep_report.runfile.hdf5_access import errors_of_hdf5, open_run
from lockstep_report.runfile.names import SUFFIXES, files_at, sorted_names
from lockstep_report.runfile.nccl_tests import read_nccl_tests
from lockstep_report.runfile.read import STEP_COLUMNS, check_header, read_run
from lockstep_report.runfile.schema import QUANTITIES
from lockstep_report.runfile.settings import plural
from lockstep_report.runfile.stored import join_rows

PART_NAME = re.compile(r"(?P<stem>.+?)(\.part\d+)?(?P<suffix>\.[^.]+)(\.partial)?")
CLOCKS = ("clock_offset_seconds", "clock_error_seconds")  # columns of /epochs
# Columns of /epochs that are measured by one process and are valid only if it ran the complete
# epoch.
MEASURED = ("seconds", *CLOCKS, *(quantity.name for quantity in QUANTITIES))


def read_files(options, names, is_required=True):
    """Returns the `Loaded` runs of files and directories. Appends the errors of skipped files to
    `options.skipped`, and prints notes about joined and dropped files to stderr. Raises
    `ReportError` if no file can be read, unless `is_required` is false."""
    paths = run_files(names, options.skipped)
    loaded = load_runs(paths, options.skipped)
    loaded.notes += [
        f"{path} is a run file, although its name does not end with {SUFFIXES[0]}"
        for path in paths
        if path.suffix != SUFFIXES[0] and path not in map(Path, names)
    ]
    print_notes(loaded.notes)
    if is_required:
        require(options.skipped, loaded.runs)
    return loaded


def print_notes(notes):
    for note in notes:
        print(f"lockstep-report: note: {one_line(note)}", file=sys.stderr)


def require(skipped, found):
    """Raises the last of the errors `skipped` if nothing was found."""
    if skipped and not found:
        raise skipped.pop()


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


def run_files(names, skipped=None):
    """Returns the paths of the files `names`. A directory is replaced by the run files in it,
    sorted by name; it is an error if it has none or cannot be listed. `skipped`: as for `each`."""
    return [path for _, paths in each(skipped, map(Path, names), files_at) for path in paths]


@dataclass
class Loaded:
    """The runs that were read, and notes about joined and dropped files, one line each."""

    runs: list
    notes: list


def load_runs(paths, skipped=None):
    """Reads run files and outputs of nccl-tests, drops duplicates and joins the parts of each run.

    Other parts of a run in the same directory are read as well: all parts that are named after a
    file, and earlier parts with any name. `skipped`: as for `each`.
    """
    files, notes = {}, []  # files: path without links -> runs
    for path in map(Path, paths):
        place = os.path.realpath(path)
        if place in files:
            notes.append(f"{path} was given more than once and is counted once")
        else:
            files[place] = runs_in(path, skipped)
    # Each folder and each header is read once.
    files_of_folder, header = cache(partial(named_files, skipped)), cache(header_of)
    for run in list(chain.from_iterable(files.values())):
        for path in other_parts(run, files_of_folder, header, notes):
            place = os.path.realpath(path)
            if place not in files:
                files[place] = runs_in(path, skipped)
    joined = []
    for group in grouped(
        chain.from_iterable(files.values()), lambda run: run.run_id or run.path
    ).values():
        runs = join_group(group, notes)
        joined += runs
        if len(runs) == 1:  # otherwise a note says that the parts are separate
            notes += missing_steps_notes(runs[0])
    return Loaded(with_distinct_names(joined), notes)


def runs_in(path, skipped):
    """Returns the runs of a file; none if it cannot be used, see `each`."""
    return [run for _, runs in each(skipped, [path], read_runs) for run in runs]


def read_runs(path):
    """Returns the runs of a file: that of a run file, or the sweeps in an output of another
    program."""
    kind = kind_of_file(path)
    if kind in mpi_benchmarks.PROGRAMS:
        return mpi_benchmarks.read_benchmark(path, kind)
    return read_nccl_tests(path) if kind == NCCL_TESTS else [read_run(path)]


def with_distinct_names(runs):
    """Returns the runs with as many folders in their names as tell files of the same name apart."""
    for folders in range(1, 1 + max((len(run.path.parts) for run in runs), default=0)):
        count = Counter(run.file_name for run in runs)
        runs = [
            replace(run, named_folders=folders) if count[run.file_name] > 1 else run for run in runs
        ]
    return runs


def other_parts(run, files_of_folder, header, notes):
    """Returns the paths of the files in the directory of `run` that are other parts of the same
    run: parts with any number that are named after the file, and earlier parts with any name,
    because each process may have been given another one. Files that are named after `run` and
    cannot be read are reported in `notes`.
    """
    own = PART_NAME.fullmatch(run.path.name)
    if own is None or not run.run_id:
        return []
    found, number = [], run.integer("part")
    for path, name in files_of_folder(run.path.parent):
        is_named = name.group("stem", "suffix") == own.group("stem", "suffix")
        if path == run.path or not is_named and (number <= 1 or name["suffix"] != own["suffix"]):
            continue
        run_id, part, error = header(path)
        if error and is_named:
            notes.append(f"not joined with {run.file_name}: {error}")
        elif run_id == run.run_id and (is_named or part < number):
            found.append(path)
    return found


def named_files(skipped, folder):
    """Returns [(path, match of PART_NAME)] of the files in the folder. `skipped`: as for `each`."""
    listed = each(
        skipped,
        [folder],
        lambda folder: sorted_names(folder, "other parts of runs are found only if it can be"),
    )
    return [
        (folder / name, match)
        for _, names in listed
        for name in names
        if (match := PART_NAME.fullmatch(name))
    ]


def header_of(path):
    """Returns (run id, number of the part, None) of a run file, or ("", 0, the error) if it cannot
    be read."""
    try:
        with errors_of_hdf5(path), open_run(path) as file:
            attributes = check_header(path, file)
            return str(attributes.get("run_id")), int(attributes.get("part", 1)), None
    except ReportError as error:
        return "", 0, error


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
    if len({(part.rank_count, tuple(part.bucket_bytes)) for part in parts}) > 1:
        notes.append(
            f"{names} are parts of one run, but differ in ranks or buckets: they are reported as"
            " separate runs"
        )
        return parts
    notes.append(f"{names} are parts of one run and were joined")
    run = join_parts(parts)
    changes = "; ".join(changed_options(parts))
    if changes:
        notes.append(
            f"{names}: options or software changed between the parts ({changes}); the tables show "
            "those of the last part"
        )
        # No repeat of runs that have had the options of the last part from the start.
        run = replace(run, config=run.config | {"changed-on-resume": changes})
    return [run]


def changed_options(parts):
    """Returns texts such as "lr: 0.1, 0.001" one for each option with an effect, and property of
    the software, that changed."""
    recorded = [options_of(part) | dict(software_of(part)) for part in parts]
    names = sorted(set.intersection(*map(set, recorded)))
    values = {name: dict.fromkeys(options[name] for options in recorded) for name in names}
    return [
        f"{name}: {', '.join(found)}"
        for name, found in values.items()
        if len(found) > 1 and effect_of(name, parts[0].rank_count) != NEITHER
    ]


def missing_steps_notes(run):
    """Yields a note about the steps before the last one that no file of the run has."""
    count = int(run.step[-1]) + 1 - len(run.step) if run.has_steps else 0
    if count > 0:
        first = int(np.flatnonzero(run.step != np.arange(len(run.step)))[0])
        found = {part.integer("part") or 1 for part in run.parts or (run,)}
        absent = next((number for number in range(1, max(found)) if number not in found), None)
        cause = f"part {absent} of this run was not found; " if absent else ""
        yield (
            f"{run.label}: {cause}training seconds lack {plural(count, 'step')}, from step"
            f" {first + 1} on"
        )


def join_parts(parts):
    """Joins the parts of one run, which must be in order, and returns the run. A part replaces
    the rows of earlier parts from its first step on. Attributes and options are those of the
    last part."""
    firsts = [part.step[0] if part.has_steps else np.inf for part in parts]
    kept = [
        np.flatnonzero(part.step < min(firsts[i + 1 :], default=np.inf))
        for i, part in enumerate(parts)
    ]

    def rows(name):
        return join_rows([getattr(part, name) for part in parts], kept)

    has_calls = all(part.bucket_calls is not None for part in parts)
    return replace(
        parts[-1],
        path=parts[0].path,
        parts=tuple(parts),
        telemetry={},
        step_end=None,
        **{name: rows(name) for name in ("step", *STEP_COLUMNS)},
        bucket_calls=rows("bucket_calls") if has_calls else None,
        traffic={
            name: join_rows([part.traffic[name] for part in parts], kept)
            for name in parts[-1].traffic
            if all(name in part.traffic for part in parts)
        },
        part_of_step=np.repeat(np.arange(len(parts)), list(map(len, kept))),
        **join_epochs(parts, kept),
    )


def join_epochs(parts, kept):
    """Returns the numbers and the columns of /epochs. If several parts contain an epoch, the
    latest value is used; times and sensor readings of an epoch that was trained in several parts
    are NaN."""
    numbers = np.unique(np.concatenate([part.epoch_numbers for part in parts]))
    trained = np.array([steps_of(part.epoch[rows], numbers) for part, rows in zip(parts, kept)])
    columns = {}
    for part, steps in zip(parts, trained):
        is_measured = (
            (steps > 0) & (steps == trained.sum(axis=0)) & (steps == steps_of(part.epoch, numbers))
        )
        rows = np.searchsorted(numbers, part.epoch_numbers)
        for name, values in part.epochs.items():
            is_text = values.dtype.kind == "O"
            missing = np.full(
                (len(numbers), *values.shape[1:]), "" if is_text else np.nan, values.dtype
            )
            is_known = is_measured[rows] if name in MEASURED else np.full(len(rows), True)
            if not is_text:
                is_known = is_known & ~np.isnan(values).all(axis=tuple(range(1, values.ndim)))
            columns.setdefault(name, missing)[rows[is_known]] = values[is_known]
    return {"epoch_numbers": numbers, "epochs": columns}


def steps_of(epoch, numbers):
    """Returns the number of steps of each of the epochs `numbers`."""
    return [np.count_nonzero(epoch == number) for number in numbers]
