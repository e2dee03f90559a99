# SPDX-License-Identifier: BSD-3-Clause
"""State that all parts of a call share: programs, folders and time limits."""

import pathlib
import shutil
from dataclasses import dataclass, field

import environment
from measures import Run, Unreadable, read_run
from running import Outcome

OUT_OF_MEMORY = 4  # docs/reliability.md
LOSS_SCALE = "1024"  # of fp16 here and in pytorch_gpu.py: constant, so that no step is skipped
SEED = "1"
LOADER_THREADS = "8"
SHORTEST_RUN = 0.3  # seconds; a command that could run only this long is not started
BATCH = 512  # of the first measurements


@dataclass
class Programs:
    """The command, as a list of words, that starts each program. With stubs, all start stub.py.
    `shell` starts the programs under test: it sets their environment. Empty: not needed."""

    lockstep: list
    torch: list
    torch_features: list
    mpirun: list
    nvidia_smi: list
    sanitizer: list | None
    tests: list | None
    shell: list = field(default_factory=list)


@dataclass
class Training:
    """Result of `lockstep train`: `run` is None if it failed, and `reason` states why."""

    outcome: Outcome
    run: Run | None
    reason: str

    @property
    def can_be_rerun(self):
        """Whether the run failed and reruns can find the cause."""
        return self.run is None and self.outcome.can_be_rerun


@dataclass
class Context:
    """Arguments and state of one call of the acceptance test."""

    args: object
    runner: object
    clock: object
    programs: Programs
    work: pathlib.Path  # working folder
    folder: pathlib.Path = None  # folder of the current part; its contents come back
    properties: list = field(default_factory=list)  # device and versions, for the report
    diagnosed: dict = field(default_factory=dict)  # conclusions of automatic reruns, by configuration
    references: dict = field(default_factory=dict)  # losses of small runs, by batch
    pytorch_problem: str | None = None  # reason why PyTorch cannot be used; None: not known yet
    shortest_limit: float = 0.0  # with stubs, the time limit of every command

    def begin_part(self, number):
        """Starts a part: creates its folder."""
        self.folder = self.work / f"part-{number}"
        self.runner.begin_part(self.folder)

    def path(self, name):
        """Returns the path of a result file; its name has no spaces."""
        return str(self.folder / name.replace(" ", "-"))

    def scratch(self, name):
        """Returns the path of a file that does not come back, because it is large."""
        folder = self.work / "scratch"
        folder.mkdir(exist_ok=True)
        return str(folder / name)

    @property
    def cache(self):
        """Folder of the engines that were selected while no other program used the GPU."""
        return self.work / "cache"

    def cache_copy(self):
        """Returns the variable that selects a copy of the cache, for runs that would otherwise add
        engines that were timed while the GPU was busy or slowed down."""
        copy = self.scratch("cache-copy")
        shutil.copytree(self.cache, copy, dirs_exist_ok=True)
        return {"LOCKSTEP_CACHE_DIR": copy}

    @property
    def data(self):
        """The value of --data for CIFAR-10."""
        return f"cifar10:{self.args.data}"

    def program(self, words, **variables):
        """Returns the command that starts a program under test with its environment variables."""
        # Runs with quick engines leave the cache of the selected engines as it is.
        cache = self.scratch("quick-cache") if "quick" in words else str(self.cache)
        pairs = environment.OPEN_MPI | {"LOCKSTEP_CACHE_DIR": cache} | variables
        assignments = [f"{name}={value}" for name, value in pairs.items()]
        return [*self.programs.shell, "env", *assignments, *map(str, words)]

    def lockstep(self, *arguments, prefix=(), **variables):
        """Returns the command line of lockstep; `prefix` starts it (mpirun, compute-sanitizer)."""
        return self.program([*prefix, *self.programs.lockstep, *arguments], **variables)

    def limited(self, seconds):
        """Returns a time limit; with stubs, which answer at once, a short one."""
        return min(seconds, self.shortest_limit) if self.shortest_limit else seconds

    def run(self, name, command, limit):
        """Runs a command for at most `limit` seconds, and not longer than the step lasts."""
        own, left = self.limited(limit), self.clock.left
        if left < SHORTEST_RUN:
            outcome = Outcome(name, command, None, 0.0, timed_out=True, is_cut_off=True)
            self.runner.outcomes.append(outcome)
            return outcome
        outcome = self.runner.run(name, command, min(own, left))
        outcome.is_cut_off = outcome.timed_out and left < own
        return outcome

    def has_time(self, report, name, seconds):
        """Returns whether the step has `seconds` left; otherwise reports `name` as not run."""
        if self.shortest_limit:
            seconds *= 0.01
        if self.clock.left < seconds:
            report.not_run(name, f"{self.clock.left:.0f} s were left")
            return False
        return True

    def train_arguments(self, name, precision, *arguments, engines="timed", fusion="auto",
                        evaluate="never"):
        """Returns the arguments of `lockstep train` on the GPU with the run file `name`.h5."""
        return ["train", "--device", "cuda", "--precision", precision, "--engines", engines,
                "--bn-fusion", fusion, *map(str, arguments), "--seed", SEED, "--evaluate-every",
                evaluate, "--output", self.path(f"{name}.h5"), "--overwrite", "--json", "--quiet"]

    def train(self, name, arguments, limit, prefix=(), **variables):
        """Runs `lockstep train` and returns its Training."""
        outcome = self.run(name, self.lockstep(*arguments, prefix=prefix, **variables), limit)
        reason, run = "" if outcome.ok else outcome.reason, None
        try:
            run = read_run(arguments[arguments.index("--output") + 1])
        except Unreadable as error:
            reason = reason or str(error)
        if outcome.timed_out and run is not None:
            reason += "; the run file is complete, so the program hung at its end"
        return Training(outcome, None if reason else run, reason)

    def checked_training(self, report, name, arguments, limit, prefix=(), **variables):
        """Runs `lockstep train`, records in `report` whether it succeeded, and returns its Training."""
        training = self.train(name, arguments, limit, prefix, **variables)
        if training.outcome.is_cut_off:
            report.not_run(name, training.reason)
        elif not report.check(training.run is not None, f"{name}: {training.reason}"):
            report.add_output(training.outcome.tail)
        return training

    def core_dump(self):
        """Variables of commands whose speed is not measured; see environment.core_dump."""
        return environment.core_dump(self.folder)
