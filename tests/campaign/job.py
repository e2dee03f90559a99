# SPDX-License-Identifier: BSD-3-Clause
"""Starts a training job, finds its processes, and determines when it is over and what it has left
behind.

Every process of a job has the variable CAMPAIGN_RUN in its environment, by which it is found on any
(emulated) host of this machine. TMPDIR of a job is a folder of its own, so a temporary file that
remains belongs to this job.
"""

import os
import pathlib
import resource
import signal
import subprocess
import time

VARIABLE = "CAMPAIGN_RUN"
# mpirun and its daemons on other hosts notice a lost link after 3 s instead of 8 minutes.
KEEPALIVE = {
    "OMPI_MCA_oob_tcp_keepalive_time": "1",
    "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
    "OMPI_MCA_oob_tcp_keepalive_probes": "2",
}


def environment(token, scratch, watchdog):
    """Returns the environment of a job: that of this process without options of Lockstep."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    return (
        KEEPALIVE
        | inherited
        | {
            VARIABLE: token,
            "TMPDIR": str(scratch),
            "LOCKSTEP_WATCHDOG": str(watchdog),
            "OMP_WAIT_POLICY": "passive",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
    )


def variables_of(pid):
    """Returns the environment of a process as a dictionary of bytes; empty if the process has
    ended."""
    try:
        entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


class Job:
    """A process group, which Ctrl-C does not signal, that runs `command`. `folder` gets its output:
    stdout and stderr."""

    def __init__(self, command, folder, token, watchdog):
        self.folder, self.token = folder, token
        self.scratch = folder / "tmp"
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.job_ids = set()
        self.begin = time.monotonic()
        # The same folder holds the output of the job that resumes.
        self.number = len(list(folder.glob("stdout*")))
        with self.file("stdout").open("wb") as out, self.file("stderr").open("wb") as err:
            self.process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
                env=environment(token, self.scratch, watchdog),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
            )

    def file(self, name):
        return self.folder / (name if self.number == 0 else f"{name}.resumed")

    def stderr(self):
        return self.file("stderr").read_text(errors="replace")

    def processes(self):
        """Returns {process id: rank or None} of the processes of the job that have not ended."""
        found = {}
        expected = self.token.encode()
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            variables = variables_of(entry.name)
            if variables.get(VARIABLE.encode()) != expected:
                continue
            rank = variables.get(b"OMPI_COMM_WORLD_RANK")
            found[int(entry.name)] = None if rank is None else int(rank)
            if b"PMIX_NAMESPACE" in variables:
                self.job_ids.add(int(variables[b"PMIX_NAMESPACE"]))
        return found

    def ranks(self):
        """Returns {rank: process id}."""
        return {rank: pid for pid, rank in self.processes().items() if rank is not None}

    def wait_for(self, condition, seconds=120, interval=0.05):
        """Returns the first true value of `condition()`, or None if the job ends first or the time
        has passed."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(interval)
        return None

    def wait_until_over(self, begin, limit):
        """Waits until the launcher and all processes have ended, or until `limit` seconds after
        `begin`. Returns the seconds from `begin` until all ranks have ended, and until the whole
        job is over; None for what has not ended.
        """
        ranks = None
        while True:
            processes = self.processes()
            seconds = time.monotonic() - begin
            if any(rank is not None for rank in processes.values()):
                ranks = None
            elif ranks is None:
                ranks = seconds
            if not processes and self.process.poll() is not None:
                return ranks, seconds
            if seconds > limit:
                return ranks, None
            time.sleep(0.05)

    def kill(self):
        """Kills all processes of the job."""
        for _ in range(100):
            pids = list(self.processes())
            for pid in pids:
                signal_process(pid, signal.SIGKILL)
            if self.process.poll() is not None and not pids:
                return
            time.sleep(0.05)

    def leftovers(self):
        """Returns what the job has left: the files of Open MPI (session directories, and
        shared-memory segments, whose names contain the id of the job), and all other temporary
        files. Segments of Lockstep have no name.
        """
        files = [path for path in self.scratch.rglob("*") if not path.is_dir()]
        of_mpi = [
            path for path in files if path.relative_to(self.scratch).parts[0].startswith("ompi.")
        ]
        other = [path for path in files if path not in of_mpi]
        names = [f".{job_id:x}." for job_id in self.job_ids]
        of_mpi += [
            path
            for path in pathlib.Path("/dev/shm").iterdir()
            if any(name in path.name for name in names)
        ]
        return sorted(of_mpi), sorted(other)


def signal_process(pid, number):
    """Sends a signal; returns whether the process existed."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
