# SPDX-License-Identifier: BSD-3-Clause
"""Command-line interface: lockstep-report COMMAND ..."""

from lockstep_report import compare, export, predict, published, report, watch
from lockstep_report.arguments import commands_of, finish, run
from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line, printable
from lockstep_report.output import File
from lockstep_report.runfile.file_kind import CSV
from lockstep_report.runfile.input_files import each, read_files, require, run_files
from lockstep_report.runfile.names import one_file
from lockstep_report.runfile.settings import plural
from lockstep_report.runfile.validate import notes, problems
from lockstep_report.tables.summary import index_table, summary, summary_values, table_lines
from lockstep_report.tables.table import csv_text, json_text, table_values


def main(arguments=None):
    return run(parser(), arguments)


def parser():
    top, commands = commands_of(
        "lockstep-report",
        "Makes tables and figures from the run files of lockstep.",
        "Formulas and method: docs/analysis.md. Exit status: 0 done, 2 bad option, "
        "3 bad or missing input, 6 output cannot be written.",
    )
    report.add(commands)
    predict.add(commands)
    command = commands.add_parser("summary", help="print a summary of each run")
    command.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.h5",
        help="run files; other parts of a run in the same directory are read as well",
    )
    finish(command, print_summary)
    command = commands.add_parser("validate", help="check a run file against the format")
    command.add_argument("run", metavar="RUN.h5")
    finish(command, print_problems, "print the problems as JSON")
    published.add(commands)
    compare.add(commands)
    export.add(commands)
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
    watch.add(commands)
    return top


def print_summary(options):
    runs = read_files(options, options.runs).runs
    found = each(options.skipped, runs, summary_values if options.json else summary)
    require(options.skipped, found)
    if options.json:
        values = [value for _, value in found]
        print(json_text(values[0] if len(runs) == 1 else values))
    else:
        print("\n\n".join("\n".join(map(printable, lines)) for _, lines in found))


def print_problems(options):
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
