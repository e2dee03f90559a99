# SPDX-License-Identifier: BSD-3-Clause
"""Names of the run files of `lockstep_recorder`: attempts of one job by torchrun and Slurm, and
several writers in one process."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from lockstep_recorder import attempts
from lockstep_recorder.run_file import RunFileWriter, last_writer
from lockstep_report.runfile.schema import PHASES

TORCHRUN, REQUEUED = (
    {"TORCHELASTIC_RUN_ID": "a7"},
    {
        "SLURM_JOB_ID": "5",
        "SLURM_STEP_ID": "0",
        "SLURM_RESTART_COUNT": "1",
    },
)
OTHER = f"{socket.gethostname()} 1"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "now, job, process, is_earlier",
    [
        (TORCHRUN, "torchrun a7", OTHER, True),
        (TORCHRUN, "torchrun a7", None, False),
        (TORCHRUN, "torchrun b", OTHER, False),
        (TORCHRUN, "", OTHER, False),
        (REQUEUED, "slurm 5.0", OTHER, True),
        (REQUEUED, "slurm 6.0", OTHER, False),
        ({**REQUEUED, "SLURM_RESTART_COUNT": None}, "slurm 5.0", OTHER, False),
        ({}, "", OTHER, False),
    ],
)
def test_only_the_file_of_an_earlier_attempt_is_set_aside(
    now, job, process, is_earlier, tmp_path, monkeypatch
):
    for name, value in now.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    path = tmp_path / "run.h5"
    with h5py.File(path, "w") as file:
        file.create_group("environment").attrs.update(
            job=job, process=process or f"{socket.gethostname()} {os.getpid()}"
        )
    content = path.read_bytes()
    if is_earlier:
        RunFileWriter(path).close()
    else:
        with pytest.raises(FileExistsError, match="run.h5 exists; give another name"):
            RunFileWriter(path)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {
        "run.h5.1" if is_earlier else "run.h5": content
    }


def test_torchrun_without_an_id_is_recognised_by_its_process(monkeypatch):
    """Each attempt is a child of torchrun; its number, which differs between hosts, is not used."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    host, parent, start = attempts.job().split()[1:]
    assert (host, int(parent)) == (socket.gethostname(), os.getppid()) and int(start) > 0


@pytest.mark.parametrize("content", [b"", b"text"])
def test_a_file_of_another_kind_is_kept(content, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a7")
    (tmp_path / "run.h5").write_bytes(content)
    with pytest.raises(FileExistsError):
        RunFileWriter(tmp_path / "run.h5")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder .*/runs does not exist; create it"):
        RunFileWriter(tmp_path / "runs" / "run.h5")


def test_a_second_writer_of_a_process_takes_the_name(tmp_path):
    """As if a cell of a notebook runs again after an exception, which keeps the first Recorder."""
    first = last_writer(tmp_path / "run.h5")
    first.partial.write_bytes(b"epochs")
    second = last_writer(tmp_path / "run.h5")
    assert (tmp_path / "run.h5.partial.1").read_bytes() == b"epochs"
    with pytest.raises(RuntimeError, match="a later Recorder of this process writes it"):
        first.append({})
    first.close()
    assert second.partial.exists()
    second.close()
    assert not second.partial.exists()


def test_a_file_that_is_replaced_stays_reserved(tmp_path):
    """A later epoch can change what the file states for all epochs."""
    writer = RunFileWriter(tmp_path / "run.h5")
    for steps in (1, 2):
        writer.create(
            {"steps_per_epoch": steps}, {}, {"/phase": PHASES, "/rank": [0]}, set(), steps
        )
        with pytest.raises(FileExistsError, match="an active run writes it"):
            RunFileWriter(tmp_path / "run.h5")
    writer.close()
    assert [each.name for each in tmp_path.iterdir()] == ["run.h5"]
    with h5py.File(tmp_path / "run.h5") as file:
        assert file.attrs["steps_per_epoch"] == 2


def test_a_file_that_is_replaced_while_it_is_opened_is_not_taken(tmp_path, monkeypatch):
    partial, lock = tmp_path / "run.h5.partial", fcntl.flock

    def lock_late(descriptor, mode):
        monkeypatch.setattr(fcntl, "flock", lock)
        (tmp_path / "new").write_bytes(b"epochs")
        (tmp_path / "new").rename(partial)
        lock(descriptor, mode)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    writer = RunFileWriter(tmp_path / "run.h5")
    assert (tmp_path / "run.h5.partial.1").read_bytes() == b"epochs"
    assert os.path.samestat(os.fstat(writer.lock), partial.stat())
    writer.close()


def test_children_do_not_keep_the_name(tmp_path):
    """The parent is killed while a worker of a DataLoader, which is a child of fork, still runs."""
    code = (
        "import os, signal, sys, time; sys.path.insert(0, sys.argv[2]); from"
        " lockstep_recorder.run_file import RunFileWriter\nwriter = RunFileWriter(sys.argv[1])\nif"
        " os.fork():\n    os.kill(os.getpid(), signal.SIGKILL)\nprint(os.getpid(), flush=True);"
        " time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "run.h5", Path(__file__).parents[1]],
        text=True,
        stdout=subprocess.PIPE,
    )
    child = int(parent.stdout.readline())
    try:
        assert parent.wait() == -signal.SIGKILL
        RunFileWriter(tmp_path / "run.h5").close()
    finally:
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()
