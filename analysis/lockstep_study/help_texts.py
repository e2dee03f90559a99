# SPDX-License-Identifier: BSD-3-Clause
"""Texts of --help, and the options of submit."""

from typing import NamedTuple, Union


class Option(NamedTuple):
    """An option with a value. `metavar`: how the help calls its value."""

    name: str
    default: Union[str, int, None]
    metavar: str
    text: str


SUBMIT_OPTIONS = (
    Option(
        "--site",
        "generic",
        "NAME",
        "settings of the cluster, jobs/slurm/sites/NAME.sh: generic, greene or torch [generic]",
    ),
    Option(
        "--gpu",
        "",
        "TYPE",
        "run on GPUs of this type, one per rank; adds --device cuda. greene: rtx8000, a100, h100;"
        " torch: h200, h100, a100, l40s; generic: a type of the cluster of compute capability 7.5"
        " or newer",
    ),
    Option("--account", None, "NAME", "Slurm account [$LOCKSTEP_ACCOUNT]"),
    Option(
        "--at-once", 4, "N", "maximum number of tasks of an array that run at the same time [4]"
    ),
    Option("--time", "01:00:00", "LIMIT", "time limit per task [01:00:00]"),
    Option(
        "--grace",
        120,
        "SECONDS",
        "time before the limit, shorter than it, at which the ranks are told to save a checkpoint"
        " and stop [120]",
    ),
    Option(
        "--launcher",
        None,
        "NAME",
        "command that starts the ranks, srun or mpirun [srun if `srun --mpi=list` lists pmix, else"
        " mpirun]",
    ),
)
FOR_ALL = "passed to sbatch, for the arrays and the report"
SBATCH_OPTIONS = (
    Option("--partition", None, "NAME", FOR_ALL),
    Option("--qos", None, "NAME", FOR_ALL),
    Option("--reservation", None, "NAME", FOR_ALL),
    Option("--mail-type", None, "TYPES", FOR_ALL),
    Option("--mail-user", None, "ADDRESS", FOR_ALL),
    Option("--constraint", None, "FEATURES", "passed to sbatch, for the arrays"),
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

Options after -- replace those of the table, for the commands that use them. All points are checked
with --dry-run on one rank, if the program is found (LOCKSTEP_BIN, PATH, build/cpu) and the options
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
