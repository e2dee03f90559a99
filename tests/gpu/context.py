"""What all parts of the acceptance run share: programs, folders, the clock."""

import pathlib
import time
from dataclasses import dataclass, field

from measures import Unreadable, read_run

RESERVE_SECONDS = 8.0  # to end what runs and to write the page


class Clock:
    """Shares the run's time among the parts. A part may use what earlier ones left, never what later ones need."""

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
        """Seconds until the part that runs has to be done."""
        return self.deadline - time.monotonic()

    @property
    def seconds(self):
        return time.monotonic() - self.began

    def limit(self, seconds):
        return max(min(seconds, self.left), 0.1)


@dataclass
class Programs:
    """How each program is started: words. `stand_in`: what takes its place in a dry run."""

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
    asked: list = field(default_factory=list)  # arguments of every call of lockstep
    background: dict = field(default_factory=dict)  # of PyTorch, by name
    numbers: dict = field(default_factory=dict)  # raw results, for acceptance.json

    @property
    def data(self):
        return f"cifar10:{self.args.data}"

    def path(self, name):
        return str(self.folder / "runs" / name)

    def lockstep(self, *arguments):
        """The command line of a call of lockstep; remembered, so that its options can be checked."""
        words = [str(argument) for argument in arguments]
        self.asked.append(words)
        return [*self.programs.lockstep, *words]

    def torch(self, *arguments):
        return [*self.programs.torch, *(str(argument) for argument in arguments)]

    def train_arguments(self, output, precision, *arguments):
        return ["train", "--device", "cuda", "--precision", precision, *arguments,
                "--seed", self.args.seed, "--output", output, "--overwrite", "--json", "--quiet"]

    def run_training(self, report, name, arguments, limit, prefix=(), environment=None):
        """Run `lockstep train`; returns (outcome, run) with run None, and the report failed, where there is none."""
        output = arguments[arguments.index("--output") + 1]
        # A file of an earlier try must not pass for this one's.
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
