# SPDX-License-Identifier: BSD-3-Clause
"""One line about a study: how many of its runs are complete, running, pending, held and failed."""

import re
from dataclasses import dataclass, field

from lockstep_study.errors import StudyError
from lockstep_study.local import is_locked
from lockstep_study.output import Output
from lockstep_study.programs import last_line
from lockstep_study.progress import clock
from lockstep_study.runs import first_line, replace_text, runs_of
from lockstep_study.submission import names_of_jobs
from lockstep_study.table import read_table

REPEATS = "repeats"  # file with the repeats of a study in the folder of its results
TABLE = "table.tsv"
LONGEST_REASON = 160
# Of jobs that wait for their turn.
USUAL_REASONS = ("None", "Priority", "Resources", "Dependency", "BeginTime", "JobArrayTaskLimit")
# Of the accounting for a job that has left the queue: it is not up to date.
LATE_STATES = ("RUNNING", "PENDING", "REQUEUED", "COMPLETING")


@dataclass
class Stored:
    """A study as it is stored in the folder of its results."""

    directory: object
    points: list
    repeats: int

    def runs(self):
        return runs_of(self.points, self.repeats, self.directory)


def read_stored(directory):
    """Returns the study in a folder. Raises StudyError if none was started there."""
    repeats = first_line(directory / REPEATS)
    if not re.fullmatch("[1-9][0-9]{0,4}", repeats):
        raise StudyError(f"{directory} contains no study that was run or submitted")
    return Stored(directory, read_table(str(directory / TABLE)), int(repeats))


def store(directory, text, repeats):
    """Stores the table of a study, as text, and its repeats: the jobs and `status` read them."""
    replace_text(directory / TABLE, text)
    replace_text(directory / REPEATS, f"{repeats}\n")


@dataclass
class Summary:
    """Numbers and names of runs by their state."""

    counts: dict = field(default_factory=dict)
    names: dict = field(default_factory=dict)
    reasons: dict = field(default_factory=dict)

    def count(self, state):
        self.counts[state] = self.counts.get(state, 0) + 1

    def wait(self, reason):
        """Counts why a job is pending, unless it only waits for its turn."""
        reason = reason.partition(",")[0]
        if reason and reason not in USUAL_REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def name(self, state, text):
        self.names.setdefault(state, []).append(text)

    def line(self, study):
        total = len(study.points) * study.repeats
        text = f"{study.directory}: {self.counts.get('complete', 0)} of {total} runs complete"
        for state, words in (
            ("memory", "do not fit in memory"),
            ("pending", "pending"),
            ("absent", "not started"),
        ):
            if state in self.counts:
                text += f", {self.counts[state]} {words}"
            if state == "pending" and self.reasons:
                reasons = [f"{count} for {reason}" for reason, count in self.reasons.items()]
                text += f" ({', '.join(reasons)})"
        for state in ("held", "running", "started", "failed"):
            if state in self.names:
                text += f"; {state}: {', '.join(self.names[state])}"
        return text


class Status:
    """Reads what has become of a study. `jobs`: those of the queue, or None without one."""

    def __init__(self, study, scheduler, jobs):
        self.study, self.scheduler, self.has_queue = study, scheduler, jobs is not None
        pattern = names_of_jobs(study.directory)
        self.jobs = {job.task: job for job in jobs or () if pattern.fullmatch(job.name)}
        self.summary, self.last = Summary(), None

    def line(self):
        """Returns the line of the study."""
        waiting = []
        for task, run in enumerate(self.study.runs(), 1):
            job = self.jobs.get(str(task))
            if run.is_done:
                self.summary.count("complete")
            elif job and job.state == "PENDING":
                self.summary.count("pending")
                self.summary.wait(job.reason)
            elif job and job.state == "HELD":
                self.summary.name("held", f"{run.name} ({held(job)})")
            else:
                waiting.append((self.log_of(task, run), run, job))
        logs = [log for log, _, _ in waiting if log]
        self.last = max(logs, key=modified, default=None)
        of_jobs = [log.stem for log, run, _ in waiting if log and log.stem != run.name]
        usage = self.scheduler.usage(of_jobs)
        for log, run, job in waiting:
            used = usage.get(log.stem) if log else None
            if job:
                self.summary.name("running", running(run, job, log, used))
            else:
                self.add_by_files(run, log, used)
        return self.summary.line(self.study)

    def add_by_files(self, run, log, used):
        """Adds a run that has no job in the queue. `log`: its log, or None."""
        if run.too_large:
            self.summary.count("memory")
        elif log is None and run.path("failed").exists():
            self.summary.name("failed", f"{run.name} ({first_line(run.path('failed'))})")
        elif log is None:
            self.summary.count("absent")
        elif self.may_be_running(run, log):
            is_running = log == self.last and is_locked(self.study.directory)
            state = "running" if is_running else "started"
            self.summary.name(state, f"{run.name} ({progress_of(log)})")
        else:
            self.summary.name("failed", f"{run.name} ({failure(log, used)})")

    def may_be_running(self, run, log):
        """Returns whether a run with this log, which is not in the queue, may be running: on this
        machine, or in a job without a queue to ask."""
        is_local = log.stem == run.name
        return (is_local or not self.has_queue) and not run.path("failed").exists()

    def log_of(self, task, run):
        """Returns the newest log of an array task since the last submission, which may have
        numbered the tasks anew, or of a run on this machine; None if there is none."""
        begin = modified(self.study.directory / REPEATS)
        folder = self.study.directory / "logs"
        logs = [
            path
            for path in (*folder.glob(f"*_{task}.log"), folder / f"{run.name}.log")
            if path.exists() and modified(path) > begin
        ]
        return max(logs, key=modified, default=None)


def held(job):
    """Returns how a held job is released, and whether only an administrator can do that."""
    by = "by an administrator: " if job.reason == "JobHeldAdmin" else ""
    return f"{by}scontrol release {job.identifier}"


def running(run, job, log, used):
    """Returns the name of a running run with its complete epochs, elapsed time and memory."""
    parts = [progress_of(log), *usage_text(used)]
    suspended = " suspended" if job.state == "SUSPENDED" else ""
    return f"{run.name}{suspended} ({', '.join(parts)})"


def progress_of(log):
    """Returns the last complete epoch in a log, of the last attempt of a run on this machine."""
    epochs = Output(read(log).rpartition("\n$ ")[2]).epochs
    return f"epoch {epochs}" if epochs else "no complete epoch"


def modified(path):
    return path.stat().st_mtime_ns


def failure(log, used):
    """Returns why a run failed: its state in the accounting, and the last line of its log."""
    reason = last_line(read(log))[:LONGEST_REASON]
    parts = []
    if used and used.state.split(" ")[0] not in ("", *LATE_STATES):
        parts = [used.state, *usage_text(used)]
    return f"{', '.join(parts)}: {reason}" if parts else reason


def usage_text(used):
    parts = []
    if used and used.elapsed is not None:
        parts.append(clock(used.elapsed))
    if used and used.memory is not None:
        gigabytes = used.memory / 1e9
        parts.append(f"{gigabytes:.0f} GB" if gigabytes > 99 else f"{gigabytes:.2g} GB")
    return parts


def read(log):
    return log.read_text(encoding="utf-8", errors="replace") if log else ""
