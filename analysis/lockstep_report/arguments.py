# SPDX-License-Identifier: BSD-3-Clause
"""The parser of the command line, the types of its arguments, and the execution of a command."""

import argparse
import sys

from lockstep_report import __version__
from lockstep_report.errors import INPUT, ReportError
from lockstep_report.escaping import one_line
from lockstep_report.output import stderr_without_errors, with_stdout

MOST_RANKS = 1 << 20


class Parser(argparse.ArgumentParser):
    """Reports a bad option in one line, and errors of stdout before the end of the process."""

    def exit(self, status=0, message=None):
        print(end="", flush=True)
        super().exit(status, message)

    def error(self, message):
        self.exit(2, f"{self.prog.split()[0]}: {message}; see {self.prog} --help\n")


def commands_of(program, description, epilog, metavar="COMMAND"):
    """Returns the parser of a program of this package, and the place where its commands are
    added."""
    top = Parser(prog=program, description=description, epilog=epilog)
    top.add_argument("--version", action="version", version=f"{program} {__version__}")
    return top, top.add_subparsers(metavar=metavar, required=True)


def finish(command, function, json_help="print the values as JSON", **defaults):
    """Adds the option --json to a command, which `function` executes."""
    command.add_argument("--json", action="store_true", help=json_help)
    command.set_defaults(command=function, **defaults)


def run(parser, arguments=None):
    """Parses the command line, runs its command, prints its errors, one per line, and returns the
    exit status."""
    errors = []
    with stderr_without_errors():
        status = with_stdout(lambda: run_command(parser, arguments, errors), errors)
        for error in errors:
            print(f"{parser.prog}: {one_line(str(error))}", file=sys.stderr)
    return status or (INPUT if errors else 0)


def run_command(parser, arguments, errors):
    """Runs one command and returns its exit status. Appends its error to the list `errors`."""
    options = parser.parse_args(arguments)
    options.skipped = errors  # of input files, see `input_files`
    try:
        return options.command(options) or 0
    except ReportError as error:
        errors.append(error)
        return error.status


def positive_number(text):
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("the number must be greater than 0")
    return value


def rank_list(text):
    values = [int(part) for part in text.split(",")]
    if not all(1 <= value <= MOST_RANKS for value in values):
        raise argparse.ArgumentTypeError(f"ranks are numbers from 1 to {MOST_RANKS}")
    return list(dict.fromkeys(values))


def share(text):
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("the share must be between 0 and 1")
    return value


def positive_integer(text):
    value = int(text.replace(",", ""))
    if value < 1:
        raise argparse.ArgumentTypeError("the number must be a positive integer")
    return value
