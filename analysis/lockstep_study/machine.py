# SPDX-License-Identifier: BSD-3-Clause
"""The processors of this machine, and the environment in which Open MPI starts ranks on it."""

import os
import pwd
from pathlib import Path

CONTAINERS = ("/.dockerenv", "/run/.containerenv")
MOST_RANKS_PER_PROCESSOR = 16
TEMPORARY = ("TMPDIR", "TEMP", "TMP")


def processors():
    """Returns the number of processors (hardware threads) that this process may use."""
    return len(os.sched_getaffinity(0))


def can_start(ranks):
    """Returns whether a check may start so many ranks on this machine; the ranks of a table for a
    cluster would exhaust its memory."""
    return ranks <= MOST_RANKS_PER_PROCESSOR * processors()


def physical_cores():
    """Returns the number of physical cores of these processors."""
    cores = set()
    for processor in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        try:
            cores.add(topology.read_text(encoding="ascii"))
        except OSError:
            cores.add(str(processor))
    return len(cores)


def forget_missing_folders(environment):
    """Removes the folders for temporary files that this process cannot write to: those of another
    node, or not visible in a container. mpirun and Python would fail."""
    for name in TEMPORARY:
        if not os.access(environment.get(name, ""), os.W_OK):
            environment.pop(name, None)


def mpi_environment(ranks, environment):
    """Returns the variables with which Open MPI starts `ranks` ranks on this host: as root and
    without a home directory (in containers), and with more ranks than slots. The slots of an
    allocation are its tasks, not its processors (salloc -n 1 -c 2, Jupyter). Ranks that wait yield
    their core only if there are more ranks than processors. Those in `environment` have precedence.
    """
    variables = {
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # Open MPI 5
        "OMPI_MCA_mpi_yield_when_idle": str(int(ranks > processors())),
    }
    if processors() >= ranks > physical_cores():  # as mpirun --use-hwthread-cpus
        variables["OMPI_MCA_hwloc_base_use_hwthreads_as_cpus"] = "1"
    if in_container(environment):
        # In most containers, a process may not read the memory of another process, and Open MPI
        # prints a warning for every attempt.
        variables["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
    if os.getuid() == 0:
        variables["OMPI_ALLOW_RUN_AS_ROOT"] = variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    if not has_home():
        variables["HOME"] = "/nonexistent"  # mpirun fails without a value
    return {name: environment.get(name) or value for name, value in variables.items()}


def in_container(environment):
    return bool(environment.get("APPTAINER_CONTAINER")) or any(map(os.path.exists, CONTAINERS))


def has_home():
    """Returns whether the user database contains this user."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True
