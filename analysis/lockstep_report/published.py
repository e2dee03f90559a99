# SPDX-License-Identifier: BSD-3-Clause
"""The command that checks the published values in a CSV: `published`."""

from lockstep_report.arguments import finish
from lockstep_report.errors import INPUT, ReportError
from lockstep_report.material import add_assumptions, assumptions_of, tables_of_times
from lockstep_report.output import CHECK, Folder
from lockstep_report.runfile.input_files import require
from lockstep_report.tables.published import published_tables
from lockstep_report.tables.table import json_text, markdown, table_values


def add(commands):
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
