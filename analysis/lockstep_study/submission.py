# SPDX-License-Identifier: BSD-3-Clause
"""Submits a study to a batch system: one array of jobs for each number of ranks and threads, and
one job that writes the report."""

import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass

from lockstep_study.durations import duration
from lockstep_study.errors import StudyError
from lockstep_study.points import option_value
from lockstep_study.runs import Run
from lockstep_study.scheduler import Array, QueueError
from lockstep_study.shell import command_line


@dataclass
class Submission:
    """A study that is submitted. `fixed`: arguments of the script of the arrays before the further
    options; `report`: those of the report; `estimate(point)`: seconds or None, for a dry run."""

    scheduler: object
    site: object
    points: list
    repeats: int
    directory: object
    commands: object
    fixed: list
    report: list
    notes: object
    estimate: object = None
    further: tuple = ()

    def submit(self, complete, most_seconds):
        """Submits the runs that are not `complete`, a set of their names. Returns the ids of the
        arrays and of the report, or None if all runs are complete."""
        arrays, longest, total = {}, {}, 0
        too_long = []
        for index, point in enumerate(self.points):
            tasks = [
                index * self.repeats + repeat
                for repeat in range(1, self.repeats + 1)
                if f"{point.name}-{repeat}" not in complete
            ]
            key = (point.ranks, self.threads(point))
            if not tasks:
                continue
            arrays.setdefault(key, []).extend(tasks)
            seconds = self.estimate(point) if self.estimate else None
            if seconds is not None:
                longest[key] = max(seconds, longest.get(key, 0))
                total += seconds * len(tasks)
                if seconds > most_seconds:
                    too_long.append(f"{point.name} ({duration(seconds)})")
        if not arrays:
            return None
        jobs = self.submit_arrays(arrays, longest)
        job = self.start(self.scheduler.report_command(jobs, self.report), jobs)
        if total:
            print(f"# all tasks: {duration(total)}")
        if too_long:
            limit = self.scheduler.limit
            self.notes.say(
                f"warning: on this machine, these points take longer than --time {limit}:"
                f" {', '.join(too_long)}; their tasks resume after the limit"
            )
        return jobs, job

    def threads(self, point):
        threads = option_value(self.commands.merge(point).words, "--threads")
        if threads in (None, "0"):  # lockstep selects the number
            return self.site.cores_per_rank
        return int(threads) if threads.isdigit() else self.site.cores_per_rank

    def submit_arrays(self, arrays, longest):
        jobs = []
        for ranks, threads in sorted(arrays):
            nodes = -(-ranks // self.site.ranks_per_node)
            indices = ranges(arrays[ranks, threads])
            array = Array(ranks, threads, nodes, indices, [*self.fixed, *self.further])
            comment = ""
            if self.estimate:
                comment = f" # per task: {duration(longest.get((ranks, threads)))}"
            jobs.append(self.start(self.scheduler.array_command(array), jobs, comment))
        return jobs

    def start(self, command, jobs, comment=""):
        """Prints a command and runs it, unless this is a dry run. Returns the id of the job."""
        with suppress(OSError):  # of stdout: the study is submitted completely
            print(command_line(command) + comment, flush=True)
        if self.estimate:
            return f"JOB{len(jobs) + 1}"
        remedy = "submit again"
        if jobs:
            submitted = " ".join(jobs)
            remedy = (
                f"the arrays {submitted} were submitted: wait until they have ended, or cancel them"
                f" with scancel {submitted}; then the same command submits the rest"
            )
        try:
            answer = subprocess.run(command, capture_output=True, text=True, errors="replace")
        except KeyboardInterrupt:
            raise StudyError(f"interrupted while {command[0]} ran; {remedy}") from None
        sys.stderr.write(answer.stderr)
        if answer.returncode != 0:
            raise StudyError(f"{command[0]} failed, see above; {remedy} ({self.advice(answer)})")
        job = self.scheduler.job_of(answer.stdout)
        if not job:
            raise StudyError(
                f"{command[0]} printed no id of a job, but: {answer.stdout.strip()}; see squeue"
                f" --me; {remedy}"
            )
        return job

    def advice(self, answer):
        """Returns what may help after an error of the command."""
        if "Socket timed out" in answer.stderr:
            return "the jobs may have been submitted, see squeue --me"
        if "configuration is not available" in answer.stderr:
            return "with --exclusive, --sbatch --mem=0 requests the memory that the node has"
        return "if the number of jobs is limited: reduce --repeats"


def ranges(indices):
    """Returns sorted indices as text, such as 1-3,7."""
    found = []
    for index in indices:
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def prefix_of(study, directory):
    """Returns the start of the names of the jobs of a study: the name of the table and a checksum
    of the folder of the results."""
    return f"lockstep-{re.sub('[^A-Za-z0-9._-]', '_', study)}-{folder_sum(directory)}"


def folder_sum(directory):
    answer = subprocess.run(["cksum"], input=f"{directory}\n".encode(), stdout=subprocess.PIPE)
    return answer.stdout.decode().split()[0]


def names_of_jobs(directory):
    """Returns the pattern of the names of all jobs that write to a folder."""
    return re.compile(f"lockstep-.*-{folder_sum(directory)}-(n[0-9]+|report)")


def refuse_second_submission(scheduler, directory):
    """Raises StudyError if jobs with this folder are pending or running: two tasks would train the
    same point, and the pending ones would read another table."""
    try:
        jobs = scheduler.queue()
    except StudyError as error:
        raise QueueError(f"{error}; nothing was submitted") from None
    pattern = names_of_jobs(directory)
    found = {job.identifier.partition("_")[0] for job in jobs if pattern.fullmatch(job.name)}
    if found:
        text = " ".join(sorted(found, key=lambda name: (len(name), name)))
        raise StudyError(
            f"a study of this folder is pending or running (jobs {text}); wait for its report, or"
            f" cancel it with: scancel {text}"
        )


def complete_runs(points, repeats, directory, comparison_of):
    """Returns the names of the complete runs; interrupted ones are compared too. Without a program
    that can run here, the tasks compare the runs. `comparison_of(point)` compares its runs."""
    files = directory.glob("*") if directory.is_dir() else ()
    if not any(path.suffix in (".done", ".started") for path in files):
        return set()
    found = set()
    for point in points:
        comparison = comparison_of(point)
        for repeat in range(1, repeats + 1):
            run = Run(point, repeat, directory)
            if comparison.is_complete(run):
                found.add(run.name)
    return found
