# SPDX-License-Identifier: BSD-3-Clause
"""The commands run and show: a study on this machine."""

import os
from contextlib import suppress

from lockstep_study import arguments, checks
from lockstep_study.command import Commands
from lockstep_study.durations import Estimator, Processors, duration, total
from lockstep_study.errors import FAILURE, StudyError
from lockstep_study.local import LocalStudy, locked
from lockstep_study.machine import processors
from lockstep_study.programs import Programs
from lockstep_study.progress import Progress, count
from lockstep_study.report import write_report
from lockstep_study.runs import Comparison, Run, note_other_points
from lockstep_study.scheduler import QueueError
from lockstep_study.shell import command_line
from lockstep_study.slurm import Slurm
from lockstep_study.status import store
from lockstep_study.study import read_study
from lockstep_study.submission import refuse_second_submission

RANKS = "RANKS"


class Context:
    """What the commands need: the study, its commands, the launcher, and the comparison with runs
    in the folder of the results."""

    def __init__(self, options, notes):
        self.options, self.notes = options, notes
        self.study = read_study(options)
        environment = dict(os.environ)
        environment.pop("LOCKSTEP_IMAGE", None)  # a setting of batch jobs
        self.programs = Programs(environment)
        self.commands = Commands(self.programs, self.study.directory, options.further)
        self.comparison = Comparison(self.commands, options.launcher, notes)
        if RANKS not in options.launcher:
            raise StudyError(
                f"--launcher '{options.launcher}' does not contain the word RANKS, which is"
                " replaced by the number of ranks"
            )
        checks.check_options(self.study.title, self.study.points, self.commands, notes)

    def launch(self, ranks):
        """Returns the command that starts ranks."""
        return [word.replace(RANKS, str(ranks)) for word in self.options.launcher.split()]

    def rounds(self):
        """Returns the runs of each repeat."""
        return [
            [Run(point, repeat, self.study.directory) for point in self.study.points]
            for repeat in range(1, self.options.repeats + 1)
        ]

    def runs(self):
        return [run for runs in self.rounds() for run in runs]

    def full(self, run):
        """Returns the command of the next attempt of a run."""
        words = self.commands.full(run.point, run.repeat, run.next_file())
        return [*self.launch(run.point.ranks), *words]

    def can_run(self):
        programs = self.programs
        return programs.find(self.launch(1)[0]) is not None and programs.is_present()

    def check_programs(self):
        """Raises StudyError if the launcher or the program of a point does not exist; otherwise
        every point would fail."""
        launcher, program = self.launch(1)[0], self.programs.lockstep()
        if self.programs.find(launcher) is None:
            raise StudyError(
                f"the launcher {launcher} was not found; load the module of the MPI library that"
                " lockstep was built with, or use --launcher"
            )
        needed = any(not point.is_program for point in self.study.points)
        if needed and self.programs.find(program) is None:
            raise StudyError(
                f"the program {program} was not found; build it (cmake --preset cpu && cmake"
                " --build --preset cpu), or set LOCKSTEP_BIN"
            )

    def rejected(self, runs):
        """Returns {point: reason} of points that lockstep rejects, of those that are to run."""
        points = list(dict.fromkeys(run.point for run in runs))
        if "--launcher" not in self.options.given:
            checks.note_shared_processors(points, self.notes)
        return checks.rejected_points(points, self.commands, self.launch)

    def compare(self):
        """Returns the names of complete runs. Raises StudyError if a run in the folder is that of
        another experiment."""
        if not self.study.directory.is_dir():
            return set()
        note_other_points(self.study.directory, self.study.points, self.notes)
        complete = set()
        for run in self.runs():
            state = self.comparison.is_complete(run)
            if state is None:
                raise StudyError("nothing was run")
            if state:
                complete.add(run.name)
        return complete


def run(words, name, notes):
    """Runs a study, or prints what it would run."""
    options = arguments.run_parser(name).parse(words)
    options.given = [word.partition("=")[0] for word in words]
    context = Context(options, notes)
    if options.dry_run:
        return dry_run(context)
    with locked(context.study.directory, notes) as lock:
        refuse_jobs(context.study.directory)
        context.check_programs()
        complete = context.compare()
        return run_rest(context, complete, lock)


def refuse_jobs(directory):
    """Raises StudyError if jobs that write to the folder are in the queue of Slurm, if there is
    one: they read the stored table, and would run the same points."""
    with suppress(QueueError):
        refuse_second_submission(Slurm(), directory)


def run_rest(context, complete, lock):
    """Runs what is not complete, and writes the report. Returns the exit status."""
    options, study = context.options, context.study
    missing = [run for run in context.runs() if run.name not in complete]
    rejected = context.rejected(missing)
    checks.note_rejected(rejected, context.notes)
    store(study.directory, study.text, options.repeats)
    for run in missing:
        if run.point in rejected:
            run.mark_failed(rejected[run.point])
    rounds = [[run for run in runs if run.point not in rejected] for runs in context.rounds()]
    progress = Progress(sum(map(len, rounds)), estimates_of(context, missing, rejected))
    progress.head([run for runs in rounds for run in runs if run.name not in complete])
    local = LocalStudy(context.commands, context.comparison, context.launch, progress)
    local.run_all(rounds, lock)
    failed = list(local.failed)
    if not options.no_report and not write_report(study.directory, context.programs, study.points):
        failed.append("the report")
    for name, reason in local.failed.items():
        print(f"{name}: {reason}; its output is in {study.directory}/logs")
    errors = []
    if failed:
        errors.append(f"failed runs: {', '.join(failed)}")
    if rejected:
        errors.append(f"rejected points: {', '.join(point.name for point in rejected)}")
    if errors:
        raise StudyError("; ".join(errors))
    return 0


def estimates_of(context, runs, rejected):
    """Returns {point: seconds or None}."""
    estimator = estimator_of(context)
    points = dict.fromkeys(run.point for run in runs if run.point not in rejected)
    return {point: estimator.seconds(point) for point in points}


def estimator_of(context):
    launch = context.launch if context.can_run() else None
    return Estimator(context.commands, Processors(shared=processors()), launch)


def dry_run(context):
    """Prints the commands of the runs with their estimated durations. Returns 1 if lockstep rejects
    a point."""
    complete = context.compare()
    missing = [run for run in context.runs() if run.name not in complete]
    rejected = context.rejected(missing) if context.can_run() else {}
    estimates = estimates_of(context, missing, rejected)
    for run in context.runs():
        if run.name in complete:
            print(f"{run.name} is complete: {run.run_file}")
            continue
        comment = duration(estimates.get(run.point))
        if run.point in rejected:
            comment = f"will not run: {rejected[run.point]}"
        print(f"{command_line(context.full(run))} # {comment}")
    print_total(missing, rejected, estimates)
    checks.note_rejected(rejected, context.notes)
    return FAILURE if rejected else 0


def print_total(missing, rejected, estimates):
    running = [run for run in missing if run.point not in rejected]
    if not missing:
        return
    text = f"# {count(len(running))}: {total([estimates[run.point] for run in running])}"
    if len(running) < len(missing):
        text += f"; {count(len(missing) - len(running))} rejected"
    print(text)


def show(words, name, notes):
    """Prints the commands of all points."""
    options = arguments.show_parser(name).parse(words)
    context = Context(options, notes)
    for run in context.runs():
        print(command_line(context.full(run)))
