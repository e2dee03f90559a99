# SPDX-License-Identifier: BSD-3-Clause
"""Attempts of one job: if torchrun restarts the processes, or Slurm requeues the job, the new
attempt keeps the file of the one before under another name."""

import os
import socket
from pathlib import Path

import h5py

ELASTIC = "TORCHELASTIC_RUN_ID"


def job():
    """Returns a text that all attempts of a job have in common, and no other job; "" without such a
    launcher."""
    name = os.environ.get(ELASTIC)
    if name is not None:
        return f"torchrun {name if name not in ('', 'none') else agent()}"
    slurm = os.environ.get("SLURM_JOB_ID")
    return f"slurm {slurm}.{os.environ.get('SLURM_STEP_ID', '')}" if slurm else ""


def agent():
    """Returns the host, process id and start time of torchrun: the first process above this one
    that it did not start."""
    pid = os.getppid()
    while pid > 1 and f"{ELASTIC}=".encode() in read(pid, "environ"):
        pid = int(stat(pid)[1])
    return f"{socket.gethostname()} {pid} {stat(pid)[19]}"


def read(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # a process of another user
        return b""


def stat(pid):
    """Returns the fields of /proc/PID/stat from the state on."""
    return [*read(pid, "stat").decode("utf-8", "replace").rpartition(")")[2].split(), *[""] * 20]


def environment():
    """Returns the attributes of /environment by which a later attempt recognises the run file."""
    return {"job": job(), "process": f"{socket.gethostname()} {os.getpid()}"} if job() else {}


def is_of_earlier_attempt(path):
    """Returns whether an earlier attempt of this job wrote the run file `path`. The number of
    restarts that torchrun states is not used, because it counts only those that the own host has
    caused."""
    if ELASTIC not in os.environ and "SLURM_RESTART_COUNT" not in os.environ:
        return False
    try:
        with h5py.File(path, locking=False) as file:
            found = {
                name: as_text(file["environment"].attrs.get(name, ""))
                for name in ("job", "process")
            }
    except (OSError, KeyError):  # no run file
        return False
    own = environment()
    return found["job"] == own["job"] and found["process"] != own["process"]


def as_text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
