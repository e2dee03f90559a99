# SPDX-License-Identifier: BSD-3-Clause
"""Command-line interface: lockstep-study COMMAND."""

import os
import sys
from pathlib import Path

from lockstep_study import arguments, local_command, slurm_command
from lockstep_study.errors import FAILURE, Notes, StudyError, discard, one_line
from lockstep_study.machine import forget_missing_folders, mpi_environment
from lockstep_study.shell import quoted
from lockstep_study.status import REPEATS, Status, read_stored

HELP = """\
usage: lockstep-study COMMAND [options]

Studies: tables of runs of lockstep that together answer one question.

  run TABLE            runs a study on this machine (jobs/study)
  submit TABLE         submits a study to Slurm (jobs/slurm/submit)
  status [DIR...]      prints how far studies are (jobs/slurm/status)
  show TABLE           prints the commands of all points of a study
  environment RANKS    prints the variables with which mpirun of Open MPI starts RANKS ranks here,
                       as root, in containers and with fewer slots

COMMAND --help describes the options of a command. Exit status: 0 done, 1 an error or a failed run.
"""


def main(words=None):
    """Runs one command and returns the exit status."""
    words = list(sys.argv[1:] if words is None else words)
    command = words.pop(0) if words else "--help"
    script = os.environ.pop("LOCKSTEP_COMMAND", "")
    scripts = (*arguments.COMMANDS, "task", "report")
    notes = Notes(script if script in scripts else f"lockstep-study {command}")
    name = arguments.COMMANDS.get(script, f"lockstep-study {command}")
    forget_missing_folders(os.environ)
    try:
        return run_command(command, words, name, notes)
    except StudyError as error:
        notes.say(str(error))
    except BrokenPipeError:  # of stdout, for example with head
        discard(sys.stdout)
    except OSError as error:  # for example a full disk
        notes.say(f"{error.filename or 'a file or stdout'}: {error.strerror}")
        if error.filename is None:
            discard(sys.stdout)
    except KeyboardInterrupt:
        notes.say("interrupted; the same command continues")
    return FAILURE


def run_command(command, words, name, notes):
    """Runs one command and returns the exit status. Raises the errors of stdout here instead of at
    the end of the process."""
    try:
        if command in ("--help", "-h"):
            print(HELP, end="")
            return 0
        if command not in COMMANDS:
            known = ", ".join(PUBLIC)
            raise StudyError(f"unknown command {quoted(command)}; the commands are {known}")
        return COMMANDS[command](words, name, notes) or 0
    finally:  # also after the exit of --help
        print(end="", flush=True)


def status(words, name, notes):
    """Prints the line of each study."""
    folders = arguments.status_parser(name).parse(words).folders
    if not folders:
        folders = [str(path.parent) for path in sorted(Path("results").glob(f"*/{REPEATS}"))]
    if not folders:
        raise StudyError(
            f"no study was started in {os.getcwd()}/results; give the folders of the results"
        )
    scheduler, jobs = slurm_command.queue(notes)
    failed = 0
    for folder in folders:
        try:
            study = read_stored(Path(os.path.realpath(folder)))
        except StudyError as error:
            notes.say(str(error))
            failed = FAILURE
            continue
        print(one_line(Status(study, scheduler, jobs).line()))
    return failed


def environment(words, name, notes):
    """Prints variables of Open MPI as NAME=VALUE."""
    if len(words) != 1 or not words[0].isdigit():
        raise StudyError("the number of ranks is missing, e.g. lockstep-study environment 4")
    for variable, value in mpi_environment(int(words[0]), os.environ).items():
        print(f"{variable}={value}")


PUBLIC = {
    "run": local_command.run,
    "submit": slurm_command.submit,
    "status": status,
    "show": local_command.show,
    "environment": environment,
}
# Those of the jobs, which submit starts.
COMMANDS = {**PUBLIC, "task": slurm_command.task, "report": slurm_command.report}
