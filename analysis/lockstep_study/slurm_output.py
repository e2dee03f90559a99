# SPDX-License-Identifier: BSD-3-Clause
"""Reads the output of squeue and sacct."""

import re

from lockstep_study.scheduler import Job, Usage

MEMORY_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
OUT_OF_MEMORY = "OUT_OF_MEMORY"


def job_of_line(line):
    """Returns the job in a line of squeue: id, state, name and reason."""
    cells = [*line.split(None, 3), "", "", ""]
    identifier, state = cells[:2]
    name, reason = cells[2:4]
    if re.search("[Hh]eld", reason):
        state = "HELD"
    return Job(identifier, name, state, identifier.partition("_")[2], reason)


def usage_of_rows(text):
    """Returns {id: Usage} from rows id|state|seconds|memory of sacct: a job has a row, and each of
    its steps another one. The last row of an id is that of its last start; rows of pending tasks,
    such as 12_[3-5%2], are left out. The memory is the largest of the steps: that of one rank with
    srun, and the sum of those on the first node with mpirun. A step, not the job, states that it
    ran out of memory."""
    found = {}
    for line in text.splitlines():
        cells = [*line.split("|"), "", "", ""]
        row, state, rest = cells[0], cells[1], cells[2:]
        job, is_step, _ = row.partition(".")
        if "[" in job:
            continue
        if not is_step:
            found[job] = Usage(state, int(rest[0]) if rest[0].isdigit() else None)
            continue
        usage = found.setdefault(job, Usage())
        if state.startswith(OUT_OF_MEMORY):
            usage.state = state
        usage.memory = max(bytes_of(rest[1]), usage.memory or 0) or None
    return found


def bytes_of(text):
    """Returns an amount of memory such as 1234K, 12M or 1234 in bytes; 0 if it is empty."""
    found = re.fullmatch(r"([0-9.]+)([KMGT]?)", text)
    return round(float(found[1]) * MEMORY_UNITS[found[2]]) if found else 0
