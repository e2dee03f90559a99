# SPDX-License-Identifier: BSD-3-Clause
"""The inputs of the commands that report on runs, and what follows from them: points, explanation,
tables and answer."""

from functools import cached_property

from lockstep_report.arguments import positive_integer, positive_number
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.points import from_times, point_of
from lockstep_report.measure.validity import add_comparison_notes
from lockstep_report.models.answers.all_answers import headline_texts
from lockstep_report.models.explanation import explain
from lockstep_report.models.published import KNOWN_PARAMETERS, Assumptions
from lockstep_report.runfile.input_files import each, print_notes, read_files, require
from lockstep_report.runfile.times_csv import read_times
from lockstep_report.tables.kinds import TableKind
from lockstep_report.tables.published import published_tables
from lockstep_report.tables.registry import Content, tables_of_content

CSV_IMAGES = 50_000  # per epoch of a CSV, unless --train-samples is given
# The tables with the notes of --note, if there are any.
KINDS_WITH_NOTES = (TableKind.TIMES, TableKind.ASSIGNMENT_TIMES)


def add_inputs(command):
    command.add_argument(
        "runs",
        nargs="*",
        metavar="RUN.h5",
        help=(
            "run files, outputs of nccl-tests, osu_allreduce or IMB-MPI1 Allreduce, or directories"
            " with run files"
        ),
    )
    command.add_argument(
        "--csv",
        action="append",
        default=[],
        metavar="TIMES.csv",
        help=(
            "epoch times with the columns ranks (gpus, workers), batch_per_rank (batch_per_gpu),"
            " epoch_seconds, and optionally epoch, rank, trial, ...; can be repeated"
        ),
    )
    command.add_argument(
        "--link-gbit",
        type=positive_number,
        metavar="G",
        help="rate of the link between the ranks in Gbit/s [--link-gbit of each run]",
    )
    command.add_argument(
        "--note",
        action="append",
        default=[],
        metavar="TEXT",
        help=(
            "note below table 1 (without it, below the first table), for example about runs that"
            " failed; can be repeated"
        ),
    )
    add_assumptions(command)


def add_assumptions(command):
    known = ", ".join(f"{name} {count:,}" for name, count in KNOWN_PARAMETERS.items())
    command.add_argument(
        "--parameters",
        type=positive_integer,
        metavar="P",
        help=(
            "number of trainable parameters (4 bytes each) of the model in a CSV. Known models: "
            f"{known} [tables: the first of them; published: all are tried]"
        ),
    )
    command.add_argument(
        "--train-samples",
        type=positive_integer,
        metavar="D",
        help=f"images per epoch of a CSV [{CSV_IMAGES:,}]",
    )


def assumptions_of(options):
    models = (("as given", options.parameters),) if options.parameters else Assumptions.models
    return Assumptions(options.train_samples or CSV_IMAGES, models)


def default_notes(options):
    """Yields validity notes about values that are neither in the CSV nor given as options."""
    if not options.train_samples:
        yield f"{CSV_IMAGES:,} images per epoch is a default (--train-samples)"
    if not options.parameters:
        name, count = assumptions_of(options).models[0]
        yield f"{count:,} parameters ({name}) is a default (--parameters)"


class Material:
    """The points and runs in the files of a command, and what follows from them. Raises
    `ReportError` if no file can be read or there is nothing to report."""

    def __init__(self, options):
        if not options.runs and not options.csv:
            raise ReportError(USAGE, "nothing to report: give run files, or epoch times with --csv")
        self.options = options
        self.link_gbit = options.link_gbit
        loaded = read_files(options, options.runs, is_required=False)
        self.times = tables_of_times(options)
        self.file_notes = loaded.notes + [note for table in self.times for note in table.notes]
        usable = each(options.skipped, loaded.runs, point_of)
        self.runs = [run for run, _ in usable]
        self.assumptions, notes = assumptions_of(options), list(default_notes(options))
        found = [point for _, point in usable if point] + self.points_of_times(notes)
        if not found and not any(run.has_tables for run in self.runs):
            require(options.skipped, self.runs)
            raise ReportError(
                INPUT,
                f"{self.runs[0].path}: holds no steps (status {self.runs[0].status}); "
                "nothing to report",
            )
        self.points = add_comparison_notes(merge_repeats(found), self.link_gbit)

    def points_of_times(self, notes):
        """Returns the points of the rows of all CSVs, with these validity notes."""
        parameters = self.assumptions.models[0][1]
        return [
            from_times(row, parameters, self.assumptions.samples, [*table.method, *notes])
            for table in self.times
            for row in table.rows
        ]

    @cached_property
    def explanation(self):
        return explain(self.points, self.runs, self.link_gbit)

    @property
    def content(self):
        return Content(self.points, self.runs, self.link_gbit, self.explanation)

    @cached_property
    def tables(self):
        tables = tables_of_content(self.content)
        with_times = [table for table in tables if table.kind in KINDS_WITH_NOTES]
        for table in with_times or tables[:1]:
            table.notes.extend(self.options.note)
        for table in tables:
            if table.kind is TableKind.BANDWIDTH and self.options.csv:
                table.notes.append(self.csv_note())
        return tables

    def csv_note(self):
        """Returns the note about the bytes and steps of rows from a CSV."""
        name, count = self.assumptions.models[0]
        return (
            f"rows from a CSV: M = 4 · {count:,} bytes ({name}), "
            f"{self.assumptions.samples:,} images per epoch, ceil(D/(b·N)) steps"
        )

    @cached_property
    def headline(self):
        """The texts of the answer, and the notes of the command line about runs that are
        missing."""
        return headline_texts(self.explanation.answers, [f"Note: {n}" for n in self.options.note])

    @cached_property
    def checks(self):
        """Tables that check published values."""
        return [
            table for of_file in self.times for table in published_tables(of_file, self.assumptions)
        ]


def tables_of_times(options):
    """Returns the tables of epoch times of a command, and prints their notes."""
    times = [table for _, table in each(options.skipped, options.csv, read_times)]
    print_notes([note for table in times for note in table.notes])
    return times
