"""State that all parts of the acceptance test share: programs, folders and time limits."""

import pathlib
import time
from dataclasses import dataclass, field

from measures import Unreadable, read_run

RESERVE_SECONDS = 8.0  # reserved for ending programs and writing the report


class Clock:
    """Divides the time of the test among the parts, in proportion to their shares. A part may use the time that earlier
    parts did not use, but not the time of later parts."""

    def __init__(self, minutes, shares):
        self.began = time.monotonic()
        total, cumulative = sum(shares.values()), 0.0
        self.deadlines = {}
        for part, share in shares.items():
            cumulative += share
            self.deadlines[part] = self.began + (minutes * 60 - RESERVE_SECONDS) * cumulative / total
        self.deadline = self.began + minutes * 60

    def begin(self, part):
        """Starts a part: sets the deadline to its end."""
        self.deadline = self.deadlines[part]

    @property
    def left(self):
        """Seconds until the deadline of the current part."""
        return self.deadline - time.monotonic()

    @property
    def seconds(self):
        """Seconds since the start of the test."""
        return time.monotonic() - self.began

    def limit(self, seconds):
        """Returns `seconds`, or the time that the current part has left if it is shorter."""
        return max(min(seconds, self.left), 0.1)


@dataclass
class Programs:
    """The command, as a list of words, that starts each program. In a dry run, all commands start stub.py."""

    lockstep: list
    torch: list
    mpirun: list
    nvidia_smi: list
    sanitizer: list | None
    tests: list


@dataclass
class Context:
    """Arguments and state of one acceptance test."""

    args: object
    runner: object
    clock: Clock
    programs: Programs
    folder: pathlib.Path
    lockstep_arguments: list = field(default_factory=list)  # argument list of every lockstep command
    background: dict = field(default_factory=dict)  # PyTorch processes by name
    numbers: dict = field(default_factory=dict)  # raw results for acceptance.json

    @property
    def data(self):
        """The value of --data for CIFAR-10."""
        return f"cifar10:{self.args.data}"

    def path(self, name):
        """Returns the path of a file in the folder of run files."""
        return str(self.folder / "runs" / name)

    def lockstep(self, *arguments):
        """Returns the command line of lockstep and records the arguments, which a dry run checks against --help."""
        words = [str(argument) for argument in arguments]
        self.lockstep_arguments.append(words)
        return [*self.programs.lockstep, *words]

    def torch(self, *arguments):
        """Returns the command line of pytorch_gpu.py."""
        return [*self.programs.torch, *(str(argument) for argument in arguments)]

    def train_arguments(self, output, precision, *arguments):
        """Returns the arguments of a `lockstep train` run on the GPU that writes the run file `output`."""
        return ["train", "--device", "cuda", "--precision", precision, *arguments,
                "--seed", self.args.seed, "--output", output, "--overwrite", "--json", "--quiet"]

    def run_training(self, report, name, arguments, limit, prefix=()):
        """Runs `lockstep train` and returns (outcome, run). If the run is not valid, `run` is None and `report` has
        recorded the failure."""
        output = arguments[arguments.index("--output") + 1]
        # The file of an earlier run must not be read as the result of this run.
        pathlib.Path(output).unlink(missing_ok=True)
        command = [*prefix, *self.lockstep(*arguments)]
        outcome = self.runner.run(name, command, self.clock.limit(limit))
        if not outcome.ok:
            report.fail_outcome(outcome)
            return outcome, None
        try:
            run = read_run(output)
        except Unreadable as error:
            report.fail(f"{name}: {error}", outcome.tail)
            return outcome, None
        if not report.check(run.status == "complete", f"{name}: the status in the run file is {run.status}"):
            return outcome, None
        if not report.check(run.is_finite, f"{name}: a loss is not finite, or the run file has no losses"):
            return outcome, None
        return outcome, run
