# SPDX-License-Identifier: BSD-3-Clause
"""The command `lockstep-report export`."""

import argparse
import re
from dataclasses import dataclass

import numpy as np

from lockstep_report.arguments import finish
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.measure.window import timed_window
from lockstep_report.output import Folder
from lockstep_report.runfile.input_files import read_files
from lockstep_report.runfile.names import stem_of
from lockstep_report.runfile.settings import distinct
from lockstep_report.tables import frames
from lockstep_report.tables.export import extra_p, trace, trackers
from lockstep_report.tables.table import files_values, json_text

FORMATS = {
    "csv": frames.write_csv,
    "parquet": frames.write_parquet,
    "extra-p": extra_p.write,
    "trace": trace.write,
    "tensorboard": trackers.write_event_files,
}


@dataclass(frozen=True)
class Selection:
    """The chosen steps (numbers of the run, from 1) and ranks; None for all."""

    steps: tuple = None
    ranks: tuple = None

    def steps_of(self, run, default=None):
        """Returns the indices of the chosen steps of the run. If none are chosen: all, or the first
        `default` timed steps."""
        if self.steps is None and default is not None:
            return timed_window(run).steps[:default] if run.has_steps else np.arange(0)
        return chosen(run, "step", run.step + 1, self.steps)

    def ranks_of(self, run):
        return chosen(run, "rank", np.arange(run.rank_count), self.ranks)

    def named(self, runs):
        """Yields (name for files, run) of the runs that have steps. Names of equal files in several
        folders have a number. Raises `ReportError` (input) if there is none."""
        trained = [run for run in runs if run.has_steps]
        if not trained:
            raise ReportError(INPUT, f"{runs[0].path}: holds no steps; nothing to export")
        stems = [
            re.sub("[^A-Za-z0-9._-]+", "-", stem_of(run.path.name)).lstrip(".-") for run in trained
        ]
        yield from zip(distinct(stem or "run" for stem in stems), trained)


def chosen(run, name, numbers, ranges):
    """Returns the indices of the numbers in one of the ranges [(first, last)]; None: of all
    numbers. Raises `ReportError` (usage) if there is none."""
    if ranges is None:
        return np.arange(len(numbers))
    found = np.flatnonzero(
        np.any([(numbers >= first) & (numbers <= last) for first, last in ranges], axis=0)
    )
    if not len(found):
        known = f"{numbers[0]} to {numbers[-1]}" if len(numbers) else "none"
        raise ReportError(USAGE, f"{run.path}: has no {name} of --{name}s; its {name}s are {known}")
    return found


def ranges(text):
    """Returns [(first, last)] of a list such as "1-10,20"."""
    found = []
    for item in text.split(","):
        match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", item.strip())
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise argparse.ArgumentTypeError(f'"{text}" is not a list of numbers such as 1-10,20')
        found.append((int(match[1]), int(match[2] or match[1])))
    return tuple(found)


def add(commands):
    command = commands.add_parser(
        "export",
        help="write CSV, Parquet, Extra-P JSON, traces or TensorBoard scalars",
        description="Writes the measurements of runs in the format of another program.",
    )
    command.add_argument(
        "runs", nargs="+", metavar="RUNS", help="run files, or directories with run files"
    )
    command.add_argument(
        "--to",
        required=True,
        choices=FORMATS,
        metavar="FORMAT",
        help=(
            "csv, parquet: tables of runs, steps, buckets, epochs, ...; extra-p: times of a step"
            " for Extra-P; trace: timeline for Perfetto or chrome://tracing; tensorboard: scalars"
        ),
    )
    command.add_argument(
        "--steps",
        type=ranges,
        metavar="LIST",
        help="steps to export, such as 1-10,20 [all; trace: the first 10 timed steps]",
    )
    command.add_argument("--ranks", type=ranges, metavar="LIST", help="ranks to export [all]")
    command.add_argument("--out", required=True, metavar="DIR", help="output directory")
    finish(command, export, "print the names of the files as JSON")


def export(options):
    runs = read_files(options, options.runs).runs
    folder = Folder(options.out, f"export {options.to}")
    FORMATS[options.to](folder, runs, Selection(options.steps, options.ranks))
    folder.finish()
    print(json_text(files_values(folder)) if options.json else folder.listing())
