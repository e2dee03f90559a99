# SPDX-License-Identifier: BSD-3-Clause
"""Runs the program, as it was built with one Open MPI, under the mpirun and with the library of
others: those that `jobs/setup --libraries` installs from PyPI, as users have them in virtual
environments. The presets cpu-openmpi5 and cpu-mpich build with them.
"""

import json
import os
import pathlib
import signal
import subprocess

import h5py
import pytest
from command_line import BIN, HANG, MPIRUN, environment, messages_of, train
from interrupted_runs import FORWARD_SIGNALS, LONG, start_until_checkpoint

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPENMPI_5, MPICH = (ROOT / "build" / "libraries" / name for name in ("openmpi5", "mpich"))
WARNING = "if mpirun is stopped by SIGTERM or Ctrl-C, it kills the ranks within 2 s"
libraries = pytest.mark.requires("MPI_LIBRARIES")


def test_program_does_not_need_the_removed_bindings_of_cpp():
    needed = subprocess.run(
        ["readelf", "--dynamic", BIN], text=True, capture_output=True, check=True
    ).stdout
    assert "libmpi" in needed and "libmpi_cxx" not in needed and "libmpicxx" not in needed


def mpirun_of(folder):
    program = folder / "bin" / "mpirun"
    assert program.exists(), f"{program} does not exist; run jobs/setup --libraries"
    return [program]


def start(*command, **variables):
    return subprocess.run(
        list(map(str, command)),
        env=environment() | variables,
        text=True,
        capture_output=True,
        timeout=HANG,
    )


@libraries
@pytest.mark.parametrize("replaced_by", ["mpirun", "LD_LIBRARY_PATH"])
def test_open_mpi_5_replaces_the_library_of_the_build(tmp_path, replaced_by):
    command, variables = [*mpirun_of(OPENMPI_5), "--bind-to", "none"], {}
    if replaced_by == "LD_LIBRARY_PATH":
        command, variables = MPIRUN, {"LD_LIBRARY_PATH": str(OPENMPI_5 / "lib")}
    output = tmp_path / "run.h5"
    result = start(
        *command, "-n", 2, BIN, *train(output=output, data="synthetic:24@3x8x8"), **variables
    )
    assert result.returncode == 0, result.stderr
    with h5py.File(output) as file:
        assert (
            file["environment"].attrs["mpi_version"] == b"Open MPI 5.0.11"
            and len(file["ranks/hostname"]) == 2
        )
    result = start(
        *command, "-n", 2, BIN, "allreduce", "--max-bytes=64K", "--repeats=2", "--json", **variables
    )
    assert result.returncode == 0 and json.loads(result.stdout), result.stderr


@libraries
def test_study_with_open_mpi_5_has_more_ranks_than_cores(tmp_path):
    ranks = len(os.sched_getaffinity(0)) + 1
    table = tmp_path / "table.tsv"
    table.write_text(
        f"many\t{ranks}\t" + " ".join(train(data="synthetic:24@3x8x8", steps=1)), encoding="utf-8"
    )
    mpirun_of(OPENMPI_5)
    result = start(
        ROOT / "jobs" / "study",
        "--no-report",
        "--dir",
        tmp_path / "out",
        table,
        LOCKSTEP_BIN=BIN,
        PATH=f"{OPENMPI_5}/bin:{os.environ['PATH']}",
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out" / "many-1.done").exists()


@libraries
@pytest.mark.parametrize(
    "prefix, status, saved", [([], None, False), ([FORWARD_SIGNALS], 75, True)]
)
def test_mpirun_of_open_mpi_5_kills_the_ranks_unless_signals_are_forwarded(
    tmp_path, monkeypatch, prefix, status, saved
):
    """Version 5 ignores the longer time that version 4 permits, so the warning must appear."""
    monkeypatch.setenv("OMPI_MCA_odls_base_sigkill_timeout", "30")
    checkpoints = tmp_path / "ckpt"
    command = [
        *prefix,
        *mpirun_of(OPENMPI_5),
        "--bind-to",
        "none",
        "-n",
        "2",
        BIN,
        *train(**LONG, checkpoint_dir=checkpoints),
    ]
    returned, errors = start_until_checkpoint(checkpoints, command, signal.SIGTERM)
    assert returned == status or (status is None and returned not in (0, 75)), errors
    assert ("a checkpoint is in" in errors) == saved and (WARNING in errors) != saved


@libraries
def test_mpirun_of_mpich_is_refused():
    result = start(*mpirun_of(MPICH), "-n", 2, BIN, *train())
    assert (
        result.returncode == 2
        and len(messages_of(result)) >= 1
        and len(result.stderr.splitlines()) <= 2
    ), result.stderr
    assert "start with the mpirun of the MPI library this program was built with" in result.stderr


def test_prefix_of_another_open_mpi_is_refused_in_one_line(tmp_path):
    result = start(BIN, "info", OPAL_PREFIX=str(tmp_path))
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1, result.stderr
    assert (
        f"OPAL_PREFIX={tmp_path}" in result.stderr
        and f"LD_LIBRARY_PATH={tmp_path}/lib" in result.stderr
    )
