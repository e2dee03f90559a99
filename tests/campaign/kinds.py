# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of faults: what each draws at random, does to a job, and expects of it.

Everything that a run draws is a function of the seed, the kind and the index of the run. The moment
of a fault is drawn as a position between two events of the job, so the same draw hits about the
same phase on a slower machine.
"""

import random
import re
import signal
import time
from dataclasses import dataclass, field

from hosts import LINK_FAULTS
from job import signal_process

CRASHES = ("KILL", "SEGV", "ABRT")
EXIT_SAVED = 75
EXIT_TIMEOUT = 70


@dataclass(frozen=True)
class Draw:
    """What one run does. `early`: the fault is placed before the training starts; `position` is its
    place, from 0 to 1, between the start of the first rank and the training, or between the start
    of the training and the end of the job.
    """

    kind: str
    index: int
    ranks: int
    hosts: int
    victim: int
    early: bool
    position: float
    action: str
    fault: str = ""

    def text(self):
        if self.fault:
            return f"--inject {self.fault}, {self.ranks} ranks, {self.hosts} hosts"
        place = "one host" if self.hosts == 1 else f"{self.hosts} hosts"
        when = "start" if self.early else "training"
        return (
            f"{self.action}, rank {self.victim} of {self.ranks}, {place}, {when} at"
            f" {self.position:.3f}"
        )


@dataclass
class Outcome:
    """What has happened. `seconds`: from the fault to the end of the job; None if it was not over
    in time. `failures`: one line per check that failed, {name of the check: line}. `checked`: the
    names of all checks that were made.
    """

    draw: Draw
    phase: str = ""
    seconds: float = None
    status: int = None
    checked: set = field(default_factory=set)
    failures: dict = field(default_factory=dict)
    tolerated: tuple = ()

    @property
    def has_failed(self):
        """Whether a check has failed that is not tolerated."""
        return bool(set(self.failures) - set(self.tolerated))

    def check(self, name, holds, text=""):
        self.checked.add(name)
        if not holds:
            self.failures[name] = text


class Kind:
    """A kind of fault. `limit`: seconds from the fault to the end of the job. `watchdog`: limit of
    the watchdog in seconds; `ends_by_watchdog`: the watchdog ends the job. `resume_every`: the same
    command is resumed after every such run, and the results are compared."""

    name, summary = "", ""
    actions = ("",)
    hosts = (1, 2)
    limit = 10
    watchdog = 60
    ends_by_watchdog = False
    resume_every = 10
    early_share = 0.25
    tolerated = ()  # checks whose failures are counted but do not make the run fail

    def draw(self, seed, index, hosts, rank_counts):
        """Returns the draw of a run; `hosts` and `rank_counts` are the permitted numbers of hosts
        and of ranks."""
        source = random.Random(f"{seed}/{self.name}/{index}")
        ranks = source.choice(rank_counts)
        count = source.choice(self.hosts)
        return Draw(
            self.name,
            index,
            ranks,
            count if count in hosts else hosts[0],
            source.randrange(ranks),
            source.random() < self.early_share,
            source.random(),
            source.choice(self.actions),
        )

    def limit_of(self, draw):
        """Returns the seconds from the fault to the end of the job."""
        return self.limit

    def wait_for_moment(self, draw, job):
        """Waits until the moment of the fault if the kind defines it; None otherwise."""
        return None

    def options(self, draw):
        """Returns further options of the training."""
        return []

    def strike(self, draw, job, hosts):
        """Causes the fault; returns False if it was too late for it."""
        pid = job.ranks().get(draw.victim)
        return pid is not None and self.strike_process(draw, job, pid)

    def add_checks(self, draw, job, outcome, run):
        """Adds the checks of this kind to the outcome of a job that is over."""


def is_before_queries(stderr):
    """Returns whether a timeout is before the communicators exist, where no rank can ask the
    others."""
    return (
        re.search(r"watchdog timeout: .*\bduring (MPI_Init|creating communicators)", stderr)
        is not None
    )


def names_rank(stderr, rank):
    """Returns whether a watchdog line names the rank as the cause of the timeout."""
    return re.search(rf"watchdog timeout: .*; .*\brank {rank} on", stderr) is not None


class Kills(Kind):
    name = "kills"
    summary = "SIGKILL, SIGSEGV or SIGABRT to a random rank at a random time"
    actions = CRASHES

    def strike_process(self, draw, job, pid):
        return signal_process(pid, getattr(signal, f"SIG{draw.action}"))

    def add_checks(self, draw, job, outcome, run):
        outcome.check(
            "status",
            outcome.status != 0 or outcome.phase == "end",
            f"the status is {outcome.status}",
        )


class Stalls(Kind):
    name = "stalls"
    summary = "SIGSTOP to a random rank at a random time"
    actions = ("STOP",)
    ends_by_watchdog = True

    def strike_process(self, draw, job, pid):
        return signal_process(pid, signal.SIGSTOP)

    def add_checks(self, draw, job, outcome, run):
        lines = [line for line in job.stderr().splitlines() if "watchdog timeout" in line]
        outcome.check("status", outcome.status == EXIT_TIMEOUT, f"the status is {outcome.status}")
        outcome.check("message", len(lines) > 0, "no line reports a watchdog timeout")
        found = is_before_queries(job.stderr()) or names_rank(job.stderr(), draw.victim)
        outcome.check("rank named", found, "; ".join(lines))


class Network(Kind):
    name = "network"
    summary = "a link between two emulated hosts is lost (interface down, switch port down, rate 0)"
    actions = LINK_FAULTS
    hosts = (2,)
    ends_by_watchdog = True
    # The daemons of mpirun do not notice a lost link while data are unacknowledged, and a daemon
    # that has lost mpirun may end without removing its files (docs/reliability.md).
    tolerated = ("launcher over", "nothing of MPI left")

    def strike(self, draw, job, hosts):
        hosts.cut(1 + draw.victim % 2, draw.action)
        return True

    def add_checks(self, draw, job, outcome, run):
        outcome.check("status", outcome.status not in (0, None), f"the status is {outcome.status}")


class Resumes(Kind):
    name = "resumes"
    summary = (
        "SIGTERM to a random rank at a random time; the same command resumes, and all results are"
        " compared"
    )
    actions = ("TERM",)
    limit = 300
    resume_every = 1
    early_share = 0

    def strike_process(self, draw, job, pid):
        return signal_process(pid, signal.SIGTERM)

    def add_checks(self, draw, job, outcome, run):
        # The handler is removed after the results have been written; the signal then ends the rank.
        permitted = (0, EXIT_SAVED, 128 + signal.SIGTERM) if run.is_complete() else (EXIT_SAVED,)
        outcome.check("status", outcome.status in permitted, f"the status is {outcome.status}")


class Slow(Kind):
    name = "slow"
    summary = (
        "SIGSTOP to a random rank and SIGCONT after less than half of the watchdog's limit: no"
        " false alarm"
    )
    actions = ("STOP and CONT",)
    limit = 300
    resume_every = 0

    def strike_process(self, draw, job, pid):
        if not signal_process(pid, signal.SIGSTOP):
            return False
        time.sleep(self.watchdog / 2 * random.Random(draw.position).random())
        return signal_process(pid, signal.SIGCONT)

    def add_checks(self, draw, job, outcome, run):
        outcome.check("status", outcome.status == 0, f"the status is {outcome.status}")
        outcome.check(
            "results",
            run.final_is_equal(),
            "the final checkpoint differs from that of the uninterrupted run",
        )


def set_limits(watchdog, patience):
    """Sets the limit of the watchdog in seconds for the kinds in which it matters, and a factor for
    all limits."""
    for kind in KINDS.values():
        if kind.ends_by_watchdog or kind.name == "slow":
            kind.watchdog = watchdog
        if kind.ends_by_watchdog:
            kind.limit = watchdog + 5
        kind.limit *= patience


KINDS = {kind.name: kind for kind in (Kills(), Stalls(), Network(), Resumes(), Slow())}
