# SPDX-License-Identifier: BSD-3-Clause
"""The command line of lockstep-study."""

import argparse
import re

from lockstep_study.errors import StudyError

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
        " at the end the report.\nOn a cluster with Slurm, jobs/slurm/submit runs the same tables as"
        " job arrays.",
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
        help="command that starts the ranks; the word RANKS is replaced by their number [%(default)s]",
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
        " table, with one array task per\npoint and repeat, and one job that writes the report in"
        " DIR/report and DIR/report.html after the last\ntask has ended.",
        epilog=SUBMIT_NOTES,
        usage=f"{name} [options] TABLE [-- further options of lockstep]",
    )
    add_points(parser)
    add_repeats(parser, 6)
    for option, default, metavar, text in SUBMIT_OPTIONS:
        kind = number if isinstance(default, int) else str
        parser.add_argument(option, type=kind, default=default, metavar=metavar, help=text)
    for option, metavar, text in SBATCH_OPTIONS:
        parser.add_argument(option, type=str, metavar=metavar, help=text)
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


SUBMIT_OPTIONS = (  # option, default, value, help
    (
        "--site",
        "generic",
        "NAME",
        "settings of the cluster, jobs/slurm/sites/NAME.sh: generic, greene or torch [generic]",
    ),
    (
        "--gpu",
        "",
        "TYPE",
        "run on GPUs of this type, one per rank; adds --device cuda. greene: rtx8000, a100, h100;"
        " torch: h200, h100, a100, l40s; generic: a type of the cluster of compute capability 7.5 or"
        " newer",
    ),
    ("--account", None, "NAME", "Slurm account [$LOCKSTEP_ACCOUNT]"),
    ("--at-once", 4, "N", "maximum number of tasks of an array that run at the same time [4]"),
    ("--time", "01:00:00", "LIMIT", "time limit per task [01:00:00]"),
    (
        "--grace",
        120,
        "SECONDS",
        "time before the limit, shorter than it, at which the ranks are told to save a checkpoint"
        " and stop [120]",
    ),
    (
        "--launcher",
        None,
        "NAME",
        "command that starts the ranks, srun or mpirun [srun if `srun --mpi=list` lists pmix, else"
        " mpirun]",
    ),
)
FOR_ALL = "passed to sbatch, for the arrays and the report"
SBATCH_OPTIONS = (
    ("--partition", "NAME", FOR_ALL),
    ("--qos", "NAME", FOR_ALL),
    ("--reservation", "NAME", FOR_ALL),
    ("--mail-type", "TYPES", FOR_ALL),
    ("--mail-user", "ADDRESS", FOR_ALL),
    ("--constraint", "FEATURES", "passed to sbatch, for the arrays"),
)
RUN_NOTES = """\
Example: jobs/study jobs/studies/strong.tsv -- --data cifar10:$HOME/cifar10 --epochs 2
         jobs/study --grid ranks=1,2,4 batch-per-rank=32,128,512 -- --threads 1 --epochs 2

Options after -- replace those of the table, for the commands that use them. All points are checked
before the first one starts: an unknown option ends the study, and a point that lockstep rejects,
for example because its batch exceeds the training images, is left out and listed. The points are
run in turn, and this is repeated, so that slow changes of the machine affect all points. One line
per run states how it ended; its output is in DIR/logs/NAME-REPEAT.log.

DIR/NAME-REPEAT.started contains the build and the options that affect results or times; when the
run is complete, it is DIR/NAME-REPEAT.done, with the name of the run file, and the last checkpoint
with the final weights is kept. The same command does not repeat complete runs; a command with
another build or other such options is refused, also for interrupted runs. Ctrl-C, SIGTERM or a
closed terminal (SIGHUP) lets a training save a checkpoint and stops the study; the same command
then continues. A run that fails is listed at the end, and the exit status is 1. A run that does not
fit in memory is no failure: the report names it, and the same command tries it again. A second
study with the same folder is refused."""
SUBMIT_NOTES = """\
Example: jobs/slurm/submit --site torch --gpu h200 --account torch_pr_123 jobs/studies/weak.tsv \\
           -- --data cifar10:$SCRATCH/cifar10

Options after -- replace those of the table, for the commands that use them. Points with one rank
are checked with --dry-run, if the program is found (LOCKSTEP_BIN, PATH, build/cpu) and the options
do not include --device cuda. Runs that are already complete in DIR are not submitted again. If the
build, or an option that affects results or times, has changed since a run was started, the command
is refused. While jobs of the study are pending or running, nothing is submitted. The jobs use a
copy of the table in DIR. jobs/slurm/status prints what has become of a study.

LOCKSTEP_SRUN_MPI is the value of --mpi of srun [pmix]; MPICH and Intel MPI need pmi2. With
LOCKSTEP_IMAGE=FILE, ranks and report start in containers of this Apptainer or Singularity image."""
STATUS_TEXT = """\
Prints one line per study: how many of its runs are complete, running, pending, held and failed. For
a run that is running, it adds its last complete epoch, its elapsed time and memory if the
accounting of Slurm knows them, and whether it is suspended; for a run that is held, the command
that releases it; for a run that failed, its state in the accounting and the last line of its log.
jobs/slurm/status starts it. Without squeue, only the files in the folders are read: runs that have
started and are not complete may be running or have failed."""
