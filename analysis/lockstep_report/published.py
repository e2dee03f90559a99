# SPDX-License-Identifier: BSD-3-Clause
"""The command `published`, and what the options of a CSV state."""

from lockstep_report.arguments import finish, positive_integer
from lockstep_report.errors import INPUT, ReportError
from lockstep_report.models.published import KNOWN_PARAMETERS, Assumptions
from lockstep_report.output import CHECK, Folder
from lockstep_report.runfile.times_csv import read_times
from lockstep_report.tables.table import json_text, markdown, table_values
from lockstep_report.tables.published import published_tables

CSV_IMAGES = 50_000  # per epoch of a CSV, unless --train-samples is given


def add(commands):
    command = commands.add_parser(
        "published", help="check published values against the epoch times in the same table",
        description="Compares each column published_* of a CSV of epoch times with the value that "
                    "follows from the times, and names the formula that gives the printed digits.")
    command.add_argument("csv", nargs="+", metavar="TIMES.csv")
    command.add_argument("--out", metavar="DIR",
                         help="output directory; without it, the tables are only printed")
    add_assumptions(command)
    finish(command, print_published, "print the tables as JSON")


def add_assumptions(command):
    known = ", ".join(f"{name} {count:,}" for name, count in KNOWN_PARAMETERS.items())
    command.add_argument("--parameters", type=positive_integer, metavar="P",
                         help="number of trainable parameters (4 bytes each) of the model in a "
                              f"CSV. Known models: {known} [tables: the first of them; published: "
                              "all are tried]")
    command.add_argument("--train-samples", type=positive_integer, metavar="D",
                         help=f"images per epoch of a CSV [{CSV_IMAGES:,}]")


def assumptions_of(options):
    images = options.train_samples or CSV_IMAGES
    if options.parameters:
        return Assumptions(images, (("as given", options.parameters),))
    return Assumptions(images)


def checks_of(options, times):
    return [table for of_file in times for table in published_tables(of_file, assumptions_of(options))]


def write_all(folder, tables, checks):
    for table in tables:
        folder.write_table(table)
    for table in checks:
        folder.write_table(table, CHECK)


def print_published(options):
    times = [read_times(path) for path in options.csv]
    tables = checks_of(options, times)
    if not tables:
        raise ReportError(INPUT, f"{options.csv[0]}: no columns published_* and no network "
                                 "traffic; nothing to check")
    if options.out:
        folder = Folder(options.out, CHECK, inputs=options.csv)
        write_all(folder, [], tables)
        folder.finish()
    print(json_text({"tables": list(map(table_values, tables))}) if options.json
          else "\n".join(map(markdown, tables)))
