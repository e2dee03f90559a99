# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs within the time of a step, and ends them with all their processes."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

PYTORCH = pathlib.Path(__file__).resolve().parent.parent / "bench" / "pytorch_gpu.py"
# Open MPI refuses to start as root without the first two variables.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
SEED, LOSS_SCALE = "1", "1024"  # constant, here and in pytorch_gpu.py, so that no step is skipped
SHORTEST_LIMIT = 1.0  # seconds; a program that could run only this long is not started
# Of Lockstep's message if the kernel of a cuDNN engine fails; its name is stored before.
LEFT_OUT = "it is left out from now on, start again"
HANGS = "dry run: hangs"  # output of a stub that would reach any time limit
GRACE_SECONDS = 4.0  # time between SIGTERM and SIGKILL, in which mpirun ends its ranks


@dataclass
class Outcome:
    """Result of a program. `status` is None if the program did not end within its time limit or
    could not be started. `is_cut_off`: the time of the step ended before the time limit of the
    program.
    """

    name: str
    command: list
    status: int | None = None
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    is_cut_off: bool = False

    @property
    def reason(self):
        """One line that states how the program failed."""
        if self.timed_out:
            end = ", when the time of the step ended" if self.is_cut_off else ""
            return f"did not end within {self.seconds:.0f} s{end}"
        # The message of Lockstep or GoogleTest; mpirun prints lines after it.
        found = re.search(
            r"^lockstep: (?!warning:).*|(?<=: Failure\n).*\n.*",
            self.stderr + self.stdout,
            re.MULTILINE,
        )
        cause = found[0].replace("\n", ": ")[:300] if found else last_lines(self.stderr, 1)
        return cause if self.status is None else f"exit status {self.status}; {cause}"


def last_lines(text, count=12, width=300):
    """Returns the last `count` non-empty lines of `text`, each cut to `width` characters."""
    lines = [line[:width] for line in text.strip().splitlines() if line.strip()]
    return "\n".join(lines[-count:])


def processes_of(session):
    """Returns the process ids of the processes of a session that are not zombies. The ranks of
    mpirun have process groups of their own, but its session."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            values = path.read_text().rsplit(")", 1)[1].split()
            state, its_session = values[0], values[3]
        except (OSError, ValueError, IndexError):  # the process has ended
            continue
        if int(its_session) == session and state not in "ZX":
            found.append(int(path.parent.name))
    return found


class Call:
    """One call of the acceptance test."""

    def __init__(self, args):
        self.args, self.began = args, time.monotonic()
        self.end = self.deadline = self.began + args.seconds
        self.process = None  # of the program that runs
        self.result = None  # Result of the current step
        self.folder = None  # of the current step; its files are results
        self.scratch = args.work / "scratch"  # folder of other files
        self.cache = args.work / "cache"  # folder of the engines that were selected by timing
        self.properties = []  # of machine and versions, as pairs
        self.pytorch_problem = None  # reason why PyTorch cannot be used
        self.selected = {}  # {(precision, batch): why the selection of engines failed, or ""}
        self.rates = {}  # {(batch, configuration): median images/s}
        self.environment = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(args.work / "inductor"),
        }
        for folder in (self.scratch, self.cache):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def left(self):
        """Seconds until the end of the current step."""
        return self.deadline - time.monotonic()

    def begin(self, result, seconds, later):
        """Starts a step that has `seconds`. `later`: seconds of all later steps. Returns whether
        enough of the call is left. Steps are in the order of their importance: a step also has the
        time that earlier ones did not use, and if earlier ones need more, the last steps are not
        run."""
        self.result = result
        self.deadline = min(self.end, max(time.monotonic() + seconds, self.end - later))
        self.folder = self.args.work / "logs" / result.name.replace(" ", "-")
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.left >= (SHORTEST_LIMIT if self.args.stub else 0.3 * seconds)

    def path(self, name):
        """Returns the path of a file of the current step; its name has no spaces."""
        return str(self.folder / name.replace(" ", "-").replace("/", "-"))

    def lockstep(self, *arguments, ranks=1):
        """Returns the words that start lockstep, with mpirun if there are several ranks."""
        start = [*shlex.split(self.args.mpirun), "-n", ranks] if ranks > 1 else []
        return [*start, self.args.lockstep, *arguments]

    def train(self, precision, *options, engines="timed", evaluate="never", ranks=1):
        """Returns the words of `lockstep train` on the GPU. "{run}" stands for the name of the
        run."""
        scale = ["--loss-scale", LOSS_SCALE] if precision == "fp16" else []
        return self.lockstep(
            "train",
            "--device",
            "cuda",
            "--precision",
            precision,
            "--engines",
            engines,
            *scale,
            *options,
            "--seed",
            SEED,
            "--evaluate-every",
            evaluate,
            "--output",
            self.path("{run}.h5"),
            "--overwrite",
            "--json",
            "--quiet",
            ranks=ranks,
        )

    def small_run(self, precision, *options, batch=32, engines="quick"):
        """Returns the words of three steps on synthetic images. Initial weights, image order and
        images are the same on every device."""
        return self.train(
            precision,
            "--data",
            f"synthetic:{3 * batch}",
            "--batch-per-rank",
            batch,
            "--steps",
            3,
            "--augment",
            "none",
            "--lr",
            "0.001",
            *options,
            engines=engines,
        )

    def pytorch(self, *arguments):
        """Returns the words that start pytorch_gpu.py."""
        own = [self.args.pytorch] if self.args.pytorch else [sys.executable, PYTORCH]
        return [*own, *arguments]

    def with_environment(self, words, **variables):
        """Returns the command that starts a program of Lockstep with its environment variables."""
        # Runs with quick engines leave the cache of the selected engines as it is.
        cache = self.scratch / "quick-cache" if "quick" in words else self.cache
        pairs = OPEN_MPI | {"LOCKSTEP_CACHE_DIR": cache} | variables
        assignments = [f"{name}={value}" for name, value in pairs.items()]
        return [*self.args.shell, "env", *assignments, *words]

    def run(self, name, command, limit):
        """Runs a program for at most `limit` seconds, and not longer than the step. Its output is
        stored in two files of the step. Returns its Outcome."""
        command = [str(word).replace("{run}", name.replace(" ", "-")) for word in command]
        left = self.left
        outcome, began = Outcome(name, command), time.monotonic()
        self.result.outcomes.append(outcome)
        if left < SHORTEST_LIMIT:
            outcome.timed_out = outcome.is_cut_off = True
            return outcome
        out, err = (pathlib.Path(self.path(f"{name}.{suffix}")) for suffix in ("out", "err"))
        try:
            with out.open("w") as stdout, err.open("w") as stderr:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=self.environment,
                    start_new_session=True,
                )
            outcome.status = self.wait(min(limit, left), out)
        except OSError as error:
            err.write_text(f"{command[0]} cannot be started: {error.strerror}\n")
        except subprocess.TimeoutExpired:
            outcome.timed_out, outcome.is_cut_off = True, left < limit
        self.stop()
        outcome.seconds = time.monotonic() - began
        outcome.stdout, outcome.stderr = (file.read_text(errors="replace") for file in (out, err))
        return outcome

    def wait(self, limit, out):
        """Waits for the program, which writes the file `out`. Returns its exit status. Throws
        TimeoutExpired after `limit` seconds; in a dry run also if the program says that it
        hangs."""
        deadline = time.monotonic() + limit
        pause = 0.05 if self.args.stub else limit
        while True:
            left = deadline - time.monotonic()
            try:
                return self.process.wait(max(min(pause, left), 0))
            except subprocess.TimeoutExpired:
                if left <= pause or HANGS in out.read_text():
                    raise

    def stop(self):
        """Ends the program: sends it SIGTERM, then SIGKILL to all processes of its session. Waits
        for them, because a running process still uses the memory of the GPU."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)
        deadline = time.monotonic() + GRACE_SECONDS
        while (remaining := processes_of(self.process.pid)) and time.monotonic() < deadline:
            for pid in remaining:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        self.process.poll()
        self.process = None


def read_json(text):
    """Returns the JSON object in `text`, or an empty dictionary."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = {}
    return found if isinstance(found, dict) else {}
