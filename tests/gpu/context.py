"""State that all parts of a call share: programs, folders and time limits."""

import pathlib
import shutil
from dataclasses import dataclass, field

import environment
import gpus
from measures import Unreadable, read_run
from results import Results
from running import Outcome

OUT_OF_MEMORY = 4  # docs/exit-status.md
LOSS_SCALE = "1024"  # of fp16 here and in pytorch_gpu.py: constant, so that no step is skipped
SHORTEST_RUN = 0.3  # seconds; a command that could run only this long is not started
BATCH = 512  # of the first measurements


@dataclass
class Programs:
    """The command, as a list of words, that starts each program. With stubs, all start stub.py."""

    lockstep: list
    torch: list
    torch_features: list
    mpirun: list
    nvidia_smi: list
    sanitizer: list | None
    tests: list


@dataclass
class Context:
    """Arguments and state of one call of the acceptance test."""

    args: object
    runner: object
    clock: object
    programs: Programs
    results: Results
    work: pathlib.Path  # working folder; its contents do not come back
    variables: dict  # environment variables of the programs under test
    folder: pathlib.Path = None  # folder of the current part; its contents come back
    gpu: object = gpus.OTHER  # kind of the device
    head_rows: list = field(default_factory=list)  # device and versions, for the report
    diagnosed: dict = field(default_factory=dict)  # conclusions of automatic reruns, by configuration
    references: dict = field(default_factory=dict)  # losses of small runs on the CPU, by batch
    pytorch_problem: str | None = None  # reason why PyTorch cannot be used; None: not known yet
    whole: float = 0.0  # deadline of the step while only a share of its time may be used
    shortest_limit: float = 0.0  # with stubs, the time limit of every command

    def begin_part(self, number):
        """Starts a part: its folder and the record of the cache."""
        self.folder = self.work / f"part-{number}"
        self.runner.begin_part(self.folder)
        self.results.begin_part()

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
        return self.results.cache

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
        """Returns the command that starts a program under test with its environment variables. A
        value of None removes a variable."""
        # Runs with quick engines leave the cache of the selected engines as it is.
        cache = self.scratch("quick-cache") if "quick" in words else str(self.cache)
        pairs = self.variables | {"LOCKSTEP_CACHE_DIR": cache} | variables
        assignments = [f"{name}={value}" for name, value in pairs.items() if value is not None]
        return ["env", *assignments, *map(str, words)]

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
        outcome = self.runner.run(name, command, max(min(own, left), 0.1))
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

    def train_arguments(self, name, precision, *arguments, engines="timed", fusion="auto"):
        """Returns the arguments of `lockstep train` on the GPU with the run file `name`.h5."""
        return ["train", "--device", "cuda", "--precision", precision, "--engines", engines,
                "--bn-fusion", fusion, *map(str, arguments), "--seed", str(self.args.seed),
                "--output", self.path(f"{name}.h5"), "--overwrite", "--json", "--quiet"]

    def run_training(self, report, name, arguments, limit, prefix=(), accepted=(), **variables):
        """Runs `lockstep train` and returns (outcome, run, has_failed). If the run is not valid, `run`
        is None and `report` has recorded the reason, unless `accepted` has the exit status.
        `has_failed`: reruns can find the cause."""
        output = pathlib.Path(arguments[arguments.index("--output") + 1])
        # The file of an earlier run must not be read as the result of this run.
        output.unlink(missing_ok=True)
        outcome = self.run(name, self.lockstep(*arguments, prefix=prefix, **variables), limit)
        if outcome.status in accepted:
            return outcome, None, False
        if not outcome.ok:
            return outcome, None, report.add_outcome(outcome)
        failure, run = "", None
        try:
            run = read_run(output)
            if run.status != "complete":
                failure = f"the status in the run file is {run.status}"
            elif not run.is_finite:
                failure = "a loss is not finite, or the run file has no losses"
        except Unreadable as error:
            failure = str(error)
        report.check(not failure, f"{name}: {failure}")
        return outcome, None if failure else run, bool(failure)

    def begin_share(self, count):
        """Limits the following measurements to 1/count of the time that the step has left."""
        self.whole = self.clock.deadline
        self.clock.deadline = self.whole - self.clock.left * (1 - 1 / count)

    def end_share(self):
        """Ends `begin_share`. The deadline may have moved because of reruns."""
        self.clock.deadline = max(self.whole, self.clock.deadline)

    def core_dump(self):
        """Variables of commands whose speed is not measured; see environment.core_dump."""
        return environment.core_dump(self.folder)
