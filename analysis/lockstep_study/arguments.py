# SPDX-License-Identifier: BSD-3-Clause
"""The command line of lockstep-study."""

import argparse
import re

from lockstep_study.errors import StudyError
from lockstep_study.help_texts import (
    RUN_NOTES,
    SBATCH_OPTIONS,
    STATUS_TEXT,
    SUBMIT_NOTES,
    SUBMIT_OPTIONS,
)

TABLE_HELP = "table of the points: a file of jobs/studies, or your own"
GRID_HELP = "points of a grid instead of a table: every combination of the values, such as"
COMMANDS = {  # name of the script that starts a command -> how its help calls it
    "study": "jobs/study",
    "submit": "jobs/slurm/submit",
    "status": "jobs/slurm/status",
}


class Parser(argparse.ArgumentParser):
    """Raises StudyError for an invalid command line."""

    def __init__(self, **settings):
        super().__init__(
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, max_help_position=24, width=100
            ),
            allow_abbrev=False,
            add_help=False,
            **settings,
        )
        self.add_argument("--help", "-h", action="help", help="print this text")

    def error(self, message):
        message = re.sub("^argument ", "", message)
        unknown = re.match("unrecognized arguments: (-.*)", message)
        if unknown:
            message = f"unknown option {unknown[1].split()[0]}"
        extra = re.match("unrecognized arguments: (.*)", message)
        if extra:
            message = f"more than one table: {extra[1].split()[0]}"
        raise StudyError(f"{message}; see --help")

    def parse(self, words):
        """Returns the options before the first `--`, with the words after it as `further`."""
        end = words.index("--") if "--" in words else len(words)
        options = self.parse_args(self.with_values(words[:end]))
        options.further = words[end + 1 :]
        return options

    def with_values(self, words):
        """Returns the words with each option and its value in one, because a value may start with a
        dash."""
        takes_value = {
            name
            for action in self._actions
            for name in action.option_strings
            if action.nargs is None and action.type is not None
        }
        found = []
        for word in words:
            if found and found[-1] in takes_value:
                found[-1] += f"={word}"
            else:
                found.append(word)
        return found


def number(text):
    if not re.fullmatch("[1-9][0-9]{0,4}", text):
        raise argparse.ArgumentTypeError("must be a positive integer of at most five digits")
    return int(text)


def add_points(parser, directory="results/NAME for a table NAME.tsv"):
    parser.add_argument("table", nargs="?", default="", metavar="TABLE", help=TABLE_HELP)
    parser.add_argument(
        "--grid",
        nargs="+",
        action="extend",
        metavar="NAME=VALUES",
        help=f"{GRID_HELP} ranks=1,2,4 batch-per-rank=32,128. A command other than train is an axis"
        " command=NAME; options that are the same for all points follow after --",
    )
    parser.add_argument(
        "--dir", type=str, metavar="DIR", help=f"folder of the results [{directory}]"
    )


def add_repeats(parser, default):
    parser.add_argument(
        "--repeats",
        type=number,
        default=default,
        metavar="N",
        help=f"runs per point; confidence intervals need at least 6 [{default}]",
    )


def run_parser(name):
    parser = Parser(
        prog=name,
        description="Runs a study on this machine: the points of a table one after the other, and"
        " at the end the report.\nOn a cluster with Slurm, jobs/slurm/submit runs the same tables"
        " as job arrays.",
        epilog=RUN_NOTES,
        usage=f"{name} [options] TABLE [-- further options of lockstep]",
    )
    add_points(parser)
    add_repeats(parser, 1)
    parser.add_argument(
        "--launcher",
        type=str,
        metavar="COMMAND",
        default="mpirun -n RANKS --bind-to none",
        help="command that starts the ranks; the word RANKS is replaced by their number"
        " [%(default)s]",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check all points and print their commands without running them, with durations that"
        " are estimated from a step on this machine",
    )
    parser.add_argument(
        "--no-report", action="store_true", help="do not write DIR/report and DIR/report.html"
    )
    return parser


def submit_parser(name):
    parser = Parser(
        prog=name,
        description="Submits a study: one Slurm job array per number of ranks and threads in a"
        " table, with one\narray task per point and repeat, and one job that writes the report in"
        " DIR/report and\nDIR/report.html after the last task has ended.",
        epilog=SUBMIT_NOTES,
        usage=f"{name} [options] TABLE [-- further options of lockstep]",
    )
    add_points(parser)
    add_repeats(parser, 6)
    for option in (*SUBMIT_OPTIONS, *SBATCH_OPTIONS):
        parser.add_argument(
            option.name,
            type=number if isinstance(option.default, int) else str,
            default=option.default,
            metavar=option.metavar,
            help=option.text,
        )
    parser.add_argument(
        "--exclusive",
        action="store_true",
        help="run each task alone on its nodes; recommended for times on CPUs",
    )
    parser.add_argument(
        "--sbatch",
        type=str,
        action="append",
        default=[],
        metavar="OPTIONS",
        help='further options of sbatch for the arrays, such as "--exclude=node7 --nice=100"',
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the sbatch commands without submitting them, with durations that are estimated"
        " from a step on this machine, and a warning if a task may exceed the time limit",
    )
    return parser


def status_parser(name):
    parser = Parser(
        prog=name,
        description=STATUS_TEXT,
        usage=f"{name} [DIR...]",
    )
    parser.add_argument(
        "folders",
        nargs="*",
        metavar="DIR",
        help="folders of results [the folders in results in which a study is stored]",
    )
    return parser


def show_parser(name):
    parser = Parser(
        prog=name,
        description="Prints the commands of all points of a study.",
        usage=f"{name} [options] TABLE [-- further options of lockstep]",
    )
    add_points(parser)
    add_repeats(parser, 1)
    parser.set_defaults(launcher="mpirun -n RANKS --bind-to none")
    return parser
