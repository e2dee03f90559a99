"""State shared by all parts of the acceptance run: programs, folders and the clock."""

import pathlib
import time
from dataclasses import dataclass, field

from measures import Unreadable, read_run

RESERVE_SECONDS = 8.0  # to end running programs and to write the report


class Clock:
    """Divides the time of the run among the parts. A part may use time that earlier parts left, but not the time of
    later parts."""

    def __init__(self, minutes, shares):
        self.began = time.monotonic()
        total, passed = sum(shares.values()), 0.0
        self.deadlines = {}
        for part, share in shares.items():
            passed += share
            self.deadlines[part] = self.began + (minutes * 60 - RESERVE_SECONDS) * passed / total
        self.deadline = self.began + minutes * 60

    def begin(self, part):
        self.deadline = self.deadlines[part]

    @property
    def left(self):
        """Seconds until the deadline of the current part."""
        return self.deadline - time.monotonic()

    @property
    def seconds(self):
        return time.monotonic() - self.began

    def limit(self, seconds):
        return max(min(seconds, self.left), 0.1)


@dataclass
class Programs:
    """The first words of the command line of each program. In a dry run they start stand_in.py (dry.stand_ins)."""

    lockstep: list
    torch: list
    mpirun: list
    nvidia_smi: list
    sanitizer: list | None
    tests: list


@dataclass
class Context:
    args: object
    runner: object
    clock: Clock
    programs: Programs
    folder: pathlib.Path
    asked: list = field(default_factory=list)  # arguments of every lockstep command
    background: dict = field(default_factory=dict)  # processes of PyTorch, by name
    numbers: dict = field(default_factory=dict)  # raw results, for acceptance.json

    @property
    def data(self):
        return f"cifar10:{self.args.data}"

    def path(self, name):
        return str(self.folder / "runs" / name)

    def lockstep(self, *arguments):
        """Returns the command line of lockstep with these arguments and records them for the check of options."""
        words = [str(argument) for argument in arguments]
        self.asked.append(words)
        return [*self.programs.lockstep, *words]

    def torch(self, *arguments):
        return [*self.programs.torch, *(str(argument) for argument in arguments)]

    def train_arguments(self, output, precision, *arguments):
        return ["train", "--device", "cuda", "--precision", precision, *arguments,
                "--seed", self.args.seed, "--output", output, "--overwrite", "--json", "--quiet"]

    def run_training(self, report, name, arguments, limit, prefix=(), environment=None):
        """Runs `lockstep train`; returns (outcome, run). Without a valid run, `run` is None and `report` has failed."""
        output = arguments[arguments.index("--output") + 1]
        # A file of an earlier attempt must not be read as the result of this one.
        pathlib.Path(output).unlink(missing_ok=True)
        command = [*prefix, *self.lockstep(*arguments)]
        outcome = self.runner.run(name, command, self.clock.limit(limit), environment)
        if not outcome.ok:
            report.fail_outcome(outcome)
            return outcome, None
        try:
            run = read_run(output)
        except Unreadable as error:
            report.fail(f"{name}: {error}", outcome.tail)
            return outcome, None
        if not report.check(run.status == "complete", f"{name}: the run file says {run.status}"):
            return outcome, None
        if not report.check(run.is_finite, f"{name}: a loss is not finite, or there is none"):
            return outcome, None
        return outcome, run
