# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of faults that `lockstep_with_faults` causes in itself
(`--inject=KIND:RANK:STEP[:PHASE]`)."""

import random
import re
from dataclasses import replace

from kinds import EXIT_TIMEOUT, KINDS, Kind, is_before_queries, names_rank

INJECTED = "injects the fault"
EXIT_DIVERGED = 5
CRASHES = ("kill", "segv", "abort", "exit", "throw", "oom")
HANGS = ("stop", "stall", "finish", "skip")
BEFORE = ("init", "start", "data", "planning")
STEP_PHASES = ("data_wait", "upload", "forward", "backward", "exposed_communication", "update")
# Of an epoch or of the run; a later one follows each of the first steps.
LATER = (
    "gathering",
    "evaluation",
    "end",
)


class Injected(Kind):
    """The moment of the fault is that of the line with which the program announces it."""

    ends_by_watchdog = True
    resume_every = 20

    def draw(self, seed, index, hosts, rank_counts):
        drawn = super().draw(seed, index, hosts, rank_counts)
        source = random.Random(f"{seed}/{self.name}/{index}/fault")
        return replace(drawn, fault=self.fault(source, drawn.action, drawn.victim))

    def fault(self, source, action, victim):
        """Returns the value of --inject."""
        if action in ("flip", "nan", "skip"):
            return f"{action}:{victim}:{source.randint(1, 3)}"
        # At the end, "finish" is what the rank does anyway.
        later = LATER[:-1] if action == "finish" else LATER
        phase = source.choice(BEFORE + 2 * STEP_PHASES + later)
        step = 0
        if phase not in BEFORE:
            step = source.randint(1, 5 if phase in STEP_PHASES else 2)
        return f"{action}:{victim}:{step}:{phase}"

    def options(self, draw):
        return [f"--inject={draw.fault}"]

    def wait_for_moment(self, draw, job):
        return (
            bool(job.wait_for(lambda: INJECTED in job.stderr(), interval=0.01))
            or INJECTED in job.stderr()
        )

    def strike(self, draw, job, hosts):
        return True  # the program has done it


class Inject(Injected):
    name = "inject"
    summary = "a fault of --inject (crashes, hangs, NaN) in a random rank, step and phase"
    actions = (*CRASHES, *HANGS, "nan")

    def limit_of(self, draw):
        return self.limit if draw.action in HANGS else KINDS["kills"].limit

    def add_checks(self, draw, job, outcome, run):
        status = outcome.status
        if draw.action in HANGS:
            outcome.check("status", status == EXIT_TIMEOUT, f"the status is {status}")
            # If all ranks are in the same activity, none of them stands out unless it does not
            # answer.
            if (
                draw.action == "stop"
                and ":init" not in draw.fault
                or draw.fault.split(":")[-1] not in BEFORE
            ):
                found = is_before_queries(job.stderr()) or names_rank(job.stderr(), draw.victim)
                outcome.check("rank named", found, job.stderr()[-600:])
        elif draw.action == "nan":
            outcome.check("status", status == EXIT_DIVERGED, f"the status is {status}")
            outcome.check("rank named", f"rank {draw.victim}" in job.stderr(), job.stderr()[-400:])
        else:
            outcome.check("status", status != 0, "the status is 0")


class Flips(Injected):
    name = "flips"
    summary = (
        "one flipped bit of a parameter in a random rank and step: found at the next comparison of"
        " the replicas"
    )
    actions = ("flip",)
    limit = 300
    ends_by_watchdog = False
    resume_every = 0

    def add_checks(self, draw, job, outcome, run):
        lines = [line for line in job.stderr().splitlines() if "the parameters of" in line]
        outcome.check(
            "found", outcome.status not in (0, None) and lines, f"status {outcome.status}"
        )
        # With two ranks, no majority shows which one is wrong: both are named.
        others = r"rank \d+" if draw.ranks == 2 else rf"rank {draw.victim}\b"
        outcome.check(
            "rank named",
            any(re.search(rf"the parameters of {others}.* differ", line) for line in lines),
            "; ".join(lines),
        )


KINDS.update({kind.name: kind for kind in (Inject(), Flips())})
