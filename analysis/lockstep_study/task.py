# SPDX-License-Identifier: BSD-3-Clause
"""One array task of a study, and the job that writes its report.

The names of run files contain the job, the array task and the restart count, so that no task
overwrites the file of another. If a signal interrupts a training, lockstep saves a checkpoint and
exits with status 75; the task then requeues itself and resumes from the checkpoint."""

import os
import signal
import subprocess

from lockstep_study.checks import reason_of
from lockstep_study.errors import StudyError
from lockstep_study.local import COMPLETE, TOO_LARGE
from lockstep_study.machine import mpi_environment
from lockstep_study.programs import shell_status
from lockstep_study.report import write_report
from lockstep_study.runs import Run, runs_of
from lockstep_study.shell import command_line
from lockstep_study.slurm import keepalive, launch

INTERRUPTED = 75
MOST_RESTARTS = 10


def point_and_repeat(points, repeats, task):
    """Returns what an array task runs: tasks are numbered from 1, the repeats of a point one after
    the other."""
    index, repeat = divmod(task - 1, repeats)
    if index >= len(points):
        raise StudyError(
            f"the stored table has {len(points)} points, so there is no task {task}: it was"
            " replaced after the submission"
        )
    return points[index], repeat + 1


class Task:
    """A task of the array job of a run."""

    def __init__(self, run: Run, commands, comparison, launcher, scheduler):
        self.run, self.commands, self.comparison = run, commands, comparison
        self.launcher, self.scheduler = launcher, scheduler
        environment = commands.programs.environment
        job, index = environment["SLURM_ARRAY_JOB_ID"], environment["SLURM_ARRAY_TASK_ID"]
        self.identifier = f"{job}_{index}"
        self.log = run.directory / "logs" / f"{self.identifier}.log"
        self.log_start = 0  # of this attempt: Slurm appends to the log
        self.restart = int(environment.get("SLURM_RESTART_COUNT") or 0)

    def execute(self):
        """Runs the point, unless it is complete. Returns the exit status of the task."""
        run, programs = self.run, self.commands.programs
        complete = self.comparison.is_complete(run)
        if complete is None:
            return 1
        if complete or run.complete_after_kill(programs):
            print(f"{run.name} is complete: {run.run_file}")
            return 0
        file = run.directory / f"{run.name}.{self.identifier}.{self.restart}.h5"
        self.comparison.mark_started(run)
        status = self.start(self.commands.full(run.point, run.repeat, file))
        if status == COMPLETE:
            run.mark_complete(file)
        elif status == TOO_LARGE:
            run.mark_too_large()
            print(f"{run.name} does not fit in memory")
        elif status == INTERRUPTED:
            return self.requeue()
        else:
            run.mark_failed(self.reason(status))
            return status
        return 0

    def reason(self, status):
        """Returns why the run failed: its last line in the log of the task, if Slurm has written
        it."""
        text = ""
        if self.log.exists():
            text = self.log.read_bytes()[self.log_start :].decode("utf-8", "replace")
        return reason_of(text) or f"exit status {status}, see the log of task {self.identifier}"

    def start(self, command):
        """Runs a command; returns its exit status, that of a shell. If Slurm sends a signal to the
        ranks (srun), this program ignores it; if it sends it to the batch script (mpirun), this
        program forwards it."""
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        programs, ranks = self.commands.programs, self.run.point.ranks
        environment = programs.environment
        nodes = int(environment.get("SLURM_JOB_NUM_NODES") or 1)
        cores = environment["SLURM_CPUS_PER_TASK"]
        words = launch(self.launcher, ranks, cores, programs.container, environment)
        variables = mpi_environment(-(-ranks // nodes), environment)
        if self.launcher == "mpirun":
            variables |= keepalive(environment)
        print(command_line([*words, *command]), flush=True)
        child = None

        def stop(*_):
            if child is not None and self.launcher == "mpirun":
                child.send_signal(signal.SIGTERM)

        signal.signal(signal.SIGTERM, stop)
        child = subprocess.Popen(
            [*words, *command], stdin=subprocess.DEVNULL, env=environment | variables
        )
        return shell_status(child.wait())

    def requeue(self):
        """Requeues this job, unless it is in another state: then it is being cancelled, and a
        requeue would restart it, or Slurm itself requeues it."""
        name, again = self.run.name, "submit the same study again to resume it"
        state = self.scheduler.state(self.identifier)
        if state != "RUNNING":
            print(
                f"{name} was interrupted; it is not requeued here, because the state of the job is"
                f" {state}; if Slurm does not requeue it, {again}"
            )
            return INTERRUPTED
        if self.restart >= MOST_RESTARTS:
            raise StudyError(
                f"{name} was interrupted {self.restart + 1} times; it is not requeued again;"
                f" {again}, with a longer --time"
            )
        try:
            self.scheduler.requeue(self.identifier)
        except StudyError as error:
            raise StudyError(
                f"{name} was interrupted and saved a checkpoint, but {error}; {again}"
            ) from None
        return 0


def report(points, repeats, directory, programs):
    """Writes the report. Raises StudyError with the runs that are not complete; the report contains
    the others."""
    succeeded = write_report(directory, programs, points)
    runs = runs_of(points, repeats, directory)
    incomplete = [run.name for run in runs if not (run.is_done or run.too_large)]
    if incomplete:
        failed = "" if succeeded else "the report failed; "
        raise StudyError(
            f"{failed}runs that are not complete: {' '.join(incomplete)}; submit the same study"
            " again to complete them"
        )
    if not succeeded:
        raise StudyError(
            "the report failed, see above; all runs are complete, so it can be repeated with"
            " lockstep-report report"
        )


def is_in_container():
    return bool(os.environ.get("APPTAINER_CONTAINER") or os.environ.get("SINGULARITY_CONTAINER"))
