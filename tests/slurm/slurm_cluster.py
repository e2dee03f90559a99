# SPDX-License-Identifier: BSD-3-Clause
"""A Slurm cluster for a test, and the studies that the test submits to it."""

import os
import pathlib
import re
import signal
import subprocess
import time

import h5py

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(__file__).resolve().parent / "cluster"
SUBMIT = ROOT / "jobs" / "slurm" / "submit"
STATUS = SUBMIT.with_name("status")
COMMAND_LIMIT = 200  # seconds; a command that takes longer does not end
# Seconds; what takes longer does not happen. All scenarios together take 150 s on two idle
# processors, and several times as long beside other tests.
WAIT_LIMIT = 900
OPTIONS = [
    "--data",
    "synthetic:64@3x8x8",
    "--threads",
    "1",
    "--evaluate-every",
    "never",
    "--checkpoint-every",
    "10-steps",
]


class CommandFailed(Exception):
    """A command of Slurm failed."""


class Cluster:
    """A running cluster of two nodes. `folder`: its configuration and logs; `work`: a folder for
    tables and results; `options`: of `cluster run`."""

    def __init__(self, folder, options=()):
        self.folder, self.work, self.options = folder / "cluster", folder / "work", options
        self.work.mkdir()
        self.environment = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.studies = []

    def __enter__(self):
        self.daemons = subprocess.Popen(
            [PROGRAM, "run", *self.options, self.folder, "bash", "-c", "echo ready && cat"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if self.daemons.stdout.readline() != "ready\n":
            raise RuntimeError(self.daemons.stderr.read().strip())
        return self

    def __exit__(self, *_):
        """Ends the cluster, which also ends all jobs."""
        self.daemons.stdin.close()
        self.daemons.wait(30)
        self.daemons.stdout.close()
        self.daemons.stderr.close()
        assert (
            subprocess.run(["pgrep", "-f", self.folder], stdout=subprocess.DEVNULL).returncode == 1
        ), "processes remain"

    def start(self, *command):
        """Runs a command; returns the completed process."""
        return subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT,
            env=self.environment,
        )

    def start_parts(self, *command):
        """As `start`, for srun with several parts. That of Slurm 22.05 sometimes does not end
        although all tasks and steps of an MPI program have ended (docs/reliability.md); it is
        repeated then. A task that does not end is an error.
        """
        for _ in range(5):
            with subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=self.environment,
            ) as process:
                try:
                    output, errors = process.communicate(timeout=60)
                    return subprocess.CompletedProcess(command, process.returncode, output, errors)
                except subprocess.TimeoutExpired:
                    steps = self.run("squeue", "--steps", "--noheader")
                    assert steps == "", steps
                    self.run("scancel", "--user", "root")
                finally:
                    process.kill()
        raise RuntimeError(f"{command}: srun does not end")

    def run(self, *command):
        """Returns the output of a command. Fails with its error message if it fails."""
        result = self.start(*command)
        if result.returncode != 0:
            raise CommandFailed(f"{command}: status {result.returncode}: {result.stderr}")
        return result.stdout

    def job(self, identifier):
        """Returns the fields of a job as `scontrol show job` prints them. Repeats the query for 30
        s if it fails, because the controller does not always answer in time on a loaded machine."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                return self.fields_of(identifier)
            except (CommandFailed, subprocess.TimeoutExpired):
                time.sleep(1)
        return self.fields_of(identifier)

    def fields_of(self, identifier):
        return dict(
            re.findall(
                r"(\w+)=(\S*)", self.run("scontrol", "--oneliner", "show", "job", identifier)
            )
        )

    def wait_until(self, condition):
        """Waits until the condition is true, and returns its value; fails after WAIT_LIMIT."""
        end = time.monotonic() + WAIT_LIMIT
        while not (result := condition()):
            assert time.monotonic() < end, f"not true after {WAIT_LIMIT} s; jobs:\n" + self.run(
                "squeue", "--all", "--states=all"
            )
            time.sleep(0.2)
        return result

    def wait_for_state(self, identifier, *states):
        self.wait_until(lambda: self.job(identifier)["JobState"] in states)

    def try_submit(self, table, *options, further=(), folder="results", program=SUBMIT):
        """Calls `submit` with one repeat per point; returns the completed process."""
        path = self.work / "points.tsv"
        if not isinstance(table, pathlib.Path):
            path.write_text(table, encoding="utf-8")
            table = path
        return subprocess.run(
            [
                program,
                "--repeats",
                "1",
                "--dir",
                self.work / folder,
                *options,
                table,
                "--",
                *OPTIONS,
                *further,
            ],
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT,
            env=self.environment,
        )

    def submit(self, table, *options, further=(), folder="results", program=SUBMIT):
        result = self.try_submit(table, *options, further=further, folder=folder, program=program)
        assert result.returncode == 0, result.stderr
        self.studies.append(Study(self, self.work / folder, result))
        return self.studies[-1]

    def kill_node(self, node):
        """Kills slurmd of a node. All other processes of the node end with it."""
        for pid in self.run("pgrep", "-f", f"^slurmd -D -N {node} -f {self.folder}/").split():
            os.kill(int(pid), signal.SIGKILL)

    def output(self):
        """Returns the logs of the jobs of all studies."""
        logs = (log for study in self.studies for log in sorted((study.folder / "logs").glob("*")))
        return "\n".join(f"== {log}\n{log.read_text()}" for log in logs)


class Study:
    """A submitted study: `arrays` are the ids of the array jobs, `report` is the id of the report
    job."""

    def __init__(self, cluster, folder, result):
        self.cluster, self.folder, self.warnings = cluster, folder, result.stderr
        found = re.search(r"submitted the arrays ([\d ]+); job (\d+) writes", result.stdout)
        assert found, result.stdout
        self.arrays, self.report = found[1].split(), found[2]

    def started(self, point, restart=0):
        """Waits until the first checkpoint of a point exists and its process after `restart`
        restarts runs."""
        self.cluster.wait_until(
            lambda: (
                list(self.folder.glob(f"checkpoints/{point}-1/checkpoint-*.h5"))
                and list(self.folder.glob(f"{point}-1.{self.arrays[0]}_*.{restart}.h5*"))
            )
        )

    def parts(self, point):
        """Returns the status of each run file of a point, by restart."""
        files = sorted(
            self.folder.glob(f"{point}-1.*.h5"), key=lambda path: int(path.suffixes[-2][1:])
        )
        return [status(path) for path in files]

    def resumed(self):
        """Waits until a task with the index 1 has resumed from a checkpoint; returns its number of
        steps."""
        log = self.folder / "logs" / f"{self.arrays[0]}_1.log"
        return int(
            self.cluster.wait_until(
                lambda: (
                    log.exists()
                    and re.search(r"^  resumed after step (\d+)$", log.read_text(), re.M)
                )
            )[1]
        )


def status(path):
    with h5py.File(path) as file:
        return file.attrs["status"].decode()
