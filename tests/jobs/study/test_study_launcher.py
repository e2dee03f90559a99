# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the launcher and of the processors of the ranks."""

import os
import socket
import subprocess
from unittest.mock import patch

import pytest
from in_process import write_program
from lockstep_study import machine
from study_command import ROOT, study


@patch.object(machine, "processors", lambda: 2)
@patch.object(machine, "physical_cores", lambda: 1)
def mpi_environment(ranks, **variables):
    """Returns the variables of Open MPI for `ranks` ranks, on two hardware threads of one core."""
    return machine.mpi_environment(ranks, variables)


def test_ranks_may_use_all_hardware_threads():
    hardware_threads = "OMPI_MCA_hwloc_base_use_hwthreads_as_cpus"
    assert (
        hardware_threads not in mpi_environment(1) and mpi_environment(2)[hardware_threads] == "1"
    )


def test_ranks_yield_only_if_they_share_processors():
    """More ranks than slots are not more ranks than processors: an allocation may have one task
    with two processors."""
    oversubscribe, yields = "OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_mpi_yield_when_idle"
    for ranks, expected in ((1, "0"), (2, "0"), (3, "1")):
        assert mpi_environment(ranks).items() >= {(oversubscribe, "1"), (yields, expected)}
    assert mpi_environment(2, **{yields: "1", oversubscribe: "0"}).items() >= {
        (oversubscribe, "0"),
        (yields, "1"),
    }


def test_each_point_has_the_environment_of_its_ranks(table, tmp_path, program, monkeypatch):
    """Ranks that share processors yield them, in checks, timed sweeps and runs."""
    monkeypatch.setattr(machine, "processors", lambda: 2)
    record = f"""echo "$1 ${{@: -1}} $OMPI_MCA_mpi_yield_when_idle" >>"{tmp_path}/yields\""""
    stub = program(check=f"{record}; exit 0")
    path = tmp_path / "lockstep"
    path.write_text(path.read_text().replace("touch", f"{record}; touch"), encoding="utf-8")
    table.write_text("one\t2\ttrain\ntwo\t3\tallreduce\n", encoding="utf-8")
    words = ["--launcher", "env RANKS=RANKS", "--no-report", "--dir", tmp_path / "out", table]
    assert study(*words, **stub, OMPI_MCA_mpi_yield_when_idle="").returncode == 0
    lines = (tmp_path / "yields").read_text(encoding="utf-8").splitlines()
    yields = {line.split()[0]: set() for line in lines}
    for line in lines:
        yields[line.split()[0]].add(line.split()[-1])
    assert yields == {"train": {"0"}, "allreduce": {"1"}} and len(lines) == 6


# Salloc -n 1 -c 2.
ONE_SLOT = {
    "SLURM_JOB_ID": "77",
    "SLURM_NNODES": "1",
    "SLURM_NTASKS": "1",
    "SLURM_TASKS_PER_NODE": "1",
    "SLURM_CPUS_PER_TASK": "2",
    "SLURM_JOB_NODELIST": socket.gethostname(),
    "SLURM_NODELIST": socket.gethostname(),
}


@pytest.mark.parametrize("slots", ["Slurm", "hostfile"])
def test_points_run_with_more_ranks_than_slots(table, tmp_path, slots):
    """mpirun itself starts the processes; without the settings of the script, it refuses them."""
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n", encoding="utf-8")
    stub = tmp_path / "lockstep"
    write_program(
        stub,
        f"""#!/bin/bash
case "$1 ${{@: -1}}" in help* | *--dry-run | *--json) exit 0 ;; esac
echo >>"{tmp_path}/ranks"
touch "${{@: -1}}"
""",
    )
    table.write_text("two\t2\tallreduce\n", encoding="utf-8")
    variables = ONE_SLOT if slots == "Slurm" else {"OMPI_MCA_orte_default_hostfile": str(hosts)}
    result = study(
        "--no-report", "--dir", tmp_path / "out", table, LOCKSTEP_BIN=str(stub), **variables
    )
    assert result.returncode == 0, result.stderr
    assert len((tmp_path / "ranks").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "study: the program /nowhere was not found; build it"),
        (
            ["--launcher", "no-such-mpirun -n RANKS"],
            "study: the launcher no-such-mpirun was not found; load",
        ),
    ],
)
def test_missing_programs_are_one_error(table, tmp_path, options, message):
    result = study(*options, "--dir", tmp_path / "out", table)
    assert (
        result.returncode == 1
        and result.stderr.startswith(message)
        and len(result.stderr.splitlines()) == 1
    )


def test_number_of_processors_does_not_follow_openmp():
    for variables in ({}, {"OMP_NUM_THREADS": "100"}, {"OMP_THREAD_LIMIT": "1"}):
        with patch.dict(os.environ, variables):
            assert machine.processors() == len(os.sched_getaffinity(0))
        result = subprocess.run(
            ["bash", "-c", f"source {ROOT}/jobs/lib.sh; cores"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | variables,
        )
        assert int(result.stdout) == len(os.sched_getaffinity(0))
