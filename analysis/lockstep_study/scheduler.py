# SPDX-License-Identifier: BSD-3-Clause
"""What a study needs from a batch system. `slurm.py` implements it; a file beside it could do so
for PBS."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Optional

from lockstep_study.errors import StudyError


class QueueError(StudyError):
    """The queue cannot be read."""


@dataclass
class Array:
    """Tasks with the same resources. `indices`: such as 1-3,7; `nodes` and `per_node`: how the
    ranks are distributed; `threads`: processors per rank; `arguments`: of the script."""

    ranks: int
    threads: int
    nodes: int
    indices: str
    arguments: list = field(default_factory=list)

    @property
    def per_node(self):
        return -(-self.ranks // self.nodes)


@dataclass
class Job:
    """A job, or task of an array, in the queue. `task`: its index in the array; `state`: PENDING,
    HELD, SUSPENDED, or another one of a job that runs; `reason`: why it waits."""

    identifier: str
    name: str
    state: str
    task: str = ""
    reason: str = ""


@dataclass
class Usage:
    """What the accounting knows about a job. Seconds and bytes; None if it does not know them."""

    state: str = ""
    elapsed: Optional[int] = None
    memory: Optional[int] = None


class Scheduler(ABC):
    """A batch system, for the jobs of one study."""

    @abstractmethod
    def array_command(self, array):
        """Returns the command that submits an array."""

    @abstractmethod
    def report_command(self, after, arguments):
        """Returns the command that submits the report, which starts when the jobs `after` end."""

    @abstractmethod
    def job_of(self, answer):
        """Returns the id of the job in the answer of such a command, or an empty text."""

    @abstractmethod
    def queue(self):
        """Returns the jobs in the queue, those of arrays one by one. Raises StudyError if the
        queue cannot be read."""

    @abstractmethod
    def largest_index(self):
        """Returns the largest index of an array, or None if there is no limit."""

    @abstractmethod
    def usage(self, identifiers):
        """Returns {id: Usage} of jobs, without those that the accounting does not know."""

    @abstractmethod
    def state(self, identifier):
        """Returns the state of a job, RUNNING if it was neither cancelled nor requeued."""

    @abstractmethod
    def requeue(self, identifier):
        """Starts an interrupted job again. Raises StudyError with the reason if it does not."""
