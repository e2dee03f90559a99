# SPDX-License-Identifier: BSD-3-Clause
"""Command-line interface: lockstep-report COMMAND ... The modules of the other commands are not
imported, because that takes longer than a small command."""

import gc
import sys
from importlib import import_module

from lockstep_report.arguments import commands_of, finish, run
from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line, printable

# New objects from which Python looks for garbage in circles. Modules and figures make many objects
# and little of this garbage; the default, 700, costs a tenth of the time.
RARE_COLLECTION = 20_000


def main(arguments=None):
    given = sys.argv[1:] if arguments is None else arguments
    thresholds = gc.get_threshold()
    gc.set_threshold(RARE_COLLECTION, *thresholds[1:])
    try:
        return run(parser(given[:1]), arguments)
    finally:
        gc.set_threshold(*thresholds)


def parser(commands=()):
    """Returns the parser of all commands, or only of those that are defined together with one of
    `commands`, if it exists."""
    top, added = commands_of(
        "lockstep-report",
        "Makes tables and figures from the run files of lockstep.",
        "Formulas and method: docs/analysis.md; inputs, tables and JSON: "
        "docs/report-reference.md. Exit status: 0 done, 2 bad option, "
        "3 bad or missing input, 6 output cannot be written.",
    )
    named = [names for names, _ in DEFINITIONS if set(names) & set(map(str, commands))]
    for names, define in DEFINITIONS:
        if not named or names in named:
            define(added)
    return top


def of_module(name, function="add"):
    """Returns a function that imports the module `name` and defines its commands."""

    def define(commands):
        getattr(import_module(f"lockstep_report.{name}"), function)(commands)

    return define


def add_summary(commands):
    command = commands.add_parser("summary", help="print a summary of each run")
    command.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.h5",
        help="run files; other parts of a run in the same directory are read as well",
    )
    finish(command, print_summary)


def add_validate(commands):
    command = commands.add_parser("validate", help="check a run file against the format")
    command.add_argument("run", metavar="RUN.h5")
    finish(command, print_problems, "print the problems as JSON")


def add_index(commands):
    command = commands.add_parser(
        "index",
        help="list run files, one row per file",
        description=(
            "Lists run files, one row per file; files that are copies, parts of one run, "
            "not complete or not readable have a remark."
        ),
    )
    command.add_argument(
        "runs", nargs="+", metavar="RUNS", help="run files, or directories with run files"
    )
    command.add_argument("--csv", metavar="FILE", help="write the table with all columns as CSV")
    finish(command, write_index, "print the rows as JSON")


def print_summary(options):
    from lockstep_report.runfile.input_files import each, read_files, require
    from lockstep_report.tables.summary import summary, summary_values
    from lockstep_report.tables.table import json_text

    runs = read_files(options, options.runs).runs
    found = each(options.skipped, runs, summary_values if options.json else summary)
    require(options.skipped, found)
    if options.json:
        values = [value for _, value in found]
        print(json_text(values[0] if len(runs) == 1 else values))
    else:
        print("\n\n".join("\n".join(map(printable, lines)) for _, lines in found))


def print_problems(options):
    from lockstep_report.runfile.names import one_file
    from lockstep_report.runfile.settings import plural
    from lockstep_report.runfile.validate import notes, problems
    from lockstep_report.tables.table import json_text

    found = problems(one_file(options.run))
    lacking = [] if found else notes(options.run)
    lines = found or [*(f"note: {note}" for note in lacking), "valid"]
    print(
        json_text({"run": options.run, "is_valid": not found, "problems": found, "notes": lacking})
        if options.json
        else "\n".join(one_line(f"{options.run}: {line}") for line in lines)
    )
    if found:
        raise ReportError(INPUT, f"{options.run}: {plural(len(found), 'problem')} in the file")


def write_index(options):
    from lockstep_report.output import File
    from lockstep_report.runfile.file_kind import CSV
    from lockstep_report.runfile.input_files import require, run_files
    from lockstep_report.tables.summary import index_table, table_lines
    from lockstep_report.tables.table import csv_text, json_text, table_values

    file = File(options.csv, options.runs, CSV) if options.csv else None
    table = index_table(options, run_files(options.runs, options.skipped))
    require(options.skipped, table.rows)
    if file:
        file.write(csv_text(table))
    if options.json:
        print(json_text(table_values(table)["rows"]))
    elif file:
        print(one_line(str(file.path)))
    else:
        print("\n".join(map(one_line, table_lines(table))))


# (names of commands, function that defines them), in the order of --help
DEFINITIONS = (
    (("tables", "figures", "report", "html", "explain"), of_module("report")),
    (("predict",), of_module("predict")),
    (("summary",), add_summary),
    (("validate",), add_validate),
    (("published",), of_module("published")),
    (("compare",), of_module("compare")),
    (("export",), of_module("export")),
    (("index",), add_index),
    (("watch",), of_module("watch")),
)
