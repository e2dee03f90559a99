# SPDX-License-Identifier: BSD-3-Clause
"""The commands that report on runs: `tables`, `figures`, `report`, `html` and `explain`; and the
command `published`, which checks the values in a CSV."""

import sys
from functools import cached_property
from textwrap import wrap
from urllib.parse import quote

from lockstep_report.arguments import finish, positive_integer, positive_number
from lockstep_report.errors import INPUT, USAGE, ReportError
from lockstep_report.escaping import markdown_escape, one_line
from lockstep_report.figures.canvas import CANVASES, canvas, figure_module
from lockstep_report.figures.captions import caption
from lockstep_report.measure import points
from lockstep_report.measure.comparison import merge_repeats
from lockstep_report.measure.validity import add_comparison_notes
from lockstep_report.models.explanation import explain, explanation_values
from lockstep_report.models.published import KNOWN_PARAMETERS, Assumptions
from lockstep_report.output import CHECK, FIGURE, PAGE, TABLE, File, Folder
from lockstep_report.runfile.file_kind import HTML
from lockstep_report.runfile.input_files import each, print_notes, read_files, require
from lockstep_report.runfile.times_csv import read_times
from lockstep_report.tables import contents
from lockstep_report.tables.explanation import explanation_tables
from lockstep_report.tables.method import method_lines
from lockstep_report.tables.published import published_tables
from lockstep_report.tables.table import files_values, json_text, markdown, table_values

CSV_IMAGES = 50_000  # per epoch of a CSV, unless --train-samples is given
LINE = 100  # characters of a line of the answer


def add(commands):
    for name, function, text in (
        ("tables", write_tables, "write the tables as Markdown, CSV and LaTeX"),
        ("figures", write_figures, "write the figures as SVG, PNG and PDF"),
        ("report", write_report, "write report.md with all tables, figures and the method"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        add_inputs(command)
        is_tables = name == "tables"
        command.add_argument(
            "--out",
            required=not is_tables,
            metavar="DIR",
            help="output directory" + ("; not needed with --json" if is_tables else ""),
        )
        if name == "figures":
            command.add_argument(
                "--width",
                choices=CANVASES,
                default="screen",
                help=(
                    "one-column, two-column: 85 or 178 mm for a paper, with texts of at least 6 "
                    "points; screen: as wide as the content needs [screen]"
                ),
            )
        finish(
            command,
            function,
            f"print the {'values of the tables' if is_tables else 'names of the files'} as JSON",
        )
    command = commands.add_parser(
        "html",
        help="write one page with the answer, tables, figures, explanation and method",
        description=(
            "Writes one self-contained HTML page with the answer, tables, figures, explanation and"
            " method, and prints the begin of the answer. The page loads nothing from the network."
        ),
    )
    add_inputs(command)
    command.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="PAGE.html",
        help="file to write; a page that exists is replaced, but no file of another kind",
    )
    finish(command, write_page, "print the name of the page as JSON")
    text = "print advice, causes of lost efficiency, fits and stragglers"
    command = commands.add_parser("explain", help=text, description=text)
    command.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.h5",
        help=(
            "run files of training and of `lockstep allreduce`, outputs of nccl-tests, OSU or IMB,"
            " or directories"
        ),
    )
    command.add_argument(
        "--link-gbit",
        type=positive_number,
        metavar="G",
        help="rate of the link between the ranks in Gbit/s [that of each run]",
    )
    finish(command, print_explanation, csv=[], parameters=None, train_samples=None)


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
        usable = each(options.skipped, loaded.runs, points.point_of)
        self.runs = [run for run, _ in usable]
        self.assumptions, notes = assumptions_of(options), list(default_notes(options))
        found = [point for _, point in usable if point]
        found += [
            points.from_times(
                row,
                self.assumptions.models[0][1],
                self.assumptions.samples,
                [*table.method, *notes],
            )
            for table in self.times
            for row in table.rows
        ]
        if not found and not any(run.has_tables for run in self.runs):
            require(options.skipped, self.runs)
            raise ReportError(
                INPUT,
                f"{self.runs[0].path}: holds no steps (status {self.runs[0].status}); "
                "nothing to report",
            )
        self.points = add_comparison_notes(merge_repeats(found), self.link_gbit)

    @cached_property
    def explanation(self):
        return explain(self.points, self.runs, self.link_gbit)

    @cached_property
    def tables(self):
        tables = contents.all_tables(self.points, self.runs, self.link_gbit, self.explanation)
        name, count = self.assumptions.models[0]
        for table in [
            table for table in tables if table.name in ("table-1-time-speedup", "assignment-1")
        ] or tables[:1]:
            table.notes.extend(self.options.note)
        for table in tables:
            if table.name == "table-3-bandwidth" and self.options.csv:
                table.notes.append(
                    f"rows from a CSV: M = 4 · {count:,} bytes ({name}), "
                    f"{self.assumptions.samples:,} images per epoch, ceil(D/(b·N)) steps"
                )
        return tables

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


def write_tables(options):
    if not options.out and not options.json:
        raise ReportError(USAGE, "tables needs --out DIR, or --json to print the values")
    found, files = Material(options), []
    if options.out:
        folder = Folder(options.out, TABLE, CHECK, inputs=options.csv)
        folder.write_tables(found.tables)
        folder.write_tables(found.checks, CHECK)
        folder.finish()
        files = [str(path) for path in folder.written]
    values = {"tables": list(map(table_values, found.tables + found.checks)), "files": files}
    print(json_text(values) if options.json else "\n".join(files))


def write_figures(options):
    found = Material(options)
    folder = Folder(options.out, FIGURE, inputs=options.csv)
    with canvas(options.width):
        made = save_figures(folder, found, ("svg", "png", "pdf"))
    if not made:
        print("no figure has data: give runs with several rank counts or batches", file=sys.stderr)
    folder.finish()
    print(json_text(files_values(folder)) if options.json else folder.listing())


def save_figures(folder, found, formats):
    made = figure_module(
        "all_figures"
    ).all_figures(  # loaded here because importing Matplotlib is slow
        found.points, found.runs, found.link_gbit, found.explanation, formats
    )
    for name, images in made.items():
        for suffix, content in images.items():
            folder.write(f"{name}.{suffix}", content, FIGURE)
    return list(made)


def write_report(options):
    found = Material(options)
    folder = Folder(options.out, TABLE, CHECK, FIGURE, PAGE, inputs=options.csv)
    folder.write_tables(found.tables)
    folder.write_tables(found.checks, CHECK)
    names = save_figures(folder, found, ("svg", "png"))
    text = report_markdown(
        found, names, found.file_notes + [f"not used: {error}" for error in options.skipped]
    )
    page = folder.write("report.md", text, PAGE)
    folder.finish()
    print(
        json_text(files_values(folder, page=str(page)))
        if options.json
        else one_line(f"{page} ({len(folder.written)} files in {folder.path})")
    )


def report_markdown(material, figure_names, file_notes):
    parts = ["# Lockstep report\n"]
    method = method_lines(material.points, material.runs, file_notes)
    if method:
        parts.append(
            "\n".join(["> **Method**", *(f"> - {markdown_escape(line)}" for line in method)]) + "\n"
        )
    for name in figure_names:
        parts.append(f"![{markdown_escape(name)}]({quote(name)}.svg)\n\n*{caption(name)}*\n")
    parts += map(markdown, material.tables + material.checks)
    return "\n".join(parts)


def write_page(options):
    from lockstep_report.html.answer import answer  # the other commands do not need these
    from lockstep_report.html.page import html_page

    page = File(options.output, options.runs + options.csv, HTML)
    material = Material(options)
    text = html_page(material, material.file_notes, [str(error) for error in options.skipped])
    page.write(text)
    size, found = len(text.encode()), answer(material.tables, material.points)
    if options.json:
        print(json_text({"page": str(page.path), "bytes": size, "answer": found}))
    else:
        print(one_line(f"{page.path} ({size:,} bytes)"), *wrap(one_line(found[0]), LINE), sep="\n")


def print_explanation(options):
    found = Material(options)
    if options.json:
        print(json_text(explanation_values(found.explanation)))
        return
    tables = explanation_tables(found.explanation, found.points)
    if not tables:
        raise ReportError(
            INPUT,
            "nothing to explain: give training runs with several rank counts "
            "and their base case, or sweeps of lockstep allreduce",
        )
    print("\n".join(markdown(table) for table in tables))


def add_published(commands):
    command = commands.add_parser(
        "published",
        help="check published values against the epoch times in the same table",
        description=(
            "Compares each column published_* of a CSV of epoch times with the value that "
            "follows from the times, and names the formula that gives the printed digits."
        ),
    )
    command.add_argument("csv", nargs="+", metavar="TIMES.csv")
    command.add_argument(
        "--out", metavar="DIR", help="output directory; without it, the tables are only printed"
    )
    add_assumptions(command)
    finish(command, print_published, "print the tables as JSON")


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


def print_published(options):
    tables = [
        table
        for times in tables_of_times(options)
        for table in published_tables(times, assumptions_of(options))
    ]
    require(options.skipped, tables)
    if not tables:
        raise ReportError(
            INPUT,
            f"{options.csv[0]}: no columns published_* and no network traffic; nothing to check",
        )
    if options.out:
        folder = Folder(options.out, CHECK, inputs=options.csv)
        folder.write_tables(tables, CHECK)
        folder.finish()
    print(
        json_text({"tables": list(map(table_values, tables))})
        if options.json
        else "\n".join(map(markdown, tables))
    )
